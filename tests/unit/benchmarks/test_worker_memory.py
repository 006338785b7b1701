"""The growth of a worker's memory over a job."""

from __future__ import annotations

import pytest

from benchmarks.measurement import MeasurementError
from benchmarks.spark.worker_memory import growth


def test_growth_is_of_the_last_tenth_over_the_end_of_the_first() -> None:
    samples = [(float(second), 100.0 + second) for second in range(101)]
    assert growth(samples) == pytest.approx(200 / 110)


def test_a_peak_in_between_is_no_growth() -> None:
    assert growth([(0, 50.0), (10, 100.0), (50, 300.0), (95, 110.0), (100, 90.0)]) == pytest.approx(1.1)


def test_looks_at_which_no_worker_runs_do_not_count() -> None:
    assert growth([(0, 0.0), (5, 100.0), (10, 0.0), (95, 120.0), (100, 0.0)]) == pytest.approx(1.2)


@pytest.mark.parametrize("samples", [[], [(0.0, 0.0), (100.0, 50.0)], [(0.0, 50.0), (100.0, 0.0)]])
def test_growth_without_a_worker_at_either_end_is_unknown(samples: list[tuple[float, float]]) -> None:
    with pytest.raises(MeasurementError, match="no Python worker was seen"):
        growth(samples)
