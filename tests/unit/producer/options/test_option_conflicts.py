"""Options that contradict one another, and their remedies; ``test_config`` has those of a whole configuration."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.producer.options.option_conflicts import (
    as_int,
    conflict_of_auto,
    conflict_of_priority,
    conflict_of_taking_back,
    idempotence_conflict,
)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, None),
        ({"acks": "all", "retries": 3, "max_in_flight_requests_per_connection": 5}, None),
        ({"max_in_flight_requests_per_connection": "auto"}, None),
        ({"acks": 1}, "acks=1: write acks='all'"),
        ({"retries": "0"}, "retries=0: leave retries out"),
        ({"max_in_flight_requests_per_connection": 6}, "max_in_flight_requests_per_connection=6: write 5 or less"),
    ],
)
def test_idempotence_says_which_value_is_against_it(values: dict[str, Any], text: str | None) -> None:
    assert idempotence_conflict(values) == text


def test_requests_adapt_to_answers_and_so_need_some() -> None:
    assert conflict_of_auto("all", "auto") is conflict_of_auto(0, 5) is None
    assert "contradicts acks=0" in str(conflict_of_auto(0, "auto"))


def test_a_share_that_was_given_needs_a_topic() -> None:
    assert conflict_of_priority(None, ()) is conflict_of_priority(5, {"alerts"}) is None
    assert "priority_reserve_percent=0 has no effect" in str(conflict_of_priority(0, ()))


def test_records_are_not_taken_back_where_that_leaves_a_gap() -> None:
    assert conflict_of_taking_back(False, is_gapless=True) is conflict_of_taking_back(True, is_gapless=False) is None
    assert "contradicts enable_gapless_guarantee=True" in str(conflict_of_taking_back(True, is_gapless=True))


@pytest.mark.parametrize(
    ("value", "number"), [(5, 5), ("7", 7), (None, None), (True, None), ("auto", None), ([], None)]
)
def test_a_value_is_read_as_it_will_be(value: Any, number: int | None) -> None:
    assert as_int(value) == number
