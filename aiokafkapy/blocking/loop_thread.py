"""``LoopThread`` and ``Job``: an event loop in a daemon thread, and a coroutine on it as another thread sees it.

It knows nothing of Kafka. asyncio's counterpart is ``run_coroutine_threadsafe``, whose caller cannot see when a
cancelled coroutine has ended.

Rules:

- A wait that is interrupted takes the coroutine along: it is cancelled, and has ended when the interrupt goes on.
- Nobody waits for a loop that has ended: ``stop`` gives the coroutines on it a moment to end by themselves, cancels the
  rest, and each that did not end, or comes too late, raises LoopEndedError.
- SystemExit and KeyboardInterrupt, which end a loop of asyncio's, do not end this one, which is no program of its own:
  those of a coroutine go to its caller, those of a callback to the loop's exception handler, as other errors do.
- In the child of a fork there is no such thread. Its owner forgets it there, and neither closes nor frees it:
  its sockets and its poller are the parent's.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar, cast

from ..event_loops import new_event_loop

__all__ = ["ENDING_SECONDS", "Job", "LoopEndedError", "LoopThread"]

ENDING_SECONDS: Final = 30.0
"""Seconds for which an interrupted thread waits for its coroutine to end."""
LAST_MOMENT: Final = 1.0
"""Seconds that a stopped loop gives its coroutines before they are cancelled: their objects are closed, so they
only have to report that.
"""

T = TypeVar("T")


class LoopEndedError(RuntimeError):
    """The loop ended before the coroutine did."""

    def __init__(self) -> None:
        super().__init__("the event loop has ended")


class LoopThread:
    """The loop, uvloop's where it is installed, runs from here on until ``stop``."""

    def __init__(self, name: str = "aiokafkapy") -> None:
        self.loop = new_event_loop()
        self.is_cutting_off = False
        # Jobs without an outcome. Each job that is here before the loop is closed gets one.
        self.jobs: set[Job[Any]] = set()
        self._is_stopped = asyncio.Event()
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
        """Start a coroutine on the loop. Raises LoopEndedError after its end."""
        return Job(self, coroutine)

    def stop(self, *, wait: bool = True) -> None:
        """End the loop and its thread; may be called again. Waits only on another thread."""
        with contextlib.suppress(RuntimeError):  # it has ended
            self.loop.call_soon_threadsafe(self._is_stopped.set)
        if wait:
            self._thread.join(ENDING_SECONDS)

    # internals

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self._run_to_end(self._until_stopped())
            self._run_to_end(self.loop.shutdown_asyncgens())
        finally:
            self.loop.close()
            while self.jobs:
                self.jobs.pop().lose()

    def _run_to_end(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(coroutine)
        while not task.done():
            try:
                self.loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                message = f"{type(error).__name__} in a callback on the loop's thread, which goes on"
                self.loop.call_exception_handler({"message": message, "exception": error})

    async def _until_stopped(self) -> None:
        await self._is_stopped.wait()
        if others := _other_tasks():
            await asyncio.wait(others, timeout=LAST_MOMENT)
        self.is_cutting_off = True
        if others := _other_tasks():
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=ENDING_SECONDS)


class Job(Generic[T]):
    """A coroutine on a loop, as its thread sees it."""

    __slots__ = ("_coroutine", "_exit", "_outcome", "_task", "_thread")

    def __init__(self, thread: LoopThread, coroutine: Coroutine[Any, Any, T]) -> None:
        self._thread = thread
        self._coroutine = coroutine
        self._outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._task: asyncio.Task[T | None] | None = None
        self._exit: BaseException | None = None
        thread.jobs.add(self)
        try:
            thread.loop.call_soon_threadsafe(self._start)
        except RuntimeError:  # the loop is closed
            thread.jobs.discard(self)
            coroutine.close()
            raise LoopEndedError from None

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
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._thread.loop.call_soon_threadsafe(self._cancel)
            concurrent.futures.wait([self._outcome], ENDING_SECONDS)

    def lose(self) -> None:
        """The loop is closed, and the coroutine will not end by itself."""
        if self._task is None:
            self._coroutine.close()
        self._outcome.set_exception(LoopEndedError())

    # asyncio callbacks

    def _start(self) -> None:
        self._task = self._thread.loop.create_task(self._without_exit())
        self._task.add_done_callback(self._ended)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _without_exit(self) -> T | None:
        try:
            return await self._coroutine
        except (SystemExit, KeyboardInterrupt) as error:
            self._exit = error
            return None

    def _ended(self, task: asyncio.Task[T | None]) -> None:
        self._thread.jobs.discard(self)
        self._coroutine.close()  # it never began if its task was cancelled before
        if task.cancelled():
            is_cut_off = self._thread.is_cutting_off
            self._outcome.set_exception(LoopEndedError() if is_cut_off else concurrent.futures.CancelledError())
        elif (error := self._exit or task.exception()) is not None:
            self._outcome.set_exception(error)
        else:
            self._outcome.set_result(cast("T", task.result()))
        self._task = None


def _other_tasks() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
