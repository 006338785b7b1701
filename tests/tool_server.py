"""Kafka's command-line tools one after another in a JVM that stays: starting one costs a second of CPU.

Rule: a tool that runs beside another one, or that ends only when it is stopped, is run by ``KafkaTools``.
"""

from __future__ import annotations

import asyncio
import os
import struct
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from aiokafkapy.testing import KafkaToolError, KafkaTools
from aiokafkapy.testing.servers.watchdog import Watchdog
from tests.java_sources import compiled

__all__ = ["CLUSTER", "ToolServer"]

SOURCE = Path(__file__).with_name("ToolServer.java")
TIMEOUT = 120.0
CLUSTER = "org.apache.kafka.tools.ClusterTool"


class ToolServer(KafkaTools):
    """Kafka's tools, to be entered by ``with``; the JVM starts with the first of them.

    One runs at a time, and a second one waits for it.
    """

    def __init__(self, tools: KafkaTools) -> None:
        """Needs no jars but those of ``tools``, whose archive of classes still fits: added jars come last."""
        self.archive = tools.archive
        self.classpath = os.pathsep.join([tools.classpath, str(compiled(SOURCE, Path(tools.classpath).parent))])
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None

    def __enter__(self) -> Self:
        self._watchdog = Watchdog()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if self._watchdog is not None:
            self._watchdog.close()

    async def run(
        self, class_name: str, *arguments: object, stdin: bytes = b"", timeout: float = TIMEOUT, check: bool = True
    ) -> str:
        """Run a tool as ``KafkaTools.run`` does, in the JVM that stays."""
        words = (class_name, *map(str, arguments))
        status, output, errors = await asyncio.to_thread(self._ask, words, stdin, timeout)
        if check and status != 0:
            said = "\n".join((output + errors).strip().splitlines()[-20:])
            raise KafkaToolError(f"{class_name} ended with {status}:\n{said}")
        return output

    async def run_all(
        self, bootstrap_servers: str, commands: Sequence[Sequence[object]], *, stdin: bytes = b""
    ) -> list[tuple[int, str]]:
        """Run them, each a class and its arguments; returns the exit status and the output of each. Each may read
        ``stdin``.
        """
        answers = []
        for name, *words in commands:
            server = ("--bootstrap-server", bootstrap_servers)
            # This tool takes options behind its sub-command only.
            arguments = [*words, *server] if name == CLUSTER else [*server, *words]
            status, output, _ = await asyncio.to_thread(self._ask, (str(name), *map(str, arguments)), stdin, TIMEOUT)
            answers.append((status, output.strip()))
        return answers

    # internals

    def _ask(self, words: Sequence[str], stdin: bytes, timeout: float) -> tuple[int, str, str]:
        """Runs in a thread. A JVM that does not answer in time is killed, which ends the pipe."""
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            too_late = threading.Timer(timeout, process.kill)
            too_late.start()
            try:
                parts = [word.encode() for word in words]
                process.stdin.write(struct.pack(">i", len(parts)) + b"".join(map(_sized, (*parts, stdin))))
                process.stdin.flush()
                (status,) = struct.unpack(">i", _exactly(process.stdout, 4))
                return status, _read_sized(process.stdout), _read_sized(process.stdout)
            except (BrokenPipeError, EOFError) as error:
                self._end()
                raise KafkaToolError(f"{words[0]} did not end within {timeout} s, or ended its JVM") from error
            finally:
                too_late.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self.command("ToolServer"), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
            )
            assert self._watchdog is not None, "it is to be entered by `with`"
            self._watchdog.guard(self._process.pid)
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            assert self._watchdog is not None
            self._watchdog.release(self._process.pid)
            self._process = None


def _sized(part: bytes) -> bytes:
    return struct.pack(">i", len(part)) + part


def _read_sized(pipe: IO[bytes]) -> str:
    (length,) = struct.unpack(">i", _exactly(pipe, 4))
    return _exactly(pipe, length).decode(errors="replace")


def _exactly(pipe: IO[bytes], length: int) -> bytes:
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return data
