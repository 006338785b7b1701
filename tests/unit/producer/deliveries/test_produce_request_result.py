"""aiokafkapy.producer.deliveries.produce_request_result: a batch's outcome, without an event loop."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from aiokafkapy.errors import IllegalStateError, KafkaError
from aiokafkapy.producer.deliveries import waiting
from aiokafkapy.producer.deliveries.delivery import new_delivery, waiter_for
from aiokafkapy.producer.deliveries.produce_request_result import (
    COST_OF_ERROR,
    FIRST_PRUNE,
    Job,
    Move,
    ProduceRequestResult,
    SettlementCounter,
    Teller,
)
from aiokafkapy.producer.deliveries.waiting import Waiting, install

from ..accumulator_harness import T0


def result_of(count: int = 1) -> ProduceRequestResult:
    result = ProduceRequestResult(T0)
    result.record_count = count
    return result


class FakeLoop:
    """Takes calls, and makes them when it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any]] = []

    def call_soon(self, fn: Any, /, *arguments: Any, context: Any = None) -> None:
        (delivery,) = arguments
        self.calls.append((fn, delivery))


class FakeWaiter:
    """One task's."""

    is_woken = False

    def done(self) -> bool:
        return self.is_woken

    def __await__(self) -> Generator[None]:
        yield

    __iter__ = __await__


class FakeWaiting(Waiting):
    """Stands in for waiting tasks."""

    def __init__(self) -> None:
        self.loop = FakeLoop()

    def running_loop(self) -> FakeLoop:
        return self.loop

    def new_waiter(self, loop: object) -> FakeWaiter:
        return FakeWaiter()

    def wake(self, waiter: Any) -> None:
        waiter.is_woken = True


