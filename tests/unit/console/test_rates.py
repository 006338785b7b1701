"""Rates and the history of traffic: over a window, never negative, bounded."""

from __future__ import annotations

import pytest

from aiokafkapy.console.model import Sample
from aiokafkapy.console.rates import MOST_EVENTS, MOST_POINTS, History, Meter, Meters


def sample(requests: int | None = 0, errors: int | None = 0, **records: int) -> Sample:
    return Sample(records, {name: 10 * count for name, count in records.items()}, requests, errors, 1, 1)


def test_a_rate_is_of_the_last_five_seconds() -> None:
    meter = Meter()
    assert meter.update(1_000_000, 0.0) == 0.0
    rates = [meter.update(1_000_000 + 100 * second, float(second)) for second in range(1, 20)]
    assert rates == [100.0] * 19
    for second in range(20, 40):
        meter.update(1_001_900, float(second))
    assert meter.rate() == 0.0


def test_a_total_that_falls_starts_over() -> None:
    meter = Meter()
    meter.update(500, 0.0)
    meter.update(600, 1.0)
    assert meter.update(7, 2.0) == 0.0
    assert meter.update(17, 3.0) == 10.0


def test_meters_forget_ended_series() -> None:
    meters = Meters()
    meters.update({"a": 0, "b": 0}, 0.0)
    assert meters.update({"a": 5}, 1.0) == {"a": 5.0}
    assert meters.update({"a": 5, "b": 100}, 2.0)["b"] == 0.0  # as one that is new


def test_a_point_is_the_growth_since_the_sample_before() -> None:
    history = History()
    assert history.add(sample(10, 1, orders=100), 0.0, 1_000) is None
    point = history.add(sample(30, 2, orders=300, new=50), 2.0, 3_000)
    assert point is not None
    assert (point.at_ms, point.records, point.size, point.requests, point.errors) == (3_000, 125.0, 1_250.0, 10.0, 0.5)
    point = history.add(sample(40, 2, orders=4), 3.0, 4_000)  # made anew, and one deleted
    assert point is not None
    assert (point.records, point.requests) == (0.0, 10.0)


def test_an_unknown_value_is_not_zero() -> None:
    history = History()
    history.add(Sample({"t": 1}, None, None, None, None, 1), 0.0, 0)
    point = history.add(Sample({"t": 5}, None, None, None, None, 1), 1.0, 1)
    assert point is not None
    assert (point.records, point.size, point.requests, point.errors) == (4.0, None, None, None)


def test_points_and_events_are_bounded() -> None:
    history = History()
    for second in range(2 * MOST_POINTS):
        history.add(sample(t=second), float(second), second)
        history.add_event(second, "clear", "clear()", is_end=True)
    assert (len(history.points), len(history.events)) == (MOST_POINTS, MOST_EVENTS)
    assert history.events[-1].number == 2 * MOST_POINTS
    assert history.events[-1].is_end


@pytest.mark.parametrize("now", [5.0, 4.0])
def test_a_sample_of_the_same_time_is_not_a_point(now: float) -> None:
    history = History()
    history.add(sample(t=1), 5.0, 0)
    assert history.add(sample(t=2), now, 0) is None
