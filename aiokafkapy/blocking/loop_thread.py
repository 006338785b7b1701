"""``LoopThread`` and ``Job``: an event loop in a daemon thread, and a coroutine on it as another thread sees it.

It knows nothing of Kafka. asyncio's counterpart is ``run_coroutine_threadsafe``, from whose caller a coroutine that is
being cancelled goes on unseen.

Rules:

- A wait that is interrupted takes the coroutine along: it is cancelled, and has ended when the interrupt goes on.
- In the child of a fork there is no such thread. Its owner forgets it there, and neither closes nor frees it:
  its sockets and its poller are the parent's.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

__all__ = ["ENDING_SECONDS", "Job", "LoopThread"]

ENDING_SECONDS: Final = 30.0
"""How long an interrupted thread waits for its coroutine to end."""

T = TypeVar("T")


class LoopThread:
    """The loop, uvloop's where it is installed, runs from here on until ``stop``."""

    def __init__(self, name: str = "aiokafkapy") -> None:
        self.loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; wait, and return its result or raise its error."""
        try:
            self.check_caller()
        except RuntimeError:
            coroutine.close()
            raise
        return self.submit(coroutine).result()

    def check_caller(self) -> None:
        """Raise RuntimeError on the loop's own thread, which must not wait for the loop."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("called on the event loop's own thread, as in a callback: it would wait for itself")

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Job[T]:
        """Start a coroutine on the loop."""
        return Job(self.loop, coroutine)

    def stop(self, *, wait: bool = True) -> None:
        """End the loop and its thread; to be called on another."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        if wait:
            self._thread.join(ENDING_SECONDS)

    # internals

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            self.loop.close()


class Job(Generic[T]):
    """A coroutine on a loop, as its thread sees it."""

    __slots__ = ("_loop", "_outcome", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._task: asyncio.Task[T] | None = None
        self._loop.call_soon_threadsafe(self._start, coroutine)

    def done(self) -> bool:
        """True when it has ended."""
        return self._outcome.done()

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Call it when the coroutine has ended, on the loop's thread; at once when it has."""
        self._outcome.add_done_callback(lambda _: callback())

    def result(self) -> T:
        """Wait for the end; return the result or raise the error."""
        try:
            return self._outcome.result()
        except BaseException:
            self.end()  # nothing to do unless the waiting itself was interrupted
            raise

    def end(self) -> None:
        """Cancel it if it has not ended, and wait until it has."""
        if not self._outcome.done():
            self._loop.call_soon_threadsafe(self._cancel)
            concurrent.futures.wait([self._outcome], ENDING_SECONDS)

    # asyncio callbacks

    def _start(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._task = self._loop.create_task(coroutine)
        self._task.add_done_callback(self._ended)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._outcome.set_exception(concurrent.futures.CancelledError())
        elif (error := task.exception()) is not None:
            self._outcome.set_exception(error)
        else:
            self._outcome.set_result(task.result())
        self._task = None


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
