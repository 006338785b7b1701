"""Filters that are pushed down skip only records that cannot match."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
        # A filter that is not understood prunes nothing.
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
        ([GreaterThan(("timestamp",), datetime(1960, 1, 1, tzinfo=UTC))], None),
        ([GreaterThanOrEqual(("timestamp",), EPOCH)], None),
        ([GreaterThan(("timestamp",), EPOCH + timedelta(milliseconds=1))], 1),
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


# the same rows with pruning and without it


class Record(NamedTuple):
    """A record of one of two topics, as a row has it."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime


TIMES = st.integers(-3, 3).map(lambda number: EPOCH + timedelta(milliseconds=number)) | st.sampled_from(
    [datetime(1950, 1, 1, tzinfo=UTC), EPOCH + timedelta(microseconds=1), EPOCH - timedelta(microseconds=1), NOON]
)
LOGS = st.dictionaries(st.tuples(st.sampled_from("tu"), st.integers(0, 2)), st.lists(TIMES, max_size=6))
COMPARISONS: dict[Any, Any] = {
    EqualTo: lambda left, right: left == right,
    EqualNullSafe: lambda left, right: left == right,
    GreaterThan: lambda left, right: left > right,
    GreaterThanOrEqual: lambda left, right: left >= right,
    LessThan: lambda left, right: left < right,
    LessThanOrEqual: lambda left, right: left <= right,
    In: lambda left, right: left in right,
}


def comparisons(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    of_one = st.builds(lambda kind, value: kind((column,), value), st.sampled_from([*COMPARISONS][:-1]), values)
    of_some = st.lists(values | st.none(), min_size=1, max_size=3).map(lambda some: In((column,), tuple(some)))
    found: st.SearchStrategy[Any] = of_one | of_some
    return found | found.map(Not)


FILTERS = st.lists(
    comparisons("topic", st.sampled_from("tux"))
    | comparisons("partition", st.integers(-1, 3))
    | comparisons("offset", st.integers(-1, 7))
    | comparisons("timestamp", TIMES),
    max_size=4,
)


def holds(one: Any, record: Record) -> bool:
    if isinstance(one, Not):
        return not holds(one.child, record)
    return bool(COMPARISONS[type(one)](getattr(record, one.attribute[0]), one.value))


def first_by_time(times: list[datetime], earliest_ms: int) -> int:
    """As Kafka's ListOffsets: -1 is the latest offset, -2 the earliest."""
    if earliest_ms < 0:
        return {-1: len(times), -2: 0}[earliest_ms]
    reached = [
        number for number, time in enumerate(times) if (time - EPOCH) // timedelta(milliseconds=1) >= earliest_ms
    ]
    return min(reached, default=len(times))


@given(LOGS, FILTERS)
def test_with_filters_pushed_down_a_read_has_the_same_rows(
    logs: dict[tuple[str, int], list[datetime]], filters: list[Any]
) -> None:
    pruning = Pruning.of(filters)
    everything: list[Record] = []
    read: list[Record] = []
    for place, times in logs.items():
        records = [Record(*place, offset, time) for offset, time in enumerate(times)]
        everything += records
        if pruning.keeps(TopicPartition(*place)):
            earliest = pruning.earliest_ms
            first = None if earliest is None else first_by_time(times, earliest)
            cut = pruning.cut(OffsetRange(*place, 0, len(times)), first)
            read += records[cut.start : cut.end]
    wanted = [record for record in everything if all(holds(one, record) for one in filters)]
    assert [record for record in read if all(holds(one, record) for one in filters)] == wanted
