"""A condition variable: coroutines wait until the client's state has changed, then check it again.

Owns the waiting futures. Does not know the change. Replaces ``Object.wait`` and ``notifyAll`` of Java's clients.

Rule: ``notify`` wakes all current waiters, each once; a cancelled waiter leaves nothing behind.
"""

from __future__ import annotations

import asyncio

__all__ = ["ChangeSignal"]


class ChangeSignal:
    """Wakes every waiter at each ``notify``, which is almost free without waiters."""

    __slots__ = ("_loop", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiters: set[asyncio.Future[None]] = set()

    async def wait(self) -> None:
        """Return after the next ``notify``."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def notify(self) -> None:
        """Wake all current waiters."""
        if self._waiters and not self._loop.is_closed():
            waiters, self._waiters = self._waiters, set()
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
