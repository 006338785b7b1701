from __future__ import annotations

import pytest

from aiokafkapy.errors import DisconnectedError
from aiokafkapy.observability.observer import RequestDone, RequestSent
from aiokafkapy.producer.observation.node_metrics import NodeMetrics
from aiokafkapy.testing.clock import VirtualClock

KAFKAS_NAMES = {
    "request-rate", "request-total", "request-size-avg", "request-size-max", "outgoing-byte-rate",
    "outgoing-byte-total", "response-rate", "response-total", "incoming-byte-rate", "incoming-byte-total",
    "request-latency-avg", "request-latency-max",
}  # fmt: skip


def sent(node_id: int, size: int) -> RequestSent:
    return RequestSent(node_id, "PRODUCE", 0, 12, 1, size, 1)


def done(node_id: int, size: int, seconds: float, error: BaseException | None = None) -> RequestDone:
    return RequestDone(node_id, "PRODUCE", 0, 12, 1, 100, size, 0.0, seconds, error)


def test_each_node_has_its_own_numbers_under_kafkas_names() -> None:
    clock = VirtualClock()
    metrics = NodeMetrics(clock.time)
    for size in (100, 300):
        metrics.request_sent(sent(1, size))
    metrics.request_done(done(1, 50, 0.010))
    metrics.request_done(done(1, 70, 0.030))
    metrics.request_sent(sent(2, 5))
    found = metrics.snapshot(clock.time())
    assert list(found) == [1, 2]
    assert set(found[1]) == set(found[2]) == KAFKAS_NAMES
    one = found[1]
    assert (one["request-total"], one["response-total"]) == (2, 2)
    assert (one["outgoing-byte-total"], one["incoming-byte-total"]) == (400, 120)
    assert (one["request-size-avg"], one["request-size-max"]) == (200, 300)
    assert one["request-latency-avg"] == pytest.approx(20)
    assert one["request-latency-max"] == pytest.approx(30)
    assert one["request-rate"] == pytest.approx(2 / 30)
    assert one["outgoing-byte-rate"] == pytest.approx(400 / 30)
    assert one["incoming-byte-rate"] == pytest.approx(120 / 30)
    assert found[2]["response-total"] == found[2]["request-latency-max"] == 0


def test_rates_are_of_the_last_windows_and_totals_of_the_whole_life() -> None:
    clock = VirtualClock()
    metrics = NodeMetrics(clock.time)
    metrics.request_sent(sent(1, 100))
    clock.advance(120)
    assert metrics.snapshot(clock.time())[1]["request-rate"] == 0
    assert metrics.snapshot(clock.time())[1]["request-total"] == 1


def test_a_request_without_an_answer_has_no_latency() -> None:
    clock = VirtualClock()
    metrics = NodeMetrics(clock.time)
    metrics.request_sent(sent(1, 100))
    metrics.request_done(done(1, 0, 30.0, DisconnectedError("lost")))
    found = metrics.snapshot(clock.time())[1]
    assert (found["response-total"], found["request-latency-max"]) == (0, 0)


def test_a_bootstrap_address_is_no_node() -> None:
    metrics = NodeMetrics(VirtualClock().time)
    metrics.request_sent(sent(-1, 100))
    metrics.request_done(done(-1, 100, 1.0))
    assert metrics.snapshot(0.0) == {}
