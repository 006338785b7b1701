"""``Waiter``: a task awaits it while its record has no answer yet. It is the task's own, and only wakes it.

- ``new_waiter(loop)``: for one task of that loop, to be awaited once; ``done()`` when it was woken or cancelled.
- ``wake(waiter)``: let the task go on, on its loop; nothing happens when it was cancelled or its loop is closed.
- ``wake_all(waiters)``: as ``wake`` for each, in order.

Java has no counterpart: there a thread sleeps. Interpreted it is an ``asyncio.Future``; the compiled twin,
``waiter.pyx``, is lighter, and nothing to the cyclic collector, which walks over each future and the iterator that
awaits it: with tens of thousands of tasks waiting that is most of the cost of waiting.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias

__all__ = ["Waiter", "new_waiter", "wake", "wake_all"]

Waiter: TypeAlias = asyncio.Future[None]


def new_waiter(loop: asyncio.AbstractEventLoop) -> Waiter:
    """Described above."""
    return loop.create_future()


def wake(waiter: Waiter) -> None:
    """Described above."""
    try:
        waiter.set_result(None)
    except (asyncio.InvalidStateError, RuntimeError):  # its task was cancelled, or the loop is closed
        pass


def wake_all(waiters: list[Waiter]) -> None:
    """Described above."""
    for waiter in waiters:
        wake(waiter)
