"""Windows and totals."""

from __future__ import annotations

import pytest

from aiokafkapy.errors import KafkaError, NotEnoughReplicasError
from aiokafkapy.producer.metrics import WINDOW, SenderMetrics, Window


def test_a_window_knows_average_maximum_and_rate() -> None:
    window = Window(100.0)
    assert (window.average(100.0), window.maximum(100.0), window.rate(100.0)) == (0, 0, 0)
    for value in (1.0, 2.0, 6.0):
        window.record(value, 101.0)
    assert window.average(101.0) == 3
    assert window.maximum(101.0) == 6
    assert window.rate(130.0 - 1e-9) == pytest.approx(9 / 60)


def test_a_value_may_stand_for_many_events() -> None:
    window = Window(0.0)
    window.record(1000.0, 1.0, count=10)
    assert window.average(1.0) == 100


def test_values_are_forgotten_after_one_to_two_windows() -> None:
    window = Window(0.0)
    window.record(8.0, 1.0)
    assert window.maximum(WINDOW + 1) == 8
    window.record(2.0, WINDOW + 1)
    assert window.average(WINDOW + 1) == 5
    assert window.maximum(2 * WINDOW + 1) == 2
    assert window.maximum(10 * WINDOW) == 0
    assert window.average(10 * WINDOW) == 0


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
