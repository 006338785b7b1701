"""One event loop for a Python worker of Spark, and the objects that live on it from task to task.

Spark calls ``write`` and ``read`` synchronously, one task at a time in a process, and keeps the process for further
tasks. So the loop runs in its own daemon thread, made when it is first needed, and connections outlive a task: ``run``
starts a coroutine there and waits for it, ``lease`` gives an object that was opened on the loop before, or opens it.
Spark's counterparts are ``InternalKafkaProducerPool`` and ``InternalKafkaConsumerPool``.

Rules:

- A leased object belongs to one user. When it is given back in good order, it is kept for ten minutes, as Spark keeps
  its producers; if its user failed, or it is no longer alive, it is closed at once, so that no later user sees
  unfinished work.
- Spark silently ends an idle process after a minute: an object that is given back must have no unfinished work.
- The child of a fork has no loop and no leased objects: it does not have the thread, and the sockets are the parent's.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ...blocking.loop_thread import ENDING_SECONDS, Job, LoopThread
from ...observability import get_logger
from .process import settle_in

__all__ = ["KEPT_SECONDS", "Job", "lease", "loop", "run", "stop", "submit"]

KEPT_SECONDS: Final = 600.0
"""Seconds for which an unused object stays open: ``spark.kafka.producer.cache.timeout`` is 10 minutes."""
_logger = get_logger(__name__)


T = TypeVar("T")
R = TypeVar("R")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on this process's loop; wait, and return its result or raise its error."""
    return submit(coroutine).result()


def submit(coroutine: Coroutine[Any, Any, T]) -> Job[T]:
    """Start a coroutine on this process's loop."""
    return _worker().thread.submit(coroutine)


def loop() -> asyncio.AbstractEventLoop:
    """This process's loop."""
    return _worker().loop


def stop() -> None:
    """Close the kept objects, and end the loop and its thread. The next call of ``run`` makes new ones."""
    global _current
    with _lock:
        worker, _current = _current, None
    if worker is not None:
        worker.stop()


@asynccontextmanager
async def lease(
    key: Hashable,
    opened: Callable[[], Awaitable[R]],
    closed: Callable[[R], Awaitable[object]],
    is_alive: Callable[[R], bool] = lambda _: True,
) -> AsyncIterator[R]:
    """A living object that was opened before for ``key``, or a new one; for this user alone. Called on the loop.

    ``closed`` must not wait for unfinished work of its user: the result is not needed by then.
    """
    worker = _worker()
    kept = await worker.take(key, is_alive)
    if kept is None:
        kept = _Kept(await opened(), closed)
        settle_in()
    try:
        yield kept.resource
    except BaseException:
        await kept.close()
        raise
    worker.give_back(key, kept)


class _Kept(NamedTuple, Generic[R]):
    """An open object, and the call that closes it."""

    resource: R
    closed: Callable[[R], Awaitable[object]]

    async def close(self) -> None:
        """Close it, with or without an error: it will not be used again."""
        try:
            await self.closed(self.resource)
        except Exception as error:
            _logger.warning("spark.close_failed", resource=repr(self.resource), error=repr(error))


class _Worker:
    """The loop, its thread, and the objects that are kept open."""

    def __init__(self) -> None:
        self.thread = LoopThread()
        self.loop = self.thread.loop
        self._kept: dict[Hashable, list[tuple[_Kept[Any], asyncio.TimerHandle]]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def take(self, key: Hashable, is_alive: Callable[[R], bool]) -> _Kept[R] | None:
        """Take out a living object that is kept for ``key``; None without one."""
        entries = self._kept.get(key, [])
        while entries:
            kept, timer = entries.pop()
            timer.cancel()
            if is_alive(kept.resource):
                return kept
            await kept.close()
        return None

    def give_back(self, key: Hashable, kept: _Kept[Any]) -> None:
        """Keep it for the next user, for a while."""
        timer = self.loop.call_later(KEPT_SECONDS, self._expire, key, kept)
        self._kept.setdefault(key, []).append((kept, timer))

    def stop(self) -> None:
        """End the thread. It is not called on that thread."""
        asyncio.run_coroutine_threadsafe(self._close_kept(), self.loop).result(ENDING_SECONDS)
        self.thread.stop()

    # asyncio callbacks

    def _expire(self, key: Hashable, kept: _Kept[Any]) -> None:
        entries = self._kept[key]
        entries[:] = [entry for entry in entries if entry[0] is not kept]
        if not entries:
            del self._kept[key]
        task = self.loop.create_task(kept.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # internals

    async def _close_kept(self) -> None:
        found = [entry for entries in self._kept.values() for entry in entries]
        self._kept.clear()
        for kept, timer in found:
            timer.cancel()
            await kept.close()
        await asyncio.gather(*self._closing)


_lock = threading.Lock()
_current: _Worker | None = None
_inherited: Final[list[object]] = []


def _worker() -> _Worker:
    global _current
    worker = _current
    if worker is None:
        with _lock:
            worker = _current
            if worker is None:
                worker = _current = _Worker()
    return worker


def _after_fork_in_child() -> None:
    """The parent's objects are neither used nor freed: closing a copy of its loop would disturb its poller."""
    global _current, _lock
    _lock = threading.Lock()
    if _current is not None:
        _inherited.append(_current)
        _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
