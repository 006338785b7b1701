"""aiokafkapy.blocking.loop_thread: coroutines on a loop of their own, also as it ends."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Iterator

import pytest

from aiokafkapy.blocking import loop_thread
from aiokafkapy.blocking.loop_thread import Job, LoopEndedError, LoopThread


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopThread]:
    monkeypatch.setattr(loop_thread, "LAST_MOMENT", 0.0)
    thread = LoopThread()
    yield thread
    thread.stop()


async def forever() -> None:
    await asyncio.Event().wait()


async def doubled(number: int) -> int:
    return 2 * number


def error_of(job: Job[None]) -> BaseException:
    """The error that ``result`` raises, in another thread, for it may wait forever."""
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        error = executor.submit(job.result).exception(30)
    assert error is not None
    return error


def test_a_result_and_an_error_are_the_caller_s(thread: LoopThread) -> None:
    async def fails() -> None:
        raise LookupError

    assert thread.run(doubled(21)) == 42
    with pytest.raises(LookupError):
        thread.run(fails())


def test_nobody_waits_for_a_coroutine_that_a_stop_cuts_off(thread: LoopThread) -> None:
    waiting = thread.submit(forever())
    thread.stop()
    assert isinstance(error_of(waiting), LoopEndedError)
    assert thread.loop.is_closed()


def test_a_coroutine_has_a_moment_to_end_by_itself(thread: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_thread, "LAST_MOMENT", 30.0)

    async def in_steps() -> int:
        for _ in range(100):
            await asyncio.sleep(0)
        return 1

    ending = thread.submit(in_steps())
    thread.stop()
    assert ending.result() == 1


def test_the_caller_of_a_coroutine_that_the_loop_never_began_is_told_so(thread: LoopThread) -> None:
    """The coroutine's start was queued as the loop was closed."""
    late: list[Job[None]] = []
    close: Callable[[], None] = thread.loop.close

    def closed() -> None:
        late.append(thread.submit(forever()))
        close()

    thread.loop.close = closed  # type: ignore[method-assign]
    thread.stop()
    assert isinstance(error_of(late[0]), LoopEndedError)


def test_after_the_end_nothing_is_taken_and_a_stop_does_nothing(thread: LoopThread) -> None:
    thread.stop()
    thread.stop()
    with pytest.raises(LoopEndedError, match="the event loop has ended"):
        thread.run(doubled(1))


def test_the_loop_s_own_thread_cannot_wait_for_the_loop(thread: LoopThread) -> None:
    async def waits() -> None:
        thread.run(doubled(1))

    with pytest.raises(RuntimeError, match="it would wait for itself"):
        thread.run(waits())


def test_a_job_that_is_ended_was_cancelled(thread: LoopThread) -> None:
    job, told = thread.submit(forever()), threading.Event()
    job.add_done_callback(told.set)
    thread.run(doubled(1))  # it has begun
    job.end()
    assert job.done()
    assert told.wait(30)
    assert isinstance(error_of(job), concurrent.futures.CancelledError)


@pytest.mark.parametrize("exit_of", [SystemExit, KeyboardInterrupt])
def test_an_exit_in_a_callback_is_told_and_ends_nothing(thread: LoopThread, exit_of: type[BaseException]) -> None:
    told: list[dict[str, object]] = []
    thread.loop.set_exception_handler(lambda _, context: told.append(context))

    def leave() -> None:
        raise exit_of(3)

    for _ in range(2):
        thread.loop.call_soon_threadsafe(leave)
        assert thread.run(doubled(21)) == 42
    thread.loop.call_soon_threadsafe(leave)
    thread.stop()
    assert [type(context["exception"]) for context in told] == [exit_of] * 3
    assert thread.loop.is_closed()


def test_an_exit_in_a_coroutine_is_its_caller_s(thread: LoopThread) -> None:
    told: list[dict[str, object]] = []
    thread.loop.set_exception_handler(lambda _, context: told.append(context))

    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        thread.run(leave())
    assert thread.run(doubled(21)) == 42
    assert not told
