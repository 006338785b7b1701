"""``producer/waiter.py``: the object that a task awaits, in its compiled and its interpreted form."""

from __future__ import annotations

import asyncio
import gc
import weakref
from asyncio.tasks import _PyTask  # type: ignore[attr-defined]
from collections.abc import Generator
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from aiokafkapy import compiled
from aiokafkapy.producer.deliveries.returned import outcome_after
from aiokafkapy.producer.deliveries.waiter import Waiter, new_waiter, wake, wake_all

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


class Outcome:
    """There from the beginning; its result is read once."""

    def __init__(self, found: str | Exception) -> None:
        self.found = found

    def result(self) -> str:
        found, self.found = self.found, LookupError("read twice")
        if isinstance(found, Exception):
            raise found
        return found


class OutcomeAfter:
    """An awaitable of both."""

    def __init__(self, waiter: Waiter, outcome: Outcome) -> None:
        self._iterator = outcome_after(waiter, outcome)

    def __await__(self) -> Generator[Any, None, str]:
        iterator = self._iterator
        del self._iterator
        return iterator


async def _await_outcome(awaited: OutcomeAfter) -> str:
    return await awaited


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


async def test_a_waiter_is_woken_once(create_task: Any) -> None:
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


@pytest.mark.parametrize("is_woken_first", [False, True])
async def test_a_task_goes_on_with_the_outcome(create_task: Any, is_woken_first: bool) -> None:
    waiters = [new_waiter(asyncio.get_running_loop()) for _ in range(2)]
    if is_woken_first:
        wake_all(waiters)
    outcomes = Outcome("the outcome"), Outcome(ValueError("the error"))
    tasks = [
        create_task(_await_outcome(OutcomeAfter(waiter, outcome)))
        for waiter, outcome in zip(waiters, outcomes, strict=True)
    ]
    if not is_woken_first:
        await turns()
        assert not any(task.done() for task in tasks)
        wake_all(waiters)
    assert await tasks[0] == "the outcome"
    with pytest.raises(ValueError, match="the error"):
        await tasks[1]


@pytest.mark.parametrize("ends", ["cancelled", "closed"])
async def test_a_wait_that_ended_keeps_no_outcome(create_task: Any, ends: str) -> None:
    """The outcome has the waiter, until there is one: each would keep the other."""
    waiter, outcome = new_waiter(asyncio.get_running_loop()), Outcome("the outcome")
    gone = weakref.ref(outcome)
    coroutine = _await_outcome(OutcomeAfter(waiter, outcome))
    del outcome
    if ends == "cancelled":
        task = create_task(coroutine)
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
    else:
        assert coroutine.send(None) is waiter
        coroutine.close()
        wake(waiter)
    del coroutine
    await turns()
    gc.collect()
    assert gone() is None
    assert waiter.done()


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


# waking many


async def _many(count: int, told: list[str], create_task: Any) -> tuple[list[Any], list[Waiter]]:
    """Tasks that wait, each in a context of its own, and their waiters."""
    waiters = [new_waiter(asyncio.get_running_loop()) for _ in range(count)]
    tasks = []
    for number, waiter in enumerate(waiters):
        token = NAME.set(str(number))
        tasks.append(create_task(_await(waiter, told)))
        NAME.reset(token)
    await turns()
    return tasks, waiters


def _say(told: list[str], word: str) -> None:
    asyncio.get_running_loop().call_soon(told.append, word)


async def test_many_go_on_in_order_in_one_turn_each_in_its_context(create_task: Any) -> None:
    told: list[str] = []
    tasks, waiters = await _many(4, told, create_task)
    _say(told, "before")
    wake_all(waiters)
    _say(told, "behind")
    assert all(waiter.done() for waiter in waiters)
    assert told == []
    await asyncio.sleep(0)
    assert told == ["before", *(f"woken as {number}" for number in range(4)), "behind"]
    assert await asyncio.gather(*tasks) == ["went on"] * 4
    assert NAME.get() == "nobody"


async def test_cancelled_ones_of_many_are_passed_over_wherever_they_stand(create_task: Any) -> None:
    told: list[str] = []
    tasks, waiters = await _many(5, told, create_task)
    tasks[0].cancel()
    tasks[3].cancel()
    await turns()
    del told[:]
    wake_all(waiters)
    tasks[4].cancel("late")  # woken already: cancelled all the same, as a task that awaits a future would be
    await turns()
    assert told == ["woken as 1", "woken as 2", "cancelled ('late',)"]
    assert [task.cancelled() for task in tasks] == [True, False, False, True, True]


async def test_wake_all_wakes_a_waiter_that_does_not_wait_yet(create_task: Any) -> None:
    told: list[str] = []
    tasks, waiters = await _many(2, told, create_task)
    early = new_waiter(asyncio.get_running_loop())
    wake_all([waiters[0], early, waiters[1]])
    tasks.append(create_task(_await(early, told)))
    assert await asyncio.gather(*tasks) == ["went on"] * 3


async def test_tasks_in_c_and_in_python_go_on_in_the_order_in_which_they_were_woken() -> None:
    told: list[str] = []
    makers = iter([_c_task, _c_task, _python_task, _c_task, _python_task, _c_task, _c_task])
    tasks, waiters = await _many(7, told, lambda coroutine: next(makers)(coroutine))
    wake_all(waiters)
    await asyncio.gather(*tasks)
    assert told == [f"woken as {number}" for number in range(7)]


