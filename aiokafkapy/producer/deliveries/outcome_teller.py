"""``OutcomeTeller``: wakes the tasks that wait for outcomes, a slice of them at each turn of the loop.

A broker that was away for a moment answers for tens of thousands of awaited records at once, and a close or an expiry
fails as many: to wake all their tasks in one callback would hold the loop for longer than a heartbeat may lag.
The outcomes themselves are settled at once (``Delivery.done()``, the accounting); only the telling is spread. It knows
neither records nor batches: it is given jobs, each a function that tells so many tasks. Java has no counterpart: its
callers' threads wake by themselves.

Rules: first come, first told: no task is told while earlier jobs wait. A few are told at once, without a turn of the
loop, as a lone awaited send is. ``close()`` waits for ``told_all()``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final

from . import asyncio_waiting  # noqa: F401 - the tasks that are told wait on asyncio
from .produce_request_result import COST_OF_ERROR, Job, Teller

__all__ = ["COST_OF_ERROR", "OutcomeTeller", "step_by_step"]

SLICE: Final = 1_000
"""Tasks that are told in one go: one or two milliseconds' worth, interpreted."""
WINDOW: Final = 0.005
"""Seconds in which no more than a slice is told at once; a turn of the loop is seldom longer."""


class OutcomeTeller(Teller):
    """The jobs that wait for their turn, on one event loop."""

    __slots__ = ("_jobs", "_left", "_loop", "_told_all", "_window_ends")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: deque[tuple[Job, int]] = deque()
        self._left = SLICE
        self._window_ends = 0.0
        self._told_all: list[asyncio.Future[None]] = []

    def may_tell_now(self, count: int, cost: int = 1) -> bool:
        """True when ``count`` tasks may be told by the caller, here and now; they are then counted as told."""
        if self._jobs:
            return False
        if count == cost == 1 <= self._left:
            # A lone task, for which the clock need not be read: a slice of those takes longer than the window.
            self._left -= 1
            return True
        now = self._loop.time()
        if now >= self._window_ends:
            self._window_ends = now + WINDOW
            self._left = SLICE
        if count * cost > self._left:
            return False
        self._left -= count * cost
        return True

    def tell_later(self, job: Job, cost: int = 1) -> None:
        """Have ``job`` tell its tasks at the coming turns of the loop, after all earlier jobs."""
        self._jobs.append((job, cost))
        if len(self._jobs) == 1:
            self._loop.call_soon(self._on_turn)

    async def told_all(self) -> None:
        """Return when every job is done."""
        while self._jobs:
            future: asyncio.Future[None] = self._loop.create_future()
            self._told_all.append(future)
            await future

    def _on_turn(self) -> None:
        left = SLICE
        while self._jobs and left > 0:
            job, cost = self._jobs[0]
            steps = max(1, left // cost)
            taken = job(steps)
            left -= max(1, taken) * cost
            if taken < steps:
                self._jobs.popleft()
        if self._jobs:
            self._loop.call_soon(self._on_turn)
            return
        futures, self._told_all = self._told_all, []
        for future in futures:
            if not future.done():
                future.set_result(None)


def step_by_step(steps: Iterator[object]) -> Job:
    """The job whose steps each wake one task."""
    return partial(_take_steps, steps)


def _take_steps(steps: Iterator[object], count: int) -> int:
    return sum(1 for _ in islice(steps, count))
