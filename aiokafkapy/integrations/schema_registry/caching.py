"""Single flight and a cache: the questions under way, and the most recently used answers.

Owns both, and the cache's bound; knows no registry. Kafka has no counterpart.

Rules: a question runs in a separate task, so a cancelled caller does not cancel other callers' answer; it ends by the
time-outs of the registry's transport, or by ``close()``. Its failure is raised to all waiting callers, and not
remembered.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

from ...errors import IllegalStateError

__all__ = ["RecentCache", "SingleFlight", "is_cancelling"]

T = TypeVar("T")


class SingleFlight:
    """Questions under way, one for each key."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, asyncio.Task[Any]] = {}

    def begin(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        """The question under way for this key on the running loop, or a new one."""
        flight = self._flights.get(key)
        # A task of a loop that was stopped and not closed never gets its answer.
        if flight is None or flight.get_loop() is not asyncio.get_running_loop():
            flight = asyncio.ensure_future(_run(ask))
            self._flights[key] = flight
            flight.add_done_callback(lambda done: self._landed(key, done))
        return flight

    async def once(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer of the question under way, or of a new one."""
        flight = self.begin(key, ask)
        # Shielded: other callers wait for it too. If all of them are cancelled, it ends by its time-out.
        try:
            result: T = await asyncio.shield(flight)
        except asyncio.CancelledError:
            if flight.cancelled() and not is_cancelling():
                raise IllegalStateError("the schema registry's client was closed before it had an answer") from None
            raise
        return result

    async def close(self) -> None:
        """End the questions under way."""
        while flights := list(self._flights.values()):  # more may begin meanwhile
            for flight in flights:
                flight.cancel()
            await asyncio.gather(*flights, return_exceptions=True)

    # asyncio callbacks

    def _landed(self, key: Hashable, flight: asyncio.Task[Any]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # retrieved here, for every caller may be cancelled


class RecentCache(Generic[T]):
    """The ``limit`` most recently used entries."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[Hashable, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> T | None:
        """An entry, which counts as used now."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: Hashable, value: T) -> None:
        """Keep an entry; the least recently used one goes when there are too many."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self._limit:
            self._entries.popitem(last=False)

    def drop(self, is_meant: Callable[[Hashable], bool]) -> None:
        """Forget entries by their keys."""
        for key in [key for key in self._entries if is_meant(key)]:
            del self._entries[key]


def is_cancelling() -> bool:
    """True if the running task is being cancelled. Otherwise a CancelledError comes from the code that it called."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


# internals


async def _run(ask: Callable[[], Awaitable[T]]) -> T:
    return await ask()
