from __future__ import annotations

import pytest

from aiokafkapy.client.transport.traffic_counts import TrafficCounts, traffic_metrics


def test_metrics_are_kafka_s_of_several_clients_together() -> None:
    one, other = TrafficCounts(0.0), TrafficCounts(0.0)
    one.record_request(100, 1.0)
    one.record_request(300, 1.0)
    other.record_request(800, 2.0)
    one.record_response(60, 2.0)
    assert traffic_metrics([one, other], 30.0) == {
        "request-rate": pytest.approx(3 / 30),
        "request-total": 3,
        "request-size-avg": 400,
        "request-size-max": 800,
        "outgoing-byte-rate": pytest.approx(1200 / 30),
        "outgoing-byte-total": 1200,
        "response-rate": pytest.approx(1 / 30),
        "response-total": 1,
        "incoming-byte-rate": pytest.approx(2),
        "incoming-byte-total": 60,
    }


def test_rates_are_of_the_last_minute_and_totals_from_the_start() -> None:
    traffic = TrafficCounts(0.0)
    traffic.record_request(100, 1.0)
    found = traffic_metrics([traffic], 500.0)
    assert (found["request-total"], found["outgoing-byte-total"]) == (1, 100)
    assert (found["request-rate"], found["outgoing-byte-rate"], found["request-size-max"]) == (0, 0, 0)
