"""Observes a producer from outside: remaining tasks, sockets and timers, callbacks that ran, record accounting.

Knows nothing of the tests. Only the producer's own objects are counted; it is distinguished from the broker's and the
test's by the source file of the code, or by the port that a socket is connected to.
"""

from __future__ import annotations

import asyncio
import math
import re
import resource
import time
import tracemalloc
from asyncio import events
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog  # noqa: F401  # the first event that is logged imports it, 6 MB: not in the middle of a measurement

from aiokafkapy import KafkaProducer
from aiokafkapy.errors import KafkaError

__all__ = [
    "CallbackLog",
    "assert_accounts_balance",
    "assert_nothing_is_left",
    "callbacks",
    "client_sockets",
    "client_tasks",
    "frugal",
    "is_ours",
    "next_timer",
    "outcomes",
    "resident_bytes",
    "sender_task",
]

# Compiled code names its file from the package on.
_OURS = re.compile(r"(?:^|/)aiokafkapy/(client|producer)/")


def assert_accounts_balance(producer: KafkaProducer[Any, Any], *, settled: bool = False) -> None:
    """accepted = delivered + failed + pending; ``settled``: and nothing is pending, waiting, or held."""
    now = producer.statistics()
    assert now.accepted == now.delivered + now.failed + now.pending, now
    assert 0 <= now.buffered_bytes <= now.buffer_memory, now
    if settled:
        assert (now.pending, now.waiters, now.batches, now.buffered_bytes) == (0, 0, 0, 0), now


def client_tasks() -> list[asyncio.Task[Any]]:
    """The running tasks that are the producer's own; a user's task that runs one of its methods is not."""
    return [
        task
        for task in asyncio.all_tasks()
        if _OURS.search(_file_of(task)) and not _name_of(task).startswith("KafkaProducer.")
    ]


def sender_task() -> asyncio.Task[Any]:
    """The one Sender."""
    (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "aiokafkapy-sender"]
    return task


def client_sockets(ports: Collection[int]) -> int:
    """The number of sockets of this process that are connected, or connecting, to one of these ports."""
    ours = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            ours.add(str(entry.readlink()))
        except OSError:
            continue
    count = 0
    for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        remote_port, inode = int(fields[2].rpartition(":")[2], 16), fields[9]
        count += remote_port in ports and f"socket:[{inode}]" in ours
    return count


def assert_nothing_is_left(ports: Collection[int]) -> None:
    """No task, socket or timer of a producer is left on the running loop."""
    assert client_tasks() == []
    assert client_sockets(ports) == 0
    assert next_timer() == math.inf


def next_timer() -> float:
    """The time at which the first of our timers on the running loop is due, by the loop; infinity without one, or on
    uvloop.
    """
    timers = getattr(asyncio.get_running_loop(), "_scheduled", ())
    return min((each.when() for each in timers if not each.cancelled() and is_ours(each)), default=math.inf)


def resident_bytes() -> int:
    """The resident memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@dataclass
class CallbackLog:
    """The loop's callbacks that ran, ours and all, and the longest of ours in seconds of this thread's CPU time."""

    ours: int = 0
    all: int = 0
    longest: float = 0.0
    longest_is: str = ""
    over: list[tuple[float, str]] = field(default_factory=list)


@contextmanager
def callbacks(limit: float = 0.010) -> Iterator[CallbackLog]:
    """Record every callback of asyncio's own loop, in CPU time, which does not depend on the machine's load."""
    log = CallbackLog()
    original = events.Handle._run

    def run(self: events.Handle) -> None:
        started = time.thread_time()
        try:
            original(self)
        finally:
            took = time.thread_time() - started
            log.all += 1
            if took > limit or is_ours(self):
                log.ours += 1
                what = describe(self)
                if took > limit:
                    log.over.append((took, what))
                if took > log.longest:
                    log.longest, log.longest_is = took, what

    events.Handle._run = run  # type: ignore[method-assign]
    try:
        yield log
    finally:
        events.Handle._run = original  # type: ignore[method-assign]


@contextmanager
def frugal(limit: int) -> Iterator[None]:
    """Fail if Python's memory grows, even temporarily, by more than ``limit`` bytes."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < limit, f"{(peak - before) / (1 << 20):.1f} MiB"


def outcomes(results: Iterable[Any]) -> tuple[list[Any], list[KafkaError]]:
    """The results of ``gather(..., return_exceptions=True)`` as successes and errors, which must all be KafkaErrors."""
    delivered, failed = [], []
    for result in results:
        if isinstance(result, BaseException):
            assert isinstance(result, KafkaError), repr(result)
            failed.append(result)
        else:
            delivered.append(result)
    return delivered, failed


def describe(handle: Any) -> str:
    """The name of a callback's function, for messages."""
    callback = handle._callback
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"task {owner.get_name()} ({_file_of(owner)})"
    return f"{getattr(callback, '__qualname__', callback)!s} {type(owner).__name__ if owner is not None else ''}"


def is_ours(handle: Any) -> bool:
    callback = handle._callback
    while hasattr(callback, "func"):
        callback = callback.func
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return bool(_OURS.search(_file_of(owner)))
    code = getattr(getattr(callback, "__func__", callback), "__code__", None)
    return code is not None and bool(_OURS.search(code.co_filename))


def _name_of(task: asyncio.Task[Any]) -> str:
    name: str = getattr(task.get_coro(), "__qualname__", "")
    return name


def _file_of(task: asyncio.Task[Any]) -> str:
    code = getattr(task.get_coro(), "cr_code", None)
    return "" if code is None else code.co_filename
