"""``Feed``: a thread passes items to a coroutine, a few at a time.

Owns the waiting on both sides: the thread's while the coroutine is behind, the coroutine's while there is no item. It
knows neither Spark nor the items.

Rules: the thread never waits for a coroutine that has ended; an interrupt reaches a thread that waits.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Final, Generic, TypeVar

__all__ = ["Feed"]

T = TypeVar("T")

AHEAD: Final = 1
"""Items that may wait while the thread fetches the next one."""


class Feed(Generic[T]):
    """One thread puts, one coroutine takes."""

    __slots__ = ("_ended", "_items", "_loop", "_room", "_waiter", "is_open")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # The thread's side
        self._room = threading.Semaphore(AHEAD)
        self.is_open = True
        """False once no more items will be taken."""
        # The coroutine's side
        self._items: deque[T] = deque()
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    # the thread

    def put(self, item: T) -> bool:
        """Pass an item, and wait until there is room for the next; False once no more items will be taken."""
        self._loop.call_soon_threadsafe(self._on_item, item)
        self._room.acquire()
        return self.is_open

    def end(self) -> None:
        """There are no more items."""
        self._loop.call_soon_threadsafe(self._on_end)

    # the coroutine

    async def take(self) -> T | None:
        """The next item; None after the last."""
        while not self._items:
            if self._ended:
                return None
            self._waiter = self._loop.create_future()
            await self._waiter
        self._room.release()
        return self._items.popleft()

    def close(self) -> None:
        """Take no more items, and wake the thread."""
        self.is_open = False
        self._items.clear()
        self._room.release()

    # asyncio callbacks

    def _on_item(self, item: T) -> None:
        if self.is_open:
            self._items.append(item)
            self._wake()

    def _on_end(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
