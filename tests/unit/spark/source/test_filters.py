"""What may be left unread because of a filter, and what must not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from aiokafkapy.common import TopicPartition
from aiokafkapy.spark.source.filters import Pruning
from aiokafkapy.spark.source.offsets import OffsetRange

RANGE = OffsetRange("t", 0, 10, 20)
NOON = datetime(2024, 1, 1, 12, 0, 0, 1_500, tzinfo=UTC)
NOON_MS = 1_704_110_400_001
ALL = {(topic, number) for topic in "tu" for number in range(4)}


def kept(*filters: Any) -> set[tuple[str, int]]:
    pruning = Pruning.of(filters)
    return {(topic, number) for topic, number in ALL if pruning.keeps(TopicPartition(topic, number))}


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([EqualTo(("topic",), "t")], {("t", number) for number in range(4)}),
        ([In(("topic",), ("t", "x"))], {("t", number) for number in range(4)}),
        ([In(("topic",), ("t", "x")), EqualTo(("topic",), "u")], set()),
        ([EqualTo(("partition",), 2)], {("t", 2), ("u", 2)}),
        ([EqualNullSafe(("PARTITION",), 2)], {("t", 2), ("u", 2)}),
        ([In(("partition",), (0, 3, None)), EqualTo(("topic",), "u")], {("u", 0), ("u", 3)}),
        ([GreaterThan(("partition",), 1), LessThanOrEqual(("partition",), 2)], {("t", 2), ("u", 2)}),
        # What is not understood prunes nothing.
        ([Not(EqualTo(("partition",), 2))], ALL),
        ([EqualNullSafe(("partition",), None)], ALL),
        ([EqualTo(("partition",), 1.5)], ALL),
        ([EqualTo(("partition",), True)], ALL),
        ([StringStartsWith(("topic",), "t"), IsNotNull(("partition",))], ALL),
        ([EqualTo(("value", "partition"), 1), EqualTo(("value",), b"1")], ALL),
        ([In(("topic",), ())], ALL),
    ],
)
def test_partitions_that_no_row_can_come_from_are_left_out(filters: list[Any], left: set[tuple[str, int]]) -> None:
    assert kept(*filters) == left


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([GreaterThan(("offset",), 12)], (13, 20)),
        ([GreaterThanOrEqual(("offset",), 12)], (12, 20)),
        ([LessThan(("offset",), 12)], (10, 12)),
        ([LessThanOrEqual(("offset",), 12)], (10, 13)),
        ([EqualTo(("offset",), 12)], (12, 13)),
        ([In(("offset",), (12, 15))], (12, 16)),
        ([GreaterThan(("offset",), 2), LessThan(("offset",), 200)], (10, 20)),
        ([GreaterThan(("offset",), 50)], (20, 20)),
        ([LessThan(("offset",), 5)], (10, 10)),
        ([GreaterThan(("offset",), 15), LessThan(("offset",), 12)], (16, 16)),
        ([Not(EqualTo(("offset",), 12))], (10, 20)),
    ],
)
def test_a_range_is_cut_to_the_offsets_that_are_wanted(filters: list[Any], left: tuple[int, int]) -> None:
    found = Pruning.of(filters).cut(RANGE)
    assert (found.start, found.end) == left


@pytest.mark.parametrize(
    ("filters", "earliest"),
    [
        ([GreaterThan(("timestamp",), NOON)], NOON_MS),
        ([GreaterThanOrEqual(("timestamp",), NOON.astimezone(timezone(timedelta(hours=5))))], NOON_MS),
        ([EqualTo(("timestamp",), NOON)], NOON_MS),
        ([In(("timestamp",), (NOON, NOON - timedelta(seconds=1)))], NOON_MS - 1_000),
        ([GreaterThan(("timestamp",), NOON - timedelta(days=1)), GreaterThan(("timestamp",), NOON)], NOON_MS),
        ([GreaterThan(("timestamp",), datetime(1960, 1, 1, tzinfo=UTC))], 0),
        # A later offset may have an earlier time, so an upper bound says nothing of where to stop.
        ([LessThan(("timestamp",), NOON)], None),
        ([GreaterThan(("timestamp",), NOON.replace(tzinfo=None))], None),
        ([In(("timestamp",), (NOON, "x"))], None),
    ],
)
def test_only_a_lower_bound_of_the_time_prunes(filters: list[Any], earliest: int | None) -> None:
    assert Pruning.of(filters).earliest_ms == earliest


def test_a_range_begins_at_the_first_offset_that_is_young_enough() -> None:
    assert Pruning().cut(RANGE, 15) == RANGE._replace(start=15)
    assert Pruning().cut(RANGE, 5) == RANGE
    assert Pruning().cut(RANGE, 30).size == 0
