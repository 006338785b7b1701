"""``producer/waiter.py``: what a task awaits, in its compiled and its interpreted form."""

from __future__ import annotations

import asyncio
import gc
import weakref
from asyncio.tasks import _PyTask  # type: ignore[attr-defined]
from contextvars import ContextVar
from typing import Any

import pytest

from aiokafkapy import compiled
from aiokafkapy.producer.deliveries.waiter import Waiter, new_waiter, wake

NAME: ContextVar[str] = ContextVar("name", default="nobody")


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _await(waiter: Waiter, told: list[str]) -> str:
    try:
        await waiter
    except asyncio.CancelledError as error:
        told.append(f"cancelled {error.args}")
        raise
    told.append(f"woken as {NAME.get()}")
    return "went on"


def _c_task(coroutine: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(coroutine)


def _python_task(coroutine: Any) -> Any:
    return _PyTask(coroutine, loop=asyncio.get_running_loop())


@pytest.fixture(params=[_c_task, _python_task], ids=["C", "Python"])
def create_task(request: pytest.FixtureRequest) -> Any:
    """Makes a task of asyncio's own, in both of its forms."""
    return request.param


async def test_a_task_goes_on_when_it_is_woken_in_its_own_context(create_task: Any) -> None:
    waiter = new_waiter(asyncio.get_running_loop())
    told: list[str] = []
    token = NAME.set("somebody")
    task = create_task(_await(waiter, told))
    NAME.reset(token)
    await turns()
    assert (told, task.done(), waiter.done()) == ([], False, False)
    wake(waiter)
    assert waiter.done()
    assert told == []  # not within the call: at the loop's next turn
    assert await task == "went on"
    assert told == ["woken as somebody"]


async def test_a_waiter_woken_before_it_waits_goes_on_at_once(create_task: Any) -> None:
    waiter = new_waiter(asyncio.get_running_loop())
    told: list[str] = []
    wake(waiter)
    assert await create_task(_await(waiter, told)) == "went on"


async def test_it_is_woken_once(create_task: Any) -> None:
    waiter = new_waiter(asyncio.get_running_loop())
    told: list[str] = []
    task = create_task(_await(waiter, told))
    await turns()
    for _ in range(3):
        wake(waiter)
    await task
    await turns()
    assert told == ["woken as nobody"]


async def test_a_cancelled_task_leaves_at_once_with_its_message(create_task: Any) -> None:
    waiter = new_waiter(asyncio.get_running_loop())
    told: list[str] = []
    task = create_task(_await(waiter, told))
    await turns()
    assert task.cancel("enough")
    await turns()
    assert task.cancelled()
    assert told == ["cancelled ('enough',)"]
    assert waiter.done()
    wake(waiter)  # the answer comes all the same
    await turns()


async def test_a_task_that_is_cancelled_before_its_first_step_never_waits(create_task: Any) -> None:
    waiter = new_waiter(asyncio.get_running_loop())
    told: list[str] = []
    task = create_task(_await(waiter, told))
    task.cancel()
    await turns()
    assert (task.cancelled(), told, waiter.done()) == (True, [], False)


async def test_a_task_that_cancels_itself_and_then_waits_leaves_at_once(create_task: Any) -> None:
    waiter = new_waiter(asyncio.get_running_loop())

    async def cancel_and_wait() -> None:
        task.cancel()
        await waiter

    task = create_task(cancel_and_wait())
    await turns()
    assert task.cancelled()
    assert waiter.done()


async def test_a_task_woken_and_cancelled_in_one_turn_is_cancelled(create_task: Any) -> None:
    waiter = new_waiter(asyncio.get_running_loop())
    told: list[str] = []
    task = create_task(_await(waiter, told))
    await turns()
    wake(waiter)
    assert task.cancel()
    await turns()
    assert task.cancelled()


async def test_a_time_limit_ends_the_wait(create_task: Any) -> None:
    waiter = new_waiter(asyncio.get_running_loop())

    async def wait_for_a_moment() -> None:
        async with asyncio.timeout(0.01):
            await waiter

    with pytest.raises(TimeoutError):
        await create_task(wait_for_a_moment())
    assert waiter.done()


def test_waking_on_a_closed_loop_does_nothing() -> None:
    loop = asyncio.new_event_loop()
    waiter = new_waiter(loop)
    told: list[str] = []
    coroutine = _await(waiter, told)
    task = loop.create_task(coroutine)
    loop.run_until_complete(turns())
    loop.close()
    wake(waiter)
    assert waiter.done()
    assert told == []
    coroutine.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("ends", ["woken", "cancelled"])
async def test_nothing_keeps_a_task_that_waited(ends: str) -> None:
    waiter = new_waiter(asyncio.get_running_loop())
    task = asyncio.create_task(_await(waiter, []))
    await turns()
    gone = weakref.ref(task)
    if ends == "woken":
        wake(waiter)
    else:
        task.cancel()
    await turns()
    assert task.done()
    del task
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(not compiled, reason="interpreted it is an asyncio.Future")
async def test_the_cyclic_collector_does_not_see_it() -> None:
    waiter = new_waiter(asyncio.get_running_loop())
    assert not gc.is_tracked(waiter)
    assert repr(waiter) == "<Waiter pending>"
    wake(waiter)
    assert repr(waiter) == "<Waiter done>"
