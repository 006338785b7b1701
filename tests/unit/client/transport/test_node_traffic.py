from __future__ import annotations

import pytest

from aiokafkapy.client.transport.node_traffic import ClientTraffic, NodeTraffic

KAFKAS_NAMES = {
    "request-rate", "request-total", "request-size-avg", "request-size-max", "outgoing-byte-rate",
    "outgoing-byte-total", "response-rate", "response-total", "incoming-byte-rate", "incoming-byte-total",
    "request-latency-avg", "request-latency-max",
}  # fmt: skip
NOW = 1000.0


def test_each_node_has_its_own_numbers_under_kafkas_names() -> None:
    traffic = NodeTraffic()
    for size in (100, 300):
        traffic.record_request(1, size, NOW)
    traffic.record_response(1, 50, 0.010, NOW)
    traffic.record_response(1, 70, 0.030, NOW)
    traffic.record_request(2, 5, NOW)
    found = traffic.snapshot(NOW)
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
    traffic = NodeTraffic()
    traffic.record_request(1, 100, NOW)
    assert traffic.snapshot(NOW + 120)[1]["request-rate"] == 0
    assert traffic.snapshot(NOW + 120)[1]["request-total"] == 1


def test_a_bootstrap_address_is_not_a_node() -> None:
    traffic = NodeTraffic()
    traffic.record_request(-1, 100, NOW)
    traffic.record_response(-1, 100, 1.0, NOW)
    assert traffic.snapshot(NOW) == {}


def test_a_client_counts_all_and_its_nodes_where_somebody_wants_them() -> None:
    traffic = ClientTraffic(NOW)
    traffic.record_request(1, 100, NOW)
    traffic.by_node = NodeTraffic()
    traffic.record_request(1, 50, NOW)
    traffic.record_response(2, 10, 0.5, NOW)
    traffic.record_request(-1, 7, NOW)
    assert (traffic.counts.requests, traffic.counts.bytes_out, traffic.counts.bytes_in) == (3, 157, 10)
    found = traffic.by_node.snapshot(NOW)
    assert (found[1]["outgoing-byte-total"], found[2]["request-latency-avg"]) == (50, 500)
