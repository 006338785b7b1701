"""Requests that wait until something happens or their time is over: a fetch for bytes, for example.

Owns the waiting operations with their keys and deadlines; must not know their meaning. Kafka's counterparts are
``DelayedOperationPurgatory`` and ``DelayedOperation``.

Rules:

- an operation completes once: by ``check``, by its deadline, by ``close``, or by its future being cancelled (the
  client went away), and then nothing of it is left here;
- the deciding call (``try_complete``) is made synchronously by the call that changed something, so a fetch sees an
  append in the same turn of the loop; its exception goes to the waiting request, never to the one that made the
  change;
- keys are any hashable; an operation may watch many and is looked at once per ``check``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable

from ..scheduler import Scheduler, TimerHandle

__all__ = ["Purgatory"]

TryComplete = Callable[[bool], object]
"""Called with whether the time is over; returns the result, or None for "not yet" (only when it is not over)."""


class Purgatory:
    """Parked operations, with their deadlines in a scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._watchers: dict[Hashable, dict[_Operation, None]] = {}
        self._operations: dict[_Operation, None] = {}

    def wait(self, keys: Iterable[Hashable], timeout: float, try_complete: TryComplete) -> asyncio.Future[object]:
        """A future of the result of ``try_complete``, which is called at each ``check`` of one of the keys, and after
        ``timeout`` seconds.

        It is not called at once: the caller has tried before.
        """
        operation = _Operation(
            self, tuple(dict.fromkeys(keys)), try_complete, asyncio.get_running_loop().create_future()
        )
        operation.timer = self._scheduler.call_at(self._scheduler.time() + timeout, operation.expire)
        operation.future.add_done_callback(operation.on_done)
        self._operations[operation] = None
        for key in operation.keys:
            self._watchers.setdefault(key, {})[operation] = None
        return operation.future

    def check(self, key: Hashable) -> int:
        """Try the operations that wait for ``key`` again; returns the number of completed ones."""
        watchers = self._watchers.get(key)
        if not watchers:
            return 0
        return sum(operation.attempt(is_over=False) for operation in tuple(watchers))

    def close(self) -> None:
        """Complete everything now, as if its time were over."""
        for operation in tuple(self._operations):
            operation.expire()

    def forget(self, operation: _Operation) -> None:
        """Drop an operation that is done; idempotent."""
        if operation not in self._operations:
            return
        del self._operations[operation]
        for key in operation.keys:
            watchers = self._watchers[key]
            watchers.pop(operation, None)
            if not watchers:
                del self._watchers[key]


class _Operation:
    __slots__ = ("future", "keys", "purgatory", "timer", "try_complete")

    def __init__(
        self,
        purgatory: Purgatory,
        keys: tuple[Hashable, ...],
        try_complete: TryComplete,
        future: asyncio.Future[object],
    ) -> None:
        self.purgatory = purgatory
        self.keys = keys
        self.try_complete = try_complete
        self.future = future
        self.timer: TimerHandle | None = None

    def attempt(self, *, is_over: bool) -> bool:
        if self.future.done():
            return False
        try:
            result = self.try_complete(is_over)
        except Exception as error:  # the root of a parked request: the exception belongs to its own future
            self.finish()
            self.future.set_exception(error)
            return True
        if result is None and not is_over:
            return False
        self.finish()
        self.future.set_result(result)
        return True

    def expire(self) -> None:
        self.attempt(is_over=True)

    def finish(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.purgatory.forget(self)

    # asyncio callbacks

    def on_done(self, future: asyncio.Future[object]) -> None:
        # Only a cancelled operation is still here; finish() is harmless for the others.
        self.finish()
