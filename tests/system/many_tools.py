"""Several of Kafka's command-line tools one after another in one JVM: starting one costs seconds."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from pathlib import Path

from aiokafkapy.testing import KafkaTools
from tests.java_sources import compiled_into

__all__ = ["CLUSTER", "ManyTools"]

SOURCE = Path(__file__).with_name("ManyTools.java")
CLUSTER = "org.apache.kafka.tools.ClusterTool"


class ManyTools:
    """The tools of one version of Kafka."""

    def __init__(self, tools: KafkaTools, directory: Path) -> None:
        """Compiles the class that runs them into a directory, and blocks meanwhile."""
        classes = compiled_into(directory, SOURCE, Path(tools.classpath).parent)
        self._file = directory / "commands"
        self._tools = copy.copy(tools)
        self._tools.classpath = os.pathsep.join([tools.classpath, str(classes)])

    async def run(
        self, bootstrap_servers: str, commands: Sequence[Sequence[object]], *, stdin: bytes = b""
    ) -> list[tuple[int, str]]:
        """Run them, each a class and its arguments; how each ended, and its output. Only one may read ``stdin``."""
        server = ["--bootstrap-server", bootstrap_servers]
        lines = [
            # This one has options behind its sub-command only.
            [name, *words, *server] if name == CLUSTER else [name, *server, *words]
            for name, *words in commands
        ]
        self._file.write_text("\n\n".join("\n".join(map(str, words)) for words in lines))
        said = await self._tools.run("ManyTools", self._file, stdin=stdin)
        answers: list[tuple[int, str]] = []
        text = ""
        for line in said.splitlines():
            if line.startswith("=== "):
                answers.append((int(line[4:]), text.strip()))
                text = ""
            else:
                text += line + "\n"
        assert len(answers) == len(commands), said
        return answers
