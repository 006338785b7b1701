"""A measurement: its name and options, its figures, and the function that makes them.

A ``Measurement`` is one row of the table: a workload, a client, how much, and with which options. Its ``Figures`` are
plain numbers by name. Two decorators map a workload's name to a function:

- ``@workload("name")`` is ``async def f(client, topic, measurement) -> Figures``. It runs in a process of its own, on
  uvloop, with an open client, first with a share of the count as a warm-up. It times itself by a ``Stopwatch``, so that
  making the values does not count, and returns ``watch.figures`` with its other findings.
- ``@entry("name")`` is ``async def f(measurement, bootstrap_servers, topic) -> Figures``. It runs in the command's own
  process and starts its processes itself: the Java tool, a web service with its load. ``seconds`` and ``written`` must
  be among its figures.

Figures that every measurement has in the end: ``messages``, ``written`` (warm-up included: as many must be read back),
``seconds``, ``rate``, ``cpu_us`` (microseconds of CPU per message of the client's process, all threads),
``peak_rss_mb``. Where single sends are awaited, or transactions committed: ``p50_ms``, ``p99_ms``, ``p999_ms``.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

__all__ = [
    "Entry",
    "Figures",
    "Measurement",
    "MeasurementError",
    "SkippedError",
    "Stopwatch",
    "Workload",
    "completed",
    "entry",
    "figures_of",
    "find_entry",
    "find_workload",
    "percentiles",
    "run_in_process",
    "workload",
]

Figures = dict[str, float]
"""Numbers by name; see the module's docstring for the names that every measurement has."""

# The modules that define workloads and entries; each registers its functions when it is imported.
WORKLOAD_MODULES: Final = (
    "benchmarks.macro.workloads",
    "benchmarks.macro.peer_workloads",
    "benchmarks.macro.transactions",
    "benchmarks.macro.open_loop",
    "benchmarks.clients.plain_socket",
)
ENTRY_MODULES: Final = (
    "benchmarks.clients.java",
    "benchmarks.web.load",
    "benchmarks.web.fixed_rate",
    "benchmarks.macro.special",
    "benchmarks.macro.start_up",
    "benchmarks.macro.open_loop",
    "benchmarks.macro.brokers",
)

PROCESS_TIMEOUT: Final = 300.0
INTERPRETED: Final = "AIOKAFKAPY_INTERPRETED"
"""The environment's variable that asks for the pure Python form; ``options["interpreted"]`` sets it."""
ERROR_LINES: Final = 20
"""The last lines of a worker's standard error that an error shows."""
SKIPPED: Final = "skipped: "
"""The beginning of a worker's last line of standard error when there is nothing to measure, and its exit status then.
"""
SKIPPED_STATUS: Final = 3


class MeasurementError(Exception):
    """A measurement that failed; the message has the output of its process."""


class SkippedError(Exception):
    """There is nothing to measure here: a method or a program that is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One row: ``count`` records of ``size`` bytes by ``client``.

    ``variant`` tells rows of one client and workload apart in words ("128 KiB"); ``options`` are for the client's
    adapter and the workload, and must be JSON. ``partitions`` is the topic's.
    """

    group: str
    workload: str
    client: str
    count: int
    size: int = 100
    partitions: int = 6
    variant: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The row's name, the same in every run for any count."""
        size = f"{self.size // 1024} KiB" if self.size >= 1024 else f"{self.size} B"
        name = f"{self.client}, {self.variant}" if self.variant else self.client
        return f"{self.group} · {self.workload} · {size} · {name}"

    def to_json(self) -> str:
        """The measurement's text for a worker's command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The reverse of ``to_json``."""
        return cls(**json.loads(text))


Workload = Callable[[Any, str, Measurement], Awaitable[Figures]]
Entry = Callable[[Measurement, str, str], Awaitable[Figures]]

_workloads: dict[tuple[str, str], Workload] = {}
_entries: dict[tuple[str, str], Entry] = {}


