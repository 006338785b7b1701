"""What a record makes the loop do: turns, tasks and futures, for ``instructions``.

The workloads run at the same two lengths on a loop of asyncio's that counts; the numbers are the client's, whatever
loop it runs on. The null broker's answers are in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

__all__ = ["KINDS", "CountingLoop", "measure"]

KINDS: Final = ("turns", "tasks", "futures")

RunMarked = Callable[[Callable[[], object], Callable[[Coroutine[Any, Any, None]], None]], None]
"""Runs workloads by the given function, and calls the mark, in the loop, where figures are to be taken."""


class CountingLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, and how often it did what costs."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0
        self.tasks = 0
        self.futures = 0
        self.set_task_factory(self._make_task)

    def create_future(self) -> asyncio.Future[Any]:
        self.futures += 1
        return super().create_future()

    def _run_once(self) -> None:
        self.turns += 1
        super()._run_once()  # type: ignore[misc]

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        self.tasks += 1
        return asyncio.Task(coroutine, loop=loop, **options)


def measure(run_marked: RunMarked) -> list[dict[str, int]]:
    """How many of each of ``KINDS`` there were before each mark, since the one before it."""
    found: list[dict[str, int]] = []
    before = dict.fromkeys(KINDS, 0)

    def mark() -> None:
        loop = asyncio.get_running_loop()
        now = {name: getattr(loop, name) for name in KINDS}
        found.append({name: now[name] - before[name] for name in KINDS})
        before.update(now)

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        before.update(dict.fromkeys(KINDS, 0))
        with asyncio.Runner(loop_factory=CountingLoop) as runner:
            runner.run(coroutine)

    run_marked(mark, run)
    return found
