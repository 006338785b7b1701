"""The times of a batch: until it could have gone, for its bytes, and at the beginning of its attempts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aiokafkapy.common import NO_LEADER
from aiokafkapy.producer.accumulator.batch_phases import BatchPhases
from aiokafkapy.producer.accumulator.phase_timer import PhaseTimer
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.producer.options.topic_options import TopicOptions
from aiokafkapy.record.builder import RecordBatchBuilder

from ..accumulator_harness import KIB, LARGE, T0, Harness
from ..sender_fakes import cluster_of


class Timed(Harness):
    def __init__(self, leaders: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(leaders, **options)
        self.tick = 0.0
        self.accumulator.time_phases(PhaseTimer(self._clock))

    def _clock(self) -> float:
        self.now += self.tick
        return self.now


def times(batch: ProducerBatch) -> tuple[float, float, float, float]:
    """Linger, queued, encode and retried."""
    phases = batch.phases
    assert phases is not None
    ready, first, last = phases.ready_at, phases.first_attempted_at, phases.attempted_at
    assert ready is not None
    assert first is not None
    assert last is not None
    return ready - batch.created, first - ready - phases.encode, phases.encode, last - first


def test_without_a_timer_nothing_is_noted() -> None:
    harness = Harness(compression_type="gzip")
    harness.append_ok()
    harness.ready()
    (batch,) = harness.drain()
    assert batch.phases is None


class TestLinger:
    def test_it_is_the_time_that_a_batch_gathers(self) -> None:
        harness = Timed(linger_ms=50)
        harness.append_ok()
        harness.now += 0.050
        harness.ready()
        (batch,) = harness.drain()
        assert times(batch) == pytest.approx((0.050, 0, 0, 0))

    def test_a_full_batch_lingers_until_it_is_full_and_waits_behind_others_from_then_on(self) -> None:
        harness = Timed(linger_ms=10_000, batch_size=500)
        harness.append_ok(b"x" * 300)
        harness.now += 1
        harness.append_ok(b"x" * 300)  # which closes the first
        harness.now += 2
        harness.append_ok(b"x" * 300)
        harness.now += 4
        harness.ready()
        first, second, third = harness.drain_all()
        assert times(first) == pytest.approx((1, 6, 0, 0))
        assert times(second) == pytest.approx((2, 4, 0, 0))
        assert times(third) == pytest.approx((4, 0, 0, 0))

    def test_the_wait_for_a_leader_that_takes_nothing_is_not_linger_of_any_batch_that_would_go_along(self) -> None:
        harness = Timed({"t": [1, 1]}, linger_ms=50)
        harness.append_ok(partition=0)
        harness.now += 0.020
        harness.append_ok(partition=1)
        harness.now += 0.030
        assert harness.ready().ready_nodes == {1}
        harness.now += 3  # it cannot be connected
        harness.ready()
        first, second = harness.drain()
        assert times(first) == pytest.approx((0.050, 3, 0, 0))
        assert times(second) == pytest.approx((0.030, 3, 0, 0))

    def test_a_flush_and_an_idle_leader_end_it(self) -> None:
        harness = Timed(linger_ms=10_000)
        harness.append_ok()
        harness.now += 1
        harness.accumulator.begin_flush(lambda: None)
        harness.ready()
        harness.now += 2
        (batch,) = harness.drain()
        assert times(batch) == pytest.approx((1, 2, 0, 0))
        harness = Timed(linger_ms=None)
        harness.append_ok()
        harness.ready()
        harness.now += 2
        (batch,) = harness.drain()
        assert times(batch) == pytest.approx((0, 2, 0, 0))

    def test_it_is_no_longer_than_the_option_when_no_leader_is_known_or_the_partition_is_muted(self) -> None:
        harness = Timed(linger_ms=50)
        harness.cluster = cluster_of({"t": [NO_LEADER, NO_LEADER]})
        harness.append_ok()
        harness.ready()
        harness.now += 3
        harness.cluster = cluster_of({"t": [1, 1]})
        harness.ready()
        (batch,) = harness.drain()
        assert times(batch) == pytest.approx((0.050, 2.950, 0, 0))
        harness.accumulator.mute_partition(T0)
        harness.append_ok()
        harness.now += 1
        harness.ready()
        harness.accumulator.unmute_partition(T0)
        harness.ready()
        (batch,) = harness.drain()
        assert times(batch) == pytest.approx((0.050, 0.950, 0, 0))

    def test_a_topic_s_own_is_its_batches_even_beside_a_request_that_goes(self) -> None:
        harness = Timed({"t": [1], "slow": [1]}, linger_ms=0, topics={"slow": TopicOptions(linger_ms=200)})
        harness.append_ok(topic="slow")
        harness.append_ok()
        harness.ready()
        (quick,) = harness.drain()
        harness.now += 0.2
        harness.ready()
        harness.now += 1
        (slow,) = harness.drain()
        assert times(quick) == pytest.approx((0, 0, 0, 0))
        assert times(slow) == pytest.approx((0.2, 1, 0, 0))

    @pytest.mark.parametrize("codec", ["none", "gzip"])
    def test_with_manual_flush_it_ends_with_the_flush_however_full_the_batches_are(self, codec: str) -> None:
        harness = Timed(manual_flush=True, linger_ms=None, batch_size=500, compression_type=codec)
        for _ in range(3):
            harness.append_ok(b"x" * 500)
        harness.now += 60
        harness.ready()
        assert harness.drain() == []
        harness.accumulator.begin_flush(lambda: None)
        harness.ready()
        (first,) = harness.drain()
        harness.now += 2
        harness.ready()
        second, third = harness.drain_all()
        assert times(first) == pytest.approx((60, 0, 0, 0))
        assert times(second) == times(third) == pytest.approx((60, 2, 0, 0))

    def test_a_full_batch_of_a_muted_partition_waits(self) -> None:
        harness = Timed(linger_ms=10_000, batch_size=500)
        harness.accumulator.mute_partition(T0)
        harness.append_ok(b"x" * 500)
        harness.ready()
        harness.now += 2
        harness.accumulator.unmute_partition(T0)
        (batch,) = harness.drain()
        assert times(batch) == pytest.approx((0, 2, 0, 0))


class TestEncode:
    def test_it_is_the_time_of_compressing_on_the_way_out(self) -> None:
        harness = Timed(compression_type="gzip")
        harness.append_ok()
        harness.ready()
        harness.tick = 0.001  # each look at the clock is a millisecond later
        (batch,) = harness.drain()
        linger, queued, encode, retried = times(batch)
        assert (linger, encode, retried) == pytest.approx((0, 0.001, 0))
        assert queued >= 0

    def test_in_a_thread_the_wait_for_it_counts_and_later_time_does_not(self) -> None:
        harness = Timed(compression_type="gzip", batch_size=64 * KIB)
        harness.append_ok(LARGE)
        assert harness.ready().ready_nodes == set()
        (batch,) = harness.accumulator.take_compressions()
        harness.now += 0.3
        batch.compress()
        harness.accumulator.compressed(batch)
        harness.ready()
        harness.now += 0.2
        assert harness.drain() == [batch]
        assert times(batch) == pytest.approx((0, 0.2, 0.3, 0))


class TestAttempts:
    def test_time_after_the_first_attempt_is_neither_linger_nor_queue(self) -> None:
        harness = Timed(linger_ms=50, retry_backoff_ms=100)
        harness.append_ok()
        harness.now += 0.050
        harness.ready()
        (batch,) = harness.drain()
        for _ in range(2):
            harness.now += 1
            harness.accumulator.reenqueue(batch, harness.now)
            harness.now += 2
            harness.ready()
            assert harness.drain() == [batch]
        assert times(batch) == pytest.approx((0.050, 0, 0, 6))

    def test_the_parts_of_a_split_batch_have_its_times_and_then_their_own(self) -> None:
        harness = Timed(linger_ms=50)
        for _ in range(2):
            harness.append_ok(b"x" * 100)
        harness.now += 0.050
        harness.ready()
        (batch,) = harness.drain()
        harness.now += 1
        harness.accumulator.split_and_reenqueue(batch)
        (first,) = harness.drain()
        harness.now += 2
        (second,) = harness.drain()
        assert times(first) == pytest.approx((0.050, 0, 0, 1))
        assert times(second) == pytest.approx((0.050, 0, 0, 3))


class TestPhaseTimer:
    def test_a_batch_is_ready_once_and_not_before_its_first_record(self) -> None:
        batch = ProducerBatch(T0, RecordBatchBuilder(100), 10.0)
        timer = PhaseTimer(lambda: 20.0)
        timer.ready(batch, 9.0)
        timer.ready(batch)
        assert batch.phases is not None
        assert batch.phases.ready_at == 10.0

    def test_an_endless_linger_sets_no_bound(self) -> None:
        batch = ProducerBatch(T0, RecordBatchBuilder(100), 10.0)
        PhaseTimer(lambda: 20.0).attempted(batch, math.inf)
        assert times(batch) == (10, 0, 0, 0)

    def test_an_end_without_a_beginning_changes_nothing(self) -> None:
        batch = ProducerBatch(T0, RecordBatchBuilder(100), 10.0)
        PhaseTimer(lambda: 20.0).encoded(batch)
        assert batch.phases is not None
        assert batch.phases.encode == 0

    def test_a_copy_goes_its_own_way(self) -> None:
        phases = BatchPhases()
        phases.ready_at = phases.first_attempted_at = phases.attempted_at = 5.0
        copied = phases.copy()
        copied.attempted_at = 6.0
        assert (copied.ready_at, copied.first_attempted_at, copied.encode) == (5.0, 5.0, 0.0)
        assert phases.attempted_at == 5.0
