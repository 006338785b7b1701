"""Windows and totals."""

from __future__ import annotations

import pytest

from aiokafkapy.errors import KafkaError, NotEnoughReplicasError
from aiokafkapy.observability.window import WINDOW
from aiokafkapy.producer.metrics import CallMetrics, SenderMetrics


def test_the_snapshot_has_kafkas_names() -> None:
    metrics = SenderMetrics(0.0)
    metrics.record_batch(record_count=10, size=500, uncompressed_size=1000, queued=0.004, now=1.0)
    metrics.record_request(10, 1.0)
    metrics.record_response(0.02, 5, 1.0)
    metrics.record_retry(10, NotEnoughReplicasError(), 1.0)
    metrics.record_failure(3, KafkaError(), 1.0)
    found = metrics.snapshot(1.0)
    assert found["record-send-total"] == 10
    assert found["record-size-avg"] == 100
    assert found["batch-size-avg"] == 500
    assert found["compression-rate-avg"] == 0.5
    assert found["record-queue-time-avg"] == pytest.approx(4)
    assert found["request-latency-max"] == pytest.approx(20)
    assert found["produce-throttle-time-avg"] == 5
    assert found["record-retry-total"] == 10
    assert found["error-total.NotEnoughReplicasError"] == 1
    assert found["error-total.KafkaError"] == 3
    assert all(isinstance(value, int | float) for value in found.values())


def test_the_round_trip_is_the_mean_of_recent_answers() -> None:
    metrics = SenderMetrics(0.0)
    assert metrics.round_trip(1.0) == 0.0
    metrics.record_response(0.010, 0, 1.0)
    metrics.record_response(0.030, 0, 2.0)
    assert metrics.round_trip(3.0) == pytest.approx(0.020)


def test_splits_have_a_rate_and_a_total() -> None:
    metrics = SenderMetrics(0.0)
    for _ in range(3):
        metrics.record_split(1.0)
    found = metrics.snapshot(WINDOW)
    assert (found["batch-split-total"], metrics.batch_splits) == (3, 3)
    assert found["batch-split-rate"] == pytest.approx(3 / 30)
    assert metrics.snapshot(10 * WINDOW)["batch-split-rate"] == 0


def test_times_of_calls_are_nanoseconds_since_the_start() -> None:
    calls = CallMetrics(0.0)
    calls.record_time("flush", 0.5)
    calls.record_time("flush", 0.25)
    calls.record_time("metadata-wait", 2.0)
    found = calls.snapshot(100.0)
    assert found["flush-time-ns-total"] == 750_000_000
    assert found["metadata-wait-time-ns-total"] == 2_000_000_000
    names = ("init", "begin", "send-offsets", "prepare", "commit", "abort")
    assert [found[f"txn-{name}-time-ns-total"] for name in names] == [0] * 6


def test_a_block_that_raises_has_no_time() -> None:
    times = iter([1.0, 3.0, 10.0])
    calls = CallMetrics(0.0)
    with calls.timed("txn-commit", lambda: next(times)):
        pass
    with pytest.raises(KafkaError), calls.timed("txn-commit", lambda: next(times)):
        raise KafkaError
    assert calls.snapshot(20.0)["txn-commit-time-ns-total"] == 2_000_000_000


def test_waits_for_room_have_a_total_and_a_share_of_the_time() -> None:
    calls = CallMetrics(0.0)
    calls.record_wait_for_room(1.5, 10.0)
    calls.record_wait_for_room(4.5, 20.0)
    found = calls.snapshot(WINDOW - 1e-9)
    assert found["bufferpool-wait-time-ns-total"] == 6_000_000_000
    assert found["bufferpool-wait-ratio"] == pytest.approx(6 / 60)
    assert calls.snapshot(10 * WINDOW)["bufferpool-wait-ratio"] == 0


def test_records_without_room_are_counted() -> None:
    calls = CallMetrics(0.0)
    calls.record_exhausted(1.0)
    calls.record_exhausted(2.0)
    found = calls.snapshot(WINDOW)
    assert found["buffer-exhausted-total"] == calls.records_exhausted == 2
    assert found["buffer-exhausted-rate"] == pytest.approx(2 / 30)
