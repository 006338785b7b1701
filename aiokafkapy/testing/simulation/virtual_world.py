"""``virtual_world``: for as long as it lasts, the clocks and the chance of the machine are a simulation's.

Owns which functions of the standard library are replaced, by clocks of the loop and by random numbers of the seed. It
knows no broker and no producer.

Rules:

- replaced are ``time.time``, ``monotonic``, ``perf_counter`` and ``thread_time``, with their ``_ns``; ``os.urandom``,
  and so ``uuid.uuid4`` and ``secrets``; ``random.Random()`` without a seed; and the state of ``random``'s own
  functions, which is put back afterwards. A name imported from ``time`` before is the machine's still, and so is
  ``datetime.now``;
- the replacement is for the whole process: nothing else may run beside a simulation.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterable, Iterator
from typing import Any, Final
from unittest import mock

from ...producer.deliveries.shortcuts import now_ms

__all__ = ["EPOCH", "virtual_world"]

EPOCH: Final = 1_700_000_000.0
"""The wall-clock time at loop time zero, in seconds."""


@contextlib.contextmanager
def virtual_world(
    loop: asyncio.AbstractEventLoop, seed: object, stand_ins: Iterable[tuple[str, Any]] = ()
) -> Iterator[None]:
    """``stand_ins`` are more names, each with what is in its place."""
    entropy = random.Random(f"{seed}/entropy")
    state = random.getstate()
    random.seed(f"{seed}/global")

    def wall_time() -> float:
        return EPOCH + loop.time()

    class SeededRandom(random.Random):
        def __init__(self, x: Any = None) -> None:
            super().__init__(entropy.random() if x is None else x)

    with contextlib.ExitStack() as stack:
        stack.callback(random.setstate, state)
        for place, stand_in in (
            ("time.monotonic", loop.time),
            ("time.perf_counter", loop.time),
            ("time.time", wall_time),
            ("time.thread_time", loop.time),  # no codec is chosen by the machine's speed
            ("time.monotonic_ns", lambda: int(loop.time() * 1e9)),
            ("time.perf_counter_ns", lambda: int(loop.time() * 1e9)),
            ("time.time_ns", lambda: int(wall_time() * 1e9)),
            (f"{now_ms.__module__}.time", wall_time),
            ("os.urandom", entropy.randbytes),
            ("random._urandom", entropy.randbytes),
            ("random.Random", SeededRandom),
            *stand_ins,
        ):
            stack.enter_context(mock.patch(place, stand_in))
        yield
