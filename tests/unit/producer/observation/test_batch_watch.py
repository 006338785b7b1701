from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import NotEnoughReplicasError, ProducerClosedError
from aiokafkapy.observability.observer import BatchDone, Observers
from aiokafkapy.producer.accumulator.phase_timer import PhaseTimer
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.producer.observation.batch_watch import BatchWatch
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.testing.clock import VirtualClock


class Recorder:
    def __init__(self) -> None:
        self.events: list[BatchDone] = []
        self.batch_done = self.events.append


def batch_at(created: float, records: int = 3) -> tuple[ProducerBatch, list[Any]]:
    batch = ProducerBatch(TopicPartition("t", 1), RecordBatchBuilder(1000), created)
    deliveries = [batch.try_append(5, b"k", b"value", None) for _ in range(records)]
    batch.close()
    batch.seal()
    return batch, deliveries


def test_a_delivered_batch_is_reported_with_its_times() -> None:
    recorder = Recorder()
    watch = BatchWatch(Observers([recorder], VirtualClock().time), VirtualClock().time)
    batch, _ = batch_at(10.0)
    batch.drained(10.25)
    watch.answered(7, 0.5)
    watch.completed(batch, 42, 11.0)
    (event,) = recorder.events
    assert event == BatchDone("t", 1, 3, batch.size, batch.size, 1, 0.25, 0.75, 0.5, 42, None)


def test_a_retried_batch_tells_its_attempts_and_counts_its_time_from_the_last() -> None:
    recorder = Recorder()
    watch = BatchWatch(Observers([recorder], VirtualClock().time), VirtualClock().time)
    batch, _ = batch_at(10.0)
    for drained_at in (11.0, 12.0):
        batch.drained(drained_at)
        batch.reenqueued(drained_at + 0.1, 0.1)
    batch.drained(13.0)
    watch.completed(batch, -1, 13.5)
    (event,) = recorder.events
    assert (event.attempts, event.queued, event.in_flight, event.base_offset) == (3, 3.0, 0.5, -1)


def test_a_batch_that_failed_is_reported_with_the_error_sent_or_not() -> None:
    recorder = Recorder()
    clock = VirtualClock()
    watch = BatchWatch(Observers([recorder], VirtualClock().time), clock.time)
    sent, _ = batch_at(clock.time())
    sent.drained(clock.time() + 1)
    error = NotEnoughReplicasError("two of three")
    watch.failed(sent, 2, error, clock.time() + 2)
    unsent, _ = batch_at(clock.time())
    clock.advance(3)
    closed = ProducerClosedError("closed")
    watch.aborted(unsent, 3, closed)
    first, second = recorder.events
    assert (first.records, first.attempts, first.error, first.base_offset) == (2, 1, error, -1)
    assert (second.records, second.attempts, second.error) == (3, 0, closed)
    assert second.queued == pytest.approx(3)
    assert second.in_flight == 0


def test_without_observers_of_batches_only_the_timing_is_noted() -> None:
    clock = VirtualClock()
    batch, deliveries = batch_at(clock.time())
    timer = PhaseTimer(clock.time)
    begin = clock.time()
    clock.advance(0.125)
    timer.ready(batch)
    timer.encoding(batch)
    clock.advance(0.5)
    timer.encoded(batch)
    clock.advance(0.25)
    batch.drained(clock.time())
    timer.attempted(batch, 1.0)
    clock.advance(1)
    batch.reenqueued(clock.time(), 0.0)
    clock.advance(1)
    batch.drained(clock.time())
    timer.attempted(batch, 1.0)
    clock.advance(4)
    answered = clock.time()
    watch = BatchWatch(Observers([], VirtualClock().time), clock.time)
    watch.answered(9, 0.75)
    watch.completed(batch, 7, answered)
    batch.complete(7)
    clock.advance(8)
    timing = deliveries[1].result().timing
    assert timing is not None
    assert timing == (0.125, 0.25, 0.5, 2.0, 4.0, 8.0, 0.75, 2, 9, 3, batch.size)
    assert sum(timing[:5]) == answered - begin


def test_records_have_no_timing_unless_it_is_asked_for() -> None:
    batch, deliveries = batch_at(1.0)
    batch.drained(2.0)
    BatchWatch(Observers([Recorder()], VirtualClock().time), VirtualClock().time).completed(batch, 7, 3.0)
    batch.complete(7)
    assert deliveries[0].result().timing is None
