"""Records with a time of their own, and the moments at which they are overdue."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafkapy.errors import DeliveryTimeoutError, RecordTooLargeError
from aiokafkapy.producer.deliveries.delivery import Delivery, new_delivery
from aiokafkapy.producer.deliveries.produce_request_result import ProduceRequestResult
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.intake.record_deadlines import FIRST_PRUNE, RecordDeadlines, accepted_of
from aiokafkapy.testing.clock import VirtualClock

from ..accumulator_harness import T0
from ..sender_fakes import VirtualLoop


class Harness:
    """Deadlines on a virtual loop, and the overdue records with their times."""

    def __init__(self) -> None:
        clock = VirtualClock()
        loop: Any = VirtualLoop(clock)
        self.loop = loop
        self.told: list[tuple[float, list[Any]]] = []
        self.deadlines = RecordDeadlines(loop, lambda records: self.told.append((loop.time() - self.began, records)))
        self.began = loop.time()

    def add(self, seconds: float, record: Any = None) -> Any:
        record = pending() if record is None else record
        self.deadlines.add(record, self.began + seconds)
        return record

    def run_until(self, seconds: float) -> None:
        self.loop.run_until(self.began + seconds)


def pending() -> Delivery:
    return new_delivery(ProduceRequestResult(T0), 0, 1, -1, -1)


def delivered() -> Delivery:
    result = ProduceRequestResult(T0)
    result.succeed(0, -1)
    return new_delivery(result, 0, 1, -1, -1)


def test_each_is_reported_when_its_time_is_over_in_any_order_of_arrival() -> None:
    harness = Harness()
    late, early, same = harness.add(3), harness.add(1), harness.add(1)
    harness.run_until(0.9)
    assert harness.told == []
    harness.run_until(5)
    assert harness.told == [(1.0, [early, same]), (3.0, [late])]
    assert len(harness.deadlines) == 0
    assert harness.loop.pending_timers == 0


def test_on_add_is_called_for_each_record() -> None:
    harness = Harness()
    come: list[tuple[Any, float]] = []
    harness.deadlines.on_add = lambda record, deadline: come.append((record, deadline - harness.began))
    record = harness.add(3)
    assert come == [(record, 3.0)]


class Block:
    """A deadline that has let its records go, to end at ``later`` then; None: it has not."""

    def __init__(self, later: float | None) -> None:
        self._later = later

    def ends_at(self, loop: Any) -> float:
        raise AssertionError("asked for at the call, not here")

    def watched_by(self, deadlines: RecordDeadlines) -> None:
        raise AssertionError("the same")

    def later_end(self, loop: Any) -> float | None:
        return self._later


@pytest.mark.parametrize(
    ("later", "own", "told_at"),
    [(None, math.inf, 1), (math.inf, math.inf, None), (math.inf, 4, 4), (3, 4, 3), (4, 3, 3), (0.5, 4, 1)],
)
def test_a_block_that_let_its_records_go_leaves_them_the_rest_of_their_time(
    later: float | None, own: float, told_at: float | None
) -> None:
    harness = Harness()
    block = Block(None if later is None else harness.began + later)
    record = pending()
    harness.deadlines.add(record, harness.began + 1, block, harness.began + own)
    harness.run_until(10)
    assert harness.told == ([] if told_at is None else [(told_at, [record])])
    assert len(harness.deadlines) == 0


def test_a_record_that_has_its_outcome_is_not_reported() -> None:
    harness = Harness()
    harness.add(1, delivered())
    waiting = PendingRecord(None, "t", None, b"x", 0, 1, None, loop=harness.loop)  # type: ignore[arg-type]
    waiting.accept(delivered())
    harness.add(1, waiting)
    refused = PendingRecord(None, "t", None, b"x", 0, 1, None, loop=harness.loop)  # type: ignore[arg-type]
    refused.refuse(DeliveryTimeoutError())
    harness.add(1, refused)
    harness.run_until(2)
    assert harness.told == []


def test_records_with_an_outcome_are_forgotten_when_many_have_gathered() -> None:
    harness = Harness()
    kept = harness.add(9)
    for _ in range(10 * FIRST_PRUNE):
        harness.add(10, delivered())
    assert len(harness.deadlines) < FIRST_PRUNE
    harness.run_until(20)
    assert harness.told == [(9.0, [kept])]


def test_the_end_of_one_may_let_in_refuse_or_take_back_those_behind_it() -> None:
    loop = Harness().loop
    admission: Any = SimpleNamespace(on_cancelled=lambda record: None)
    first, let_in, refused, taken_back = (
        PendingRecord(admission, "t", None, b"x", 0, 1, None, loop=loop) for _ in range(4)
    )
    accepted, delivery = pending(), pending()

    def expire(record: PendingRecord) -> None:
        record.refuse(DeliveryTimeoutError())
        let_in.accept(delivery)
        refused.refuse(RecordTooLargeError())
        taken_back.cancel()

    assert accepted_of([first, let_in, refused, taken_back, accepted], expire) == [delivery, accepted]
    assert (first.delivery, refused.delivery, taken_back.delivery) == (None, None, None)


def test_closed_there_is_neither_a_timer_nor_a_record() -> None:
    harness = Harness()
    harness.add(1)
    harness.deadlines.close()
    assert harness.loop.pending_timers == 0
    harness.run_until(2)
    assert harness.told == []
