"""Passes batches from the event loop, which fetches ahead, to the thread that gives them to Spark.

Owns the queue between the two and its bound. It knows only the size of a batch. Spark's counterpart is
``FetchedDataPool``.

Rules:

- Waiting batches are bounded in bytes: the fetcher asks for ``room`` before it fetches more, so at most one fetch
  exceeds the bound.
- The taking thread always ends: by an error, the end, or the death of the task that fills the queue.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Handover"]

_END: Final = object()
_LOOKING_INTERVAL: Final = 5.0
"""Seconds after which the taker checks whether the filling task is still alive; the end itself comes at once."""


class Handover:
    """A queue of batches, each with its size. ``put``, ``room`` and ``end`` belong to the loop, ``take`` to
    the thread.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_bytes = 0
        # Made on the loop, when there is no room for the first time.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_room: asyncio.Event | None = None

    async def room(self) -> None:
        """Wait until less than ``max_bytes`` wait to be taken."""
        with self._lock:
            if self._waiting_bytes < self._max_bytes:
                return
            self._loop = asyncio.get_running_loop()
            self._has_room = asyncio.Event()
        await self._has_room.wait()

    def put(self, batch: pa.RecordBatch, size: int) -> None:
        """Add a batch."""
        with self._lock:
            self._waiting_bytes += size
        self._queue.put((batch, size))

    def end(self) -> None:
        """End the queue: no more batches come."""
        self._queue.put((_END, 0))

    def take(self, is_over: Callable[[], bool]) -> pa.RecordBatch | None:
        """The next batch, or None after the end, or if the fetcher ``is_over`` without an ``end``."""
        while True:
            try:
                batch, size = self._queue.get(timeout=_LOOKING_INTERVAL)
            except queue.Empty:
                if is_over() and self._queue.empty():
                    return None
                continue
            with self._lock:
                self._waiting_bytes -= size
                event = None
                if self._has_room is not None and self._waiting_bytes < self._max_bytes:
                    event, self._has_room = self._has_room, None
            if event is not None and self._loop is not None:
                self._loop.call_soon_threadsafe(event.set)
            return None if batch is _END else batch
