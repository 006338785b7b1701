from __future__ import annotations

import pytest

from aiokafkapy.client.transport.connection_counts import ConnectionCounts, EventCount
from aiokafkapy.producer.metrics import Window


def test_created_and_closed_are_counted_apart() -> None:
    counts = ConnectionCounts(100.0)
    counts.created.record(101.0)
    counts.created.record(102.0)
    counts.closed.record(103.0)
    assert (counts.created.total, counts.closed.total) == (2, 1)
    assert counts.created.rate(130.0) == pytest.approx(2 / 30)


def test_a_rate_is_that_of_the_producer_s_other_metrics() -> None:
    ours, theirs = EventCount(0.0), Window(0.0)
    for now in (0.0, 1.0, 29.0, 31.0, 59.5, 61.0, 200.0, 229.9, 231.0, 500.0):
        ours.record(now)
        theirs.record(1, now)
        assert ours.rate(now) == pytest.approx(theirs.event_rate(now)), now
    assert ours.total == 10
    assert ours.rate(2_000.0) == theirs.event_rate(2_000.0) == 0
