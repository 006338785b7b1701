from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from aiokafkapy.worker_thread import done_here, run_in_thread
from tests.blocked_threads import blocked_default_executor

HANG = 30.0


async def test_work_does_not_wait_for_the_loops_own_threads() -> None:
    async with blocked_default_executor():
        assert await run_in_thread(asyncio.get_running_loop(), divmod, 7, 2) == (3, 1)


async def test_the_thread_ends_with_its_work() -> None:
    thread = await run_in_thread(asyncio.get_running_loop(), threading.current_thread)
    assert thread is not threading.current_thread()
    await asyncio.wait_for(asyncio.to_thread(thread.join), HANG)


async def test_an_error_is_the_outcome() -> None:
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(asyncio.get_running_loop(), divmod, 1, 0)


@pytest.mark.parametrize("run", [run_in_thread, done_here])
async def test_a_stop_iteration_which_no_future_takes_is_the_outcome_as_in_a_coroutine(run: Any) -> None:
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        await asyncio.wait_for(run(asyncio.get_running_loop(), next, iter(())), HANG)


async def test_where_no_thread_can_be_started_the_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert await run_in_thread(loop, threading.current_thread) is threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(loop, divmod, 1, 0)


def test_a_cancelled_outcome_that_comes_after_the_loop_tells_nobody(caplog: pytest.LogCaptureFixture) -> None:
    has_begun, is_over = threading.Event(), threading.Event()
    threads = []

    def work() -> None:
        threads.append(threading.current_thread())
        has_begun.set()
        is_over.wait(HANG)

    loop = asyncio.new_event_loop()
    outcome = run_in_thread(loop, work)
    has_begun.wait(HANG)
    outcome.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    is_over.set()
    threads[0].join()
    assert caplog.records == []