class FakeTeller(Teller):
    """Has time for ``budget`` tasks now, and for the others later."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.jobs: list[Job] = []

    def may_tell_now(self, count: int, cost: int = 1) -> bool:
        return count * cost <= self.budget

    def tell_later(self, job: Job, cost: int = 1) -> None:
        self.jobs.append(job)


@pytest.fixture
def fake_waiting() -> Iterator[FakeWaiting]:
    before, fake = waiting.waiting(), FakeWaiting()
    install(fake)
    yield fake
    install(before)


class TestWaiting:
    def test_all_waiters_are_woken_once(self, fake_waiting: FakeWaiting) -> None:
        result = result_of(2)
        deliveries = [new_delivery(result, index, 0, -1, -1) for index in range(2)]
        waiters = [waiter_for(delivery) for delivery in deliveries]
        deliveries[0].add_done_callback(print)
        assert not any(waiter.done() for waiter in waiters)
        result.succeed(5, -1)
        assert all(waiter.done() for waiter in waiters)
        assert fake_waiting.loop.calls == [(print, deliveries[0])]
        result.abandon()
        assert len(fake_waiting.loop.calls) == 1

    def test_waiters_that_the_teller_has_no_time_for_are_woken_step_by_step(self, fake_waiting: FakeWaiting) -> None:
        result = result_of(3)
        waiters = [waiter_for(new_delivery(result, index, 0, -1, -1)) for index in range(3)]
        teller = FakeTeller(2)
        result.succeed(5, -1, teller)
        (job,) = teller.jobs
        for woken in range(4):
            assert [waiter.done() for waiter in waiters] == [place < woken for place in range(3)]
            assert job(1) == (woken < 3)

    def test_an_error_costs_the_teller_more_than_an_offset(self, fake_waiting: FakeWaiting) -> None:
        for fails in (False, True):
            result, teller = result_of(), FakeTeller(COST_OF_ERROR - 1)
            waiter = waiter_for(new_delivery(result, 0, 0, -1, -1))
            if fails:
                result.fail(KafkaError("no"), teller)
            else:
                result.succeed(5, -1, teller)
            assert waiter.done() is not fails
            assert bool(teller.jobs) is fails

    def test_a_waiter_for_a_record_goes_where_the_record_goes(self, fake_waiting: FakeWaiting) -> None:
        result, rest, delivered = result_of(3), result_of(2), result_of(1)
        deliveries = [new_delivery(result, index, 0, -1, -1) for index in range(3)]
        waiters = [waiter_for(delivery) for delivery in deliveries]
        for delivery in deliveries:
            delivery.add_done_callback(print)
        delivered.succeed(7, -1)
        result.move([Move(0, rest, 0), Move(1, delivered, 0), Move(2, rest, 1)])
        assert [waiter.done() for waiter in waiters] == [False, True, False]
        assert fake_waiting.loop.calls == [(print, deliveries[1])]
        rest.succeed(8, -1)
        assert [waiter.done() for waiter in waiters] == [True, True, True]
        assert [delivery for _, delivery in fake_waiting.loop.calls] == [deliveries[1], deliveries[0], deliveries[2]]
        assert [delivery.result().offset for delivery in deliveries] == [8, 7, 9]

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 0, 2), (0, 1, 1)])
    def test_each_task_waits_for_its_own_record_in_any_order(
        self, fake_waiting: FakeWaiting, order: tuple[int, ...]
    ) -> None:
        result, parts = result_of(3), [result_of() for _ in range(3)]
        waiters = [waiter_for(new_delivery(result, index, 0, -1, -1)) for index in order]
        result.move([Move(index, part, 0) for index, part in enumerate(parts)])
        for settled, part in enumerate(parts):
            part.succeed(0, -1)
            assert [waiter.done() for waiter in waiters] == [index <= settled for index in order]

    def test_tasks_that_are_left_after_others_were_cancelled_wait_for_their_own_records(
        self, fake_waiting: FakeWaiting
    ) -> None:
        result, parts = result_of(FIRST_PRUNE), [result_of(FIRST_PRUNE - 1), result_of()]
        waiters = [waiter_for(new_delivery(result, index, 0, -1, -1)) for index in range(FIRST_PRUNE - 1)]
        for waiter in waiters[1:]:
            fake_waiting.wake(waiter)  # as good as cancelled
        last = waiter_for(new_delivery(result, FIRST_PRUNE - 1, 0, -1, -1))  # which throws them out
        result.move([Move(0, parts[0], 0), Move(FIRST_PRUNE - 1, parts[1], 0)])
        parts[1].succeed(0, -1)
        assert last.done()
        assert not waiters[0].done()

    def test_an_abandoned_batch_lets_its_tasks_go_on_and_calls_nobody(self, fake_waiting: FakeWaiting) -> None:
        result = result_of()
        delivery = new_delivery(result, 0, 0, -1, -1)
        waiter = waiter_for(delivery)
        delivery.add_done_callback(print)
        result.abandon()
        assert waiter.done()
        assert not delivery.done()
        assert fake_waiting.loop.calls == []


class TestLooking:
    def test_a_record_is_followed_over_all_moves(self) -> None:
        first, second, third = result_of(4), result_of(4), result_of(2)
        assert first.follow(3) == (first, 3)
        first.move([Move(0, second, 0)])
        second.move([Move(0, result_of(2), 0), Move(2, third, 0)])
        assert first.follow(3) == (third, 1)
        assert first.locate(3) == (second, 3)

    def test_an_index_that_did_not_move_has_no_other_place(self) -> None:
        with pytest.raises(IllegalStateError, match="was not moved"):
            result_of().locate(0)

    def test_a_record_that_did_not_fail_has_no_error(self) -> None:
        result = result_of()
        result.succeed(0, -1)
        with pytest.raises(IllegalStateError, match="did not fail"):
            result.error(0)


class TestSettlementCounter:
    def test_it_calls_once_when_all_have_answers(self) -> None:
        calls: list[int] = []
        counter = SettlementCounter()
        counter.on_settled = lambda: calls.append(1)
        results = [result_of() for _ in range(3)]
        for result in results:
            counter.watch(result)
        results[0].succeed(0, -1)
        results[2].fail(KafkaError())
        assert counter.remaining == 1
        results[1].succeed(0, -1)
        assert counter.is_settled
        assert calls == [1]

    def test_answers_that_are_there_are_not_waited_for(self) -> None:
        counter = SettlementCounter()
        result = result_of()
        result.succeed(0, -1)
        counter.watch(result)
        assert counter.is_settled

    def test_it_follows_moves_before_and_after(self) -> None:
        counter = SettlementCounter()
        result, halves = result_of(4), [result_of(2), result_of(2)]
        counter.watch(result)
        result.move([Move(0, halves[0], 0), Move(2, halves[1], 0)])
        assert counter.remaining == 2
        late = SettlementCounter()
        late.watch(result)
        assert late.remaining == 2
        for half in halves:
            half.succeed(0, -1)
        assert counter.is_settled
        assert late.is_settled


def test_a_batch_may_move_on_thousands_of_times() -> None:
    """A batch moves for each record that leaves it; a look recursed through all moves: a crash with a small stack."""
    first = last = result_of(2)
    for _ in range(5_000):
        moved_from, last = last, result_of(2)
        moved_from.move([Move(0, last, 0)])
    assert first.unmoved() == [last]
    counter = SettlementCounter()
    counter.watch(first)
    before = first.is_settled, counter.remaining
    last.succeed(7, -1)
    assert (before, first.is_settled, counter.remaining) == ((False, 1), True, 0)
