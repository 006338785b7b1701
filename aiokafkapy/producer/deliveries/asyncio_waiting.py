"""``AsyncioWaiting``: asyncio behind the port of ``waiting.py``, from the import of this module on.

It knows neither records nor results. Java has no counterpart.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, InvalidStateError

from .shortcuts import running_loop
from .waiter import Waiter, new_waiter, wake, wake_all
from .waiting import Waiting, install

__all__ = ["AsyncioWaiting"]


class AsyncioWaiting(Waiting):
    """Each task has a waiter of its own, on the loop that runs it."""

    __slots__ = ()

    def running_loop(self) -> AbstractEventLoop:
        """The loop that runs in this thread. Raises RuntimeError when none does."""
        loop = running_loop()
        if loop is None:
            raise RuntimeError("no running event loop")
        return loop

    def loop_here(self) -> AbstractEventLoop | None:
        """As ``running_loop``; None when none runs."""
        return running_loop()

    def new_waiter(self, loop: AbstractEventLoop) -> Waiter:
        """For the running task, to be awaited once."""
        return new_waiter(loop)

    def wake(self, waiter: Waiter) -> None:  # type: ignore[override]  # its own waiters only
        """Let the waiter's task go on, on its loop."""
        wake(waiter)

    def wake_all(self, waiters: list[Waiter]) -> None:  # type: ignore[override]  # as above
        """As ``wake`` for each, in order."""
        wake_all(waiters)

    def no_outcome_error(self) -> Exception:
        """The error that a future of asyncio's raises."""
        return InvalidStateError("the record is still on its way: await it")


install(AsyncioWaiting())
