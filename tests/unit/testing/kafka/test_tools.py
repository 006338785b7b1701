"""Tools are run, with Python in the place of Java."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from aiokafkapy.testing.kafka import tools as module
from aiokafkapy.testing.kafka.tools import KafkaToolError, KafkaTools


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> KafkaTools:
    monkeypatch.setattr(module, "fetch_jars", lambda version: Path("jars"))
    return KafkaTools()


def _runs(tools: KafkaTools, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    python = [sys.executable, "-c", program]
    monkeypatch.setattr(tools, "command", lambda name, *arguments: [*python, *map(str, arguments)])


def test_the_command_runs_a_class_from_the_jars(tools: KafkaTools) -> None:
    command = tools.command("kafka.Kafka", Path("server.properties"), 5)
    assert command[0] == "java"
    assert command[-5:] == ["-cp", "jars/*", "kafka.Kafka", "server.properties", "5"]


async def test_a_run_has_the_input_and_the_output_of_the_tool(
    tools: KafkaTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    _runs(tools, monkeypatch, "import sys; print(sys.argv[1:], sys.stdin.read())")
    assert await tools.run("a.Class", "one", stdin=b"given") == "['one'] given\n"


async def test_a_failure_has_the_end_of_its_output(tools: KafkaTools, monkeypatch: pytest.MonkeyPatch) -> None:
    _runs(tools, monkeypatch, "import sys; print('out'); sys.exit('what went wrong')")
    with pytest.raises(KafkaToolError, match=r"(?s)a\.Class ended with 1:\nout\nwhat went wrong"):
        await tools.run("a.Class")
    assert await tools.run("a.Class", check=False) == "out\n"


async def test_a_tool_that_takes_too_long_is_killed(tools: KafkaTools, monkeypatch: pytest.MonkeyPatch) -> None:
    _runs(tools, monkeypatch, "import signal; signal.pause()")
    with pytest.raises(KafkaToolError, match=r"did not end within 0\.2 s"):
        await tools.run("a.Class", timeout=0.2)


async def test_cancelling_kills_it(tools: KafkaTools, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    _runs(tools, monkeypatch, f"import os, signal; open({str(pipe)!r}, 'w').write(str(os.getpid())); signal.pause()")
    running = asyncio.create_task(tools.run("a.Class"))
    pid = int(await asyncio.to_thread(pipe.read_text))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_the_console_consumers_options(tools: KafkaTools, monkeypatch: pytest.MonkeyPatch) -> None:
    _runs(tools, monkeypatch, "import sys; print(*sys.argv[1:], sep='\\n')")
    said = await tools.console_consumer(
        "h:1", "t", max_messages=3, properties={"print.key": True, "key.separator": "|"}, arguments=["--partition", 0]
    )
    assert said == [
        *("--bootstrap-server", "h:1", "--topic", "t", "--from-beginning", "--timeout-ms", "30000"),
        *("--max-messages", "3", "--property", "print.key=true", "--property", "key.separator=|"),
        *("--partition", "0"),
    ]
