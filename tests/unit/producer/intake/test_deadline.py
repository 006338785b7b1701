"""``deadline()``: the time that applies to each call, and the order of ends when it is over."""

from __future__ import annotations

import asyncio
import contextvars
import math
from typing import Any

import pytest

from aiokafkapy import deadline
from aiokafkapy.errors import IllegalStateError
from aiokafkapy.producer.deliveries.delivery import Delivery, new_delivery
from aiokafkapy.producer.deliveries.delivery_list import DeliveryList
from aiokafkapy.producer.deliveries.produce_request_result import Move, ProduceRequestResult
from aiokafkapy.producer.intake.deadline import TURNS
from aiokafkapy.producer.intake.record_deadlines import (
    Accepted,
    RecordDeadlines,
    enclosing_deadline,
    open_deadlines,
    places_of,
)

from ..accumulator_harness import T0


def left(loop: asyncio.AbstractEventLoop | None = None) -> float:
    """Seconds that a call has here, of a producer on this loop."""
    loop = loop or asyncio.get_running_loop()
    found = enclosing_deadline.get()
    return math.inf if found is None else found.ends_at(loop) - loop.time()


def pending() -> tuple[Delivery, ProduceRequestResult]:
    result = ProduceRequestResult(T0)
    return new_delivery(result, 0, 1, -1, -1), result


