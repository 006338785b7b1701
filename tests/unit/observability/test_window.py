from __future__ import annotations

import pytest

from aiokafkapy.observability.window import WINDOW, Window, window_metrics


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


def test_the_mean_of_several_windows_is_that_of_their_events() -> None:
    few, many = Window(0.0), Window(0.0)
    few.record(10.0, 1.0)
    for _ in range(3):
        many.record(2.0, 1.0)
    assert window_metrics("request-size", [few, many], 1.0) == {"request-size-avg": 4, "request-size-max": 10}
    assert window_metrics("x", [few], 1.0) == {"x-avg": 10, "x-max": 10}


def test_windows_without_events_have_zeros() -> None:
    assert window_metrics("x", [Window(0.0)], 1.0) == window_metrics("x", [], 1.0) == {"x-avg": 0, "x-max": 0}