def workload(name: str, *clients: str) -> Callable[[Workload], Workload]:
    """Register a function that runs in a worker under ``name``; for these clients only, when any are named."""

    def register(function: Workload) -> Workload:
        _workloads.update({(name, client): function for client in clients or ("",)})
        return function

    return register


def entry(name: str, *clients: str) -> Callable[[Entry], Entry]:
    """Register a function that runs in the command's process under ``name``; for these clients only, when any are
    named.
    """

    def register(function: Entry) -> Entry:
        _entries.update({(name, client): function for client in clients or ("",)})
        return function

    return register


def find_workload(measurement: Measurement) -> Workload:
    """The function of a measurement that runs in a worker."""
    _import(WORKLOAD_MODULES)
    return _found(_workloads, measurement)


def find_entry(measurement: Measurement) -> Entry:
    """The function that does a measurement as a whole: its own, or ``run_in_process``."""
    _import(ENTRY_MODULES)
    found = _entries.get((measurement.workload, measurement.client)) or _entries.get((measurement.workload, ""))
    return found or run_in_process


class Stopwatch:
    """Time of a ``with`` block, and CPU of this process with all its threads meanwhile."""

    __slots__ = ("_cpu", "_start", "figures")

    def __init__(self) -> None:
        self.figures: Figures = {}

    def __enter__(self) -> Self:
        self._cpu = _cpu_seconds()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        seconds = time.perf_counter() - self._start
        self.figures = {"seconds": seconds, "cpu_seconds": _cpu_seconds() - self._cpu}


def percentiles(seconds: Iterable[float]) -> Figures:
    """Latency figures of many single sends."""
    from aiokafkapy.common import percentile  # here: the memory and the start of other clients' processes are measured

    ordered = sorted(seconds)
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
    return {name: percentile(ordered, share) * 1e3 for name, share in shares.items()}


async def run_in_process(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """A measurement in a worker process; raises MeasurementError with its output, or SkippedError."""
    return await figures_of("benchmarks.macro.worker", measurement, bootstrap_servers, topic)


async def figures_of(module: str, measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """The output of ``python -m module`` for a measurement, as JSON; raises MeasurementError with any other output, or
    SkippedError.
    """
    environment = {name: value for name, value in os.environ.items() if name != INTERPRETED}
    if measurement.options.get("interpreted"):
        environment[INTERPRETED] = "1"
    command = [sys.executable, "-m", module, measurement.to_json(), bootstrap_servers, topic]
    try:
        status, output, errors = await completed(command, PROCESS_TIMEOUT, env=environment)
    except TimeoutError:
        raise MeasurementError(f"{module}: no end within {PROCESS_TIMEOUT:.0f} s") from None
    said = errors.decode(errors="replace").strip()
    if status == SKIPPED_STATUS:
        raise SkippedError(said.rpartition(SKIPPED)[2])
    if status != 0:
        end = "\n".join(said.splitlines()[-ERROR_LINES:])
        raise MeasurementError(f"{module}: exit status {status}\n{end}")
    figures: Figures = json.loads(output)
    return figures


async def completed(
    command: Sequence[str],
    limit: float | None,
    *,
    given: bytes = b"",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[int, bytes, bytes]:
    """A program's exit status, output and errors; ``given`` is its standard input.

    Raises TimeoutError after ``limit`` seconds, if there is one. Then, and when it is cancelled, the program is killed.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env)
    try:
        output, errors = await asyncio.wait_for(process.communicate(given), limit)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return await process.wait(), output, errors


# internals


def _import(modules: Iterable[str]) -> None:
    for name in modules:
        importlib.import_module(name)


def _found(registered: Mapping[tuple[str, str], Workload], measurement: Measurement) -> Workload:
    found = registered.get((measurement.workload, measurement.client)) or registered.get((measurement.workload, ""))
    if found is None:
        raise MeasurementError(f"no workload {measurement.workload!r} for {measurement.client}")
    return found


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
