"""Processes of measurements that need more than a worker: one that measures and ends, one that helps until let go.

Owns the ways to talk to them and to end them. Both kinds are modules run by ``python -m``.

- One that measures takes (measurement, bootstrap servers, topic) and prints its figures as JSON, for
  ``measurement.figures_of``; its ``main`` is ``print_figures``, which ends as a worker does when there is nothing to
  measure.
- ``helper`` runs a module that prints one line of JSON when it is ready, takes words on its standard input, one a
  line, and ends when that is closed. So it cannot outlive its parent.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.measurement import (
    SKIPPED,
    SKIPPED_STATUS,
    Figures,
    Measurement,
    MeasurementError,
    SkippedError,
)

__all__ = ["Helper", "allow_descriptors", "commands", "cpu_seconds_of", "helper", "print_figures"]

START_TIMEOUT: Final = 60.0
STOP_TIMEOUT: Final = 30.0
SPARE_DESCRIPTORS: Final = 200
TICKS: Final = os.sysconf("SC_CLK_TCK")

Measure = Callable[[Measurement, str, str], Coroutine[Any, Any, Figures]]


def print_figures(measure: Measure, run: Callable[[Coroutine[Any, Any, Figures]], Figures]) -> None:
    """The ``main`` of a module for ``figures_of``; ``run`` runs a coroutine, as ``asyncio.run`` does."""
    measurement, bootstrap_servers, topic = sys.argv[1:]
    try:
        figures = run(measure(Measurement.from_json(measurement), bootstrap_servers, topic))
    except SkippedError as error:
        print(f"{SKIPPED}{error}", file=sys.stderr)
        sys.exit(SKIPPED_STATUS)
    print(json.dumps(figures))


class Helper:
    """A process that helps; ``hello`` is its first line, sent when it was ready."""

    def __init__(self, process: asyncio.subprocess.Process, hello: dict[str, Any]) -> None:
        self._process = process
        self.hello = hello
        self.pid = process.pid

    async def ask(self, word: str) -> dict[str, Any]:
        """Send a word, and return the answer."""
        if self._process.stdin is None:
            raise RuntimeError("the helper was started without a standard input")
        self._process.stdin.write(f"{word}\n".encode())
        return await self._read()

    async def _read(self) -> dict[str, Any]:
        if self._process.stdout is None:
            raise RuntimeError("the helper was started without a standard output")
        line = await self._process.stdout.readline()
        if not line:
            raise MeasurementError("a helper process ended")
        said: dict[str, Any] = json.loads(line)
        return said


@asynccontextmanager
async def helper(module: str, *arguments: object) -> AsyncIterator[Helper]:
    """A helper process, ready; ended when the block is left."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    pipe = asyncio.subprocess.PIPE
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=errors)
        started = Helper(process, {})
        try:
            started.hello = await asyncio.wait_for(started._read(), START_TIMEOUT)
            yield started
        except MeasurementError as error:
            errors.seek(0)
            raise MeasurementError(f"{module}: {error}\n{errors.read().decode(errors='replace').strip()}") from None
        finally:
            await _end(process)


async def commands(hello: dict[str, Any], answer: Callable[[str], dict[str, Any]]) -> None:
    """A helper's side: say hello, answer words, return when nobody is there any more."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print(json.dumps(hello), flush=True)
    while line := await reader.readline():
        print(json.dumps(answer(line.decode().strip())), flush=True)


def cpu_seconds_of(pid: int) -> float:
    """User and system time of another process so far, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_of(pid: int | str, name: str) -> int:
    """A line of a process's ``status`` in bytes: ``VmRSS`` is its resident memory, ``VmHWM`` the highest so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise MeasurementError(f"the status of process {pid} has no {name}")


def allow_descriptors(count: int) -> None:
    """Allow ``count`` connections in this process and in its children: a process has 1,024 by default."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + SPARE_DESCRIPTORS
    if soft < wanted:
        if wanted > hard != resource.RLIM_INFINITY:
            raise SkippedError(f"{wanted:,} descriptors are needed, the limit is {hard:,}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT)
    except TimeoutError:
        process.kill()
        await process.wait()
