"""Faults are left out as long as a seed still fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aiokafkapy.testing.simulation.shrinking import MOST_RUNS, smallest


@pytest.mark.parametrize(
    ("needed", "expected"), [([], []), ([3], [3]), ([0, 9], [0, 9]), (list(range(10)), list(range(10)))]
)
def test_the_needed_faults_stay_in_their_order(needed: list[int], expected: list[int]) -> None:
    assert smallest(range(10), lambda faults: set(needed) <= set(faults)) == expected


def test_one_of_two_reasons_is_left() -> None:
    assert smallest(range(10), lambda faults: bool({2, 7} & set(faults))) == [2]


def test_faults_that_hide_one_another_are_found_in_a_second_round() -> None:
    def fails(faults: Sequence[int]) -> bool:
        return 0 in faults and (5 in faults or 1 not in faults)

    assert smallest(range(6), fails) == [0]


def test_no_faults_are_tried_once_and_all_in_all_few_runs_are_made() -> None:
    runs = []

    def fails(faults: Sequence[int]) -> bool:
        runs.append(list(faults))
        return len(faults) >= 50

    assert len(smallest(range(500), fails)) == 500 - MOST_RUNS + 1
    assert len(runs) == MOST_RUNS
    assert smallest([], lambda faults: True) == []
