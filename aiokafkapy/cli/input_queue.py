"""Brings items read from files and pipes to the event loop, in blocks.

A regular file is read on the loop, a block at a time, since reading it never blocks for long; anything else (a pipe, a
terminal) is read in a thread, since its next line may take an hour. It knows only the sizes of the items.

Rules: an item is handed on at once, however long the next one takes. With ``MAX_WAITING`` items or ``MAX_BYTES`` in the
queue the thread stops reading, and so the writer of the pipe waits. Ending does not wait for a blocked read.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final, Generic, TypeVar

__all__ = ["feed"]

T = TypeVar("T")

BLOCK_SIZE: Final = 500
"""Items between two turns of the loop: under a millisecond of parsing."""
MAX_WAITING: Final = 5_000
MAX_BYTES: Final = 8 * 1024 * 1024
"""A block or the queue is full after the item that reaches this limit."""


async def feed(items: Iterator[T], size_of: Callable[[T], int], *, in_thread: bool) -> AsyncGenerator[list[T], None]:
    """The items in blocks of at least one. An exception of ``items`` is raised here, after the items before it."""
    if not in_thread:
        for block in _blocks(items, size_of):
            yield block
        return
    crossing = _Crossing(items, size_of, asyncio.get_running_loop())
    try:
        while block := await crossing.next_block():
            yield block
    finally:
        crossing.close()


def _blocks(items: Iterator[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    block: list[T] = []
    size = 0
    error: Exception | None = None
    try:
        for item in items:
            block.append(item)
            size += size_of(item)
            if len(block) == BLOCK_SIZE or size >= MAX_BYTES:
                yield block
                block, size = [], 0
    except (OSError, ValueError) as caught:
        error = caught
    if block:
        yield block
    if error is not None:
        raise error


class _Crossing(Generic[T]):
    """A bounded queue from one thread to one coroutine, which wakes the loop once per block and not once per item."""

    def __init__(self, items: Iterator[T], size_of: Callable[[T], int], loop: asyncio.AbstractEventLoop) -> None:
        self._items = items
        self._size_of = size_of
        self._loop = loop
        self._has_news = asyncio.Event()
        # Shared with the thread; only accessed with the condition held.
        self._condition = threading.Condition()
        self._waiting: list[T] = []
        self._bytes_waiting = 0
        self._is_told = False
        self._is_finished = False
        self._is_closed = False
        self._error: BaseException | None = None
        # A daemon: a thread blocked in a read cannot be stopped, and must not keep the program from ending.
        threading.Thread(target=self._read, name="aiokafkapy-input", daemon=True).start()

    async def next_block(self) -> list[T]:
        """All items since the last call; waits for at least one, and is empty at the end."""
        while True:
            with self._condition:
                block, self._waiting = self._waiting, []
                self._bytes_waiting = 0
                self._is_told = False
                self._has_news.clear()
                self._condition.notify()
                if not block and self._error is not None:
                    raise self._error
                if block or self._is_finished:
                    return block
            await self._has_news.wait()

    def close(self) -> None:
        """End the thread after its current read."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()

    # in the thread

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._items:
                size = self._size_of(item)
                with self._condition:
                    while self._is_full() and not self._is_closed:
                        self._condition.wait()
                    if self._is_closed:
                        return
                    self._waiting.append(item)
                    self._bytes_waiting += size
                    self._tell()
        except Exception as caught:  # the thread's root: raised to the consumer of the items
            error = caught
        with self._condition:
            self._error = error
            self._is_finished = True
            if not self._is_closed:
                self._tell()

    def _is_full(self) -> bool:
        return len(self._waiting) >= MAX_WAITING or self._bytes_waiting >= MAX_BYTES

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            self._loop.call_soon_threadsafe(self._has_news.set)
