"""Events of batches and waiting records for circuits, and the circuits' own."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aiokafkapy.errors import (
    BufferExhaustedError,
    DeliveryTimeoutError,
    KafkaTimeoutError,
    MetadataTimeoutError,
    TopicAuthorizationFailedError,
)
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.producer.circuits import circuit_watch
from aiokafkapy.producer.circuits.circuit_watch import CircuitWatch
from aiokafkapy.producer.options.circuit_options import CircuitBreaker
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.testing.clock import VirtualClock

from ..accumulator_harness import T0

ERROR = DeliveryTimeoutError("no outcome", topic="t")


def late(cause: Exception) -> DeliveryTimeoutError:
    """The error of a record whose own time was over."""
    error = DeliveryTimeoutError("late", topic="t")
    error.__cause__ = cause
    return error


class Next:
    """Stands in for a BatchWatch."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def answered(self, *told: Any) -> None:
        self.told.append(("answered", *told))

    def completed(self, *told: Any) -> None:
        self.told.append(("completed", *told))

    def failed(self, *told: Any) -> None:
        self.told.append(("failed", *told))


def new_batch() -> ProducerBatch:
    return ProducerBatch(T0, RecordBatchBuilder(100), 0.0)


class Rig:
    def __init__(self, then: Any = None, failures: int = 2) -> None:
        self.clock = VirtualClock()
        self.opened: list[str | None] = []
        self.watch = CircuitWatch(CircuitBreaker(failures=failures), then, self.clock.time, self.opened.append)

    @property
    def failures(self) -> int:
        return sum(status.failures for status in self.watch.circuits.statuses(self.clock.time()))


def test_batches_that_fail_open_it_and_one_that_is_delivered_closes_it(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    with caplog.at_level(logging.INFO, circuit_watch.__name__):
        for _ in range(2):
            rig.watch.failed(new_batch(), 1, ERROR, rig.clock.time())
        assert rig.opened == ["t"]
        rig.clock.advance(5.0)
        rig.watch.completed(new_batch(), 0, rig.clock.time())
    opened, closed = [record.getMessage() for record in caplog.records]
    assert opened.startswith("circuit.opened topic=t failures=2")
    assert "retry_in=30.0" in opened
    assert closed == "circuit.closed topic=t seconds=5.0"
    assert rig.opened == ["t"]


def test_everything_is_passed_on_to_the_watch_behind_it() -> None:
    then = Next()
    rig = Rig(then)
    batch = new_batch()
    rig.watch.answered(3, 0.5)
    rig.watch.completed(batch, 7, 1.0)
    rig.watch.failed(batch, 2, ERROR, 2.0)
    assert then.told == [
        ("answered", 3, 0.5),
        ("completed", batch, 7, 1.0),
        ("failed", batch, 2, ERROR, 2.0),
    ]


def test_the_watch_works_without_another_behind_it() -> None:
    rig = Rig()
    rig.watch.answered(3, 0.5)
    rig.watch.completed(new_batch(), 0, 1.0)
    assert rig.failures == 0


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (MetadataTimeoutError("x", topic="t"), True),
        (TopicAuthorizationFailedError("x", topic="t"), True),
        (ERROR, True),
        (MetadataTimeoutError("x"), False),
        (BufferExhaustedError("x", topic="t"), False),
        (KafkaTimeoutError("a serializer", topic="t"), False),
        (MetadataTimeoutError("no such partition", topic="t", partition=7), False),
        (late(MetadataTimeoutError("no such partition", topic="t", partition=7)), False),
        (late(KafkaTimeoutError("a serializer", topic="t")), False),
        (late(MetadataTimeoutError("x", topic="t")), True),
        (late(BufferExhaustedError("x", topic="t")), True),
    ],
)
def test_waiting_records_count_if_the_cluster_kept_them_waiting(error: Any, counts: bool) -> None:
    rig = Rig()
    rig.watch.refused(error)
    assert rig.failures == counts


def test_single_records_that_were_too_late_count_once_for_each_topic() -> None:
    rig = Rig(failures=5)
    rig.watch.overdue(["t", "u"], ERROR)
    assert rig.failures == 2
