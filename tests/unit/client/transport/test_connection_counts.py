from __future__ import annotations

import pytest

from aiokafkapy.client.transport.connection_counts import ConnectionCounts, EventCount, connection_metrics


def test_created_and_closed_are_counted_apart() -> None:
    counts = ConnectionCounts(100.0)
    counts.created.record(101.0)
    counts.created.record(102.0)
    counts.closed.record(103.0)
    assert (counts.created.total, counts.closed.total) == (2, 1)
    assert counts.created.rate(130.0) == pytest.approx(2 / 30)


def test_events_are_counted_from_the_start_and_their_rate_is_a_recent_one() -> None:
    events = EventCount(0.0)
    for now in (0.0, 1.0, 29.0):
        events.record(now)
    assert events.rate(30.0) == pytest.approx(3 / 30)
    events.record(61.0)
    assert events.rate(61.0) == pytest.approx(1 / 31)
    assert events.total == 4
    assert events.rate(2_000.0) == 0


def test_metrics_are_the_sums_of_all_clients_under_kafka_s_names() -> None:
    one, other = ConnectionCounts(0.0), ConnectionCounts(0.0)
    for counts in (one, other):
        counts.created.record(1.0)
        counts.record_authentication(1.0)
    one.closed.record(2.0)
    one.record_refusal(2.0)
    one.record_reauthentication(0.25, 3.0)
    other.record_reauthentication(0.75, 3.0)
    other.record_refusal(3.0, is_renewal=True)
    found = connection_metrics([one, other], 30.0)
    assert found["connection-count"] == 1
    totals = {
        "connection-creation": 2,
        "connection-close": 1,
        "successful-authentication": 2,
        "failed-authentication": 1,
        "successful-reauthentication": 2,
        "failed-reauthentication": 1,
    }
    assert {name: found[f"{name}-total"] for name in totals} == totals
    assert {name: found[f"{name}-rate"] for name in totals} == {
        name: pytest.approx(total / 30) for name, total in totals.items()
    }
    assert (found["reauthentication-latency-avg"], found["reauthentication-latency-max"]) == (500, 750)