async def test_after_its_timer_it_is_over_also_by_a_clock_that_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop's timers may come up to a millisecond early, by uvloop's own clock."""
    loop, block = asyncio.get_running_loop(), deadline(0.001)
    with pytest.raises(TimeoutError):
        async with block:
            try:
                await asyncio.Event().wait()
            finally:
                behind = (block.when() or 0) - 0.001
                with monkeypatch.context() as patch:
                    patch.setattr(loop, "time", lambda: behind)
                    assert left() == 0


async def test_the_shortest_of_the_enclosing_ones_counts() -> None:
    assert left() == math.inf
    async with deadline(100) as outer:
        assert 99 < left() <= 100
        async with deadline(50):
            assert 49 < left() <= 50
            async with deadline(1000):
                assert left() <= 50
                async with deadline(None) as free:
                    assert left() == math.inf
                    assert free.when() is None
                    async with deadline(3):
                        assert left() <= 3
        assert left() > 50
        assert outer.when() == pytest.approx(asyncio.get_running_loop().time() + 100, abs=1)
    assert left() == math.inf
    assert open_deadlines == set()
    assert not outer.expired()


async def test_a_task_that_outlives_the_block_has_the_time_of_those_around_it() -> None:
    goes_on = asyncio.Event()
    seen: list[float] = []

    async def task() -> None:
        seen.append(left())
        await goes_on.wait()
        seen.append(left())

    async with deadline(100):
        async with deadline(5):
            inner = asyncio.create_task(task())
            await asyncio.sleep(0)
        goes_on.set()
        await inner
    goes_on.clear()
    async with deadline(5):
        alone = asyncio.create_task(task())
        await asyncio.sleep(0)
    goes_on.set()
    await alone
    assert [math.ceil(each / 5) * 5 for each in seen[:3]] == [5, 100, 5]
    assert seen[3] == math.inf


async def test_records_that_were_let_go_have_the_time_of_the_blocks_around_it() -> None:
    loop = asyncio.get_running_loop()
    async with deadline(None), deadline(100) as outer, deadline(5) as block:
        assert block.later_end(loop) is None
        block.let_go()
        assert 99 < left() <= 100
        assert block.later_end(loop) == outer.when()
        async with deadline(3) as inner:
            assert left() <= 3
            assert inner.later_end(loop) == inner.when()
        outer.let_go()
        assert left() == math.inf
        assert block.later_end(loop) == math.inf
    assert block.later_end(loop) == math.inf


async def test_a_block_that_let_its_records_go_ends_as_before() -> None:
    block = deadline(0.01)
    with pytest.raises(TimeoutError):
        async with block:
            block.let_go()
            await asyncio.Event().wait()
    assert block.expired()


async def test_when_it_is_over_records_have_their_outcome_before_anything_is_cancelled() -> None:
    loop = asyncio.get_running_loop()
    delivery, result = pending()
    told: list[Accepted] = []

    def expire(records: list[Accepted]) -> None:
        told.extend(records)
        result.fail(ValueError("the record's own"))

    deadlines = RecordDeadlines(loop, expire)
    block = deadline(0.01)
    with pytest.raises(ValueError, match="the record's own"):
        async with block:
            deadlines.add(delivery, block.when() or 0)
            found = enclosing_deadline.get()
            assert found is not None
            found.watched_by(deadlines)
            await delivery
    assert told == [delivery]
    assert block.expired()
    assert not asyncio.current_task().cancelling()  # type: ignore[union-attr]


async def test_a_deadline_ends_even_when_its_records_could_not_be_expired() -> None:
    def expire(records: list[Accepted]) -> None:
        raise LookupError("a defect")

    deadlines = RecordDeadlines(asyncio.get_running_loop(), expire)
    block = deadline(60)
    with pytest.raises(TimeoutError):
        async with block:
            deadlines.add(pending()[0], block.when() or 0)
            found = enclosing_deadline.get()
            assert found is not None
            found.watched_by(deadlines)
            with pytest.raises(LookupError):
                block._on_time()
            for _ in range(2 * TURNS):
                await asyncio.sleep(0)
    assert block.expired()


async def test_a_task_that_still_waits_is_cancelled_as_asyncio_does_it() -> None:
    delivery, result = pending()
    deadlines = RecordDeadlines(asyncio.get_running_loop(), lambda records: result.fail(ValueError()))
    block = deadline(0.01)
    was_told = False
    with pytest.raises(TimeoutError) as caught:
        async with block:
            deadlines.add(delivery, block.when() or 0)
            enclosing_deadline.get().watched_by(deadlines)  # type: ignore[union-attr]
            try:
                await delivery
            except ValueError:
                was_told = True
            await asyncio.Event().wait()
    assert was_told
    assert isinstance(caught.value.__context__, asyncio.CancelledError)


async def test_a_deadline_that_is_over_from_the_beginning_cancels_at_the_first_wait() -> None:
    with pytest.raises(TimeoutError):
        async with deadline(0):
            assert left() <= 0
            await asyncio.Event().wait()
    with pytest.raises(TimeoutError):
        async with deadline(-1):
            await asyncio.Event().wait()
    async with deadline(math.inf) as endless:
        assert left() == math.inf
        assert endless.when() is None
    assert open_deadlines == set()


async def test_cancelled_from_outside_it_stays_a_cancellation() -> None:
    async def body() -> None:
        async with deadline(100):
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert open_deadlines == set()


async def test_left_in_another_context_than_entered_it_is_not_in_force() -> None:
    block = deadline(100)

    async def dependency() -> Any:
        async with block:
            yield

    steps = dependency()
    other = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    await loop.create_task(anext(steps), context=other)
    assert left() == math.inf
    with pytest.raises(StopAsyncIteration):
        await loop.create_task(anext(steps), context=contextvars.copy_context())
    assert open_deadlines == set()
    assert other.run(left) == math.inf


@pytest.mark.parametrize(("wrong", "error"), [("2", TypeError), (True, TypeError), (math.nan, ValueError)])
def test_a_value_that_is_not_a_number_of_seconds_is_refused_at_once(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="deadline"):
        deadline(wrong)


async def test_a_deadline_is_for_one_block_in_a_task() -> None:
    block = deadline(5)
    with pytest.raises(IllegalStateError, match="begins with"):
        block.when()
    async with block:
        pass
    with pytest.raises(IllegalStateError, match="used already"):
        async with block:
            pass
    failed = deadline(5).__aenter__()
    with pytest.raises(RuntimeError):
        contextvars.copy_context().run(lambda: _outside_of_a_task(failed))
    assert open_deadlines == set()


def _outside_of_a_task(entering: Any) -> None:
    """Step through it on a loop that runs no task: as from a callback."""
    loop = asyncio.get_running_loop()
    current = asyncio.current_task()
    assert current is not None
    asyncio._leave_task(loop, current)
    try:
        entering.send(None)
    finally:
        asyncio._enter_task(loop, current)


def test_the_places_of_records_are_those_without_an_outcome() -> None:
    first, result = pending()
    done, other = pending()
    other.succeed(0, -1)
    assert places_of([first, done]) == {result: (0,)}


def test_the_places_of_a_bulk_call_are_ranges_and_follow_records_that_moved() -> None:
    settled, whole, split, new = (ProduceRequestResult(T0) for _ in range(4))
    many = DeliveryList([b""] * 14)
    many.add_span(settled, 0, 2)
    many.add_span(whole, 5, 4)
    many.add_span(split, 0, 3)
    many.add_span(whole, 20, 5)
    settled.succeed(0, -1)
    split.move([Move(0, settled, 0), Move(1, new, 7)])
    assert places_of([many, new_delivery(new, 30, 1, -1, -1)]) == {
        whole: [5, 6, 7, 8, 20, 21, 22, 23, 24],
        new: [7, 8, 30],
    }
    only = DeliveryList([b""] * 3)
    only.add_span(whole, 0, 3)
    assert places_of([only]) == {whole: range(3)}
