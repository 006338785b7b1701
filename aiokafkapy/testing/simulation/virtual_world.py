"""``virtual_world``: while it lasts, the clocks and the random numbers of the machine are a simulation's.

Owns the list of the standard library's functions that are replaced, by clocks of the loop and by random numbers of the
seed. It knows no broker and no producer.

Rules:

- it replaces ``time.time``, ``monotonic``, ``perf_counter`` and ``thread_time``, with their ``_ns``; ``os.urandom``,
  and so ``uuid.uuid4`` and ``secrets``; ``random.Random()`` without a seed; and the state of ``random``'s own
  functions, which it restores afterwards. A name imported from ``time`` before is still the machine's, and so is
  ``datetime.now``;
- the replacement is for the whole process: no other work may run beside a simulation;
- a module that is imported meanwhile may keep a replacement: afterwards each replacement calls the real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from unittest import mock

from ...producer.deliveries.shortcuts import now_ms

__all__ = ["EPOCH", "virtual_world"]

EPOCH: Final = 1_700_000_000.0
"""The wall-clock time at loop time zero, in seconds."""

_world: _World | None = None


class _World:
    """The world in force."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seed: object) -> None:
        self.time = loop.time
        self.entropy = _Random(f"{seed}/entropy")


_Random = random.Random


class _SeededRandom(_Random):
    def __init__(self, x: float | str | bytes | bytearray | None = None) -> None:
        super().__init__(_world.entropy.random() if x is None and _world is not None else x)


def _clock(real: Callable[[], float], start: float = 0.0, *, is_ns: bool = False) -> Callable[[], float]:
    def clock() -> float:
        if _world is None:
            return real()
        now = start + _world.time()
        return int(now * 1e9) if is_ns else now

    return clock


def _chance(real: Callable[[int], bytes]) -> Callable[[int], bytes]:
    def chance(size: int) -> bytes:
        return real(size) if _world is None else _world.entropy.randbytes(size)

    return chance


_STAND_INS: Final[tuple[tuple[str, object], ...]] = (
    ("time.monotonic", _clock(time.monotonic)),
    ("time.perf_counter", _clock(time.perf_counter)),
    ("time.time", _clock(time.time, EPOCH)),
    ("time.thread_time", _clock(time.thread_time)),  # no codec is chosen by the machine's speed
    ("time.monotonic_ns", _clock(time.monotonic_ns, is_ns=True)),
    ("time.perf_counter_ns", _clock(time.perf_counter_ns, is_ns=True)),
    ("time.time_ns", _clock(time.time_ns, EPOCH, is_ns=True)),
    (f"{now_ms.__module__}.time", _clock(time.time, EPOCH)),
    ("os.urandom", _chance(os.urandom)),
    ("random._urandom", _chance(os.urandom)),
    ("random.Random", _SeededRandom),
)


@contextlib.contextmanager
def virtual_world(
    loop: asyncio.AbstractEventLoop, seed: object, stand_ins: Iterable[tuple[str, object]] = ()
) -> Iterator[None]:
    """``stand_ins`` are more names, each with its replacement."""
    global _world
    state = random.getstate()
    random.seed(f"{seed}/global")
    with contextlib.ExitStack() as stack:
        stack.callback(random.setstate, state)
        for place, stand_in in (*_STAND_INS, *stand_ins):
            stack.enter_context(mock.patch(place, stand_in))
        _world = _World(loop, seed)
        try:
            yield
        finally:
            _world = None