async def test_a_task_that_wakes_others_as_it_goes_on_does_not_run_them_within_its_step(create_task: Any) -> None:
    told: list[str] = []
    tasks, others = await _many(3, told, create_task)
    first, second = new_waiter(asyncio.get_running_loop()), new_waiter(asyncio.get_running_loop())

    async def wake_the_others() -> None:
        await first
        wake_all(others)
        told.append("woke them")

    tasks += [create_task(wake_the_others()), create_task(_await(second, told))]
    await turns()
    wake_all([first, second])
    await asyncio.gather(*tasks)
    assert told == ["woke them", "woken as nobody", *(f"woken as {number}" for number in range(3))]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_after_a_task_that_ends_the_loop_the_others_have_their_turn(
    error: type[BaseException], create_task: Any
) -> None:
    loop = asyncio.new_event_loop()
    told: list[str] = []

    async def end_the_loop(waiter: Waiter) -> None:
        await waiter
        raise error

    async def begin() -> list[Waiter]:
        others, waiters = await _many(3, told, create_task)
        last = new_waiter(asyncio.get_running_loop())
        tasks.extend([create_task(end_the_loop(last)), *others])
        await turns()
        return [last, *waiters]

    tasks: list[Any] = []
    try:
        loop.call_soon(wake_all, loop.run_until_complete(begin()))
        with pytest.raises(error):
            loop.run_forever()
        loop.run_until_complete(turns())
        assert told == [f"woken as {number}" for number in range(3)]
        assert isinstance(tasks[0].exception(), error)
    finally:
        loop.close()


async def test_the_debug_mode_tells_which_of_many_was_slow(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    told: list[str] = []
    tasks, waiters = await _many(3, told, _c_task)
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0
    try:
        wake_all(waiters)
        await asyncio.gather(*tasks)
    finally:
        loop.set_debug(False)
    slow = [record.getMessage() for record in caplog.records if "_await" in record.getMessage()]
    assert len(slow) >= len(tasks)


def test_waking_many_on_a_closed_loop_does_nothing_and_keeps_nothing(create_task: Any) -> None:
    loop = asyncio.new_event_loop()
    told: list[str] = []
    tasks, waiters = loop.run_until_complete(_many(3, told, create_task))
    loop.close()
    wake_all(waiters)
    gone = [weakref.ref(task) for task in tasks]
    for task in tasks:
        task._log_destroy_pending = False
    del tasks, waiters, task
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3


def test_many_of_a_loop_that_never_runs_again_are_collected(create_task: Any) -> None:
    loop = asyncio.new_event_loop()
    told: list[str] = []
    tasks, waiters = loop.run_until_complete(_many(3, told, create_task))
    wake_all(waiters)
    gone = [weakref.ref(task) for task in tasks]
    for task in tasks:
        task._log_destroy_pending = False
    del tasks, waiters, task
    loop.close()
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3


async def test_a_waiter_has_the_attributes_that_a_task_asks_of_an_awaited_object() -> None:
    """The compiled form compares these names by identity first; it also finds equal strings."""

    def another(name: str) -> str:
        return name[:1] + name[1:]

    loop = asyncio.get_running_loop()
    waiter: Any = new_waiter(loop)
    for is_blocking in (True, False):
        waiter._asyncio_future_blocking = is_blocking
        assert waiter._asyncio_future_blocking is is_blocking
        assert getattr(waiter, another("_asyncio_future_blocking")) is is_blocking
    assert waiter.get_loop() is getattr(waiter, another("get_loop"))() is loop
    told: list[Any] = []
    getattr(waiter, another("add_done_callback"))(told.append)
    wake(waiter)
    await turns()
    waiter.add_done_callback(told.append)
    await turns()
    assert [future.done() for future in told] == [True, True]
    with pytest.raises(AttributeError, match="nothing"):
        _ = waiter.nothing
    assert asyncio.isfuture(waiter)


def test_a_waiter_knows_its_loop_where_none_runs() -> None:
    """A task asks for it at each wait. asyncio's own get_running_loop is a system call each time, on Python 3.11."""
    loop = asyncio.new_event_loop()
    try:
        waiter = new_waiter(loop)
        assert waiter.get_loop() is loop
        waiter.cancel()
    finally:
        loop.close()


async def test_a_callback_may_be_added_in_each_way_that_a_future_takes() -> None:
    loop = asyncio.get_running_loop()
    context = copy_context()
    context.run(NAME.set, "another")
    named = dict.fromkeys(["context"], context)  # another object than the compiler's
    told: list[str] = []

    def tell(_: object) -> None:
        told.append(NAME.get())

    for options in ({}, {"context": context}, named, {"context": None}):
        waiter: Any = new_waiter(loop)
        if options is named:
            waiter.add_done_callback(tell, **options)
        elif options:
            waiter.add_done_callback(tell, context=options["context"])
        else:
            waiter.add_done_callback(tell)
        wake(waiter)
        await turns()
    assert told == ["nobody", "another", "another", "nobody"]
    waiter = new_waiter(loop)
    for given, wrong in (
        ((), {}),
        ((tell,), {"other": 1}),
        ((tell,), {"context": None, "other": 1}),
        ((tell, 1, 2), {}),
    ):
        with pytest.raises(TypeError):
            waiter.add_done_callback(*given, **wrong)
