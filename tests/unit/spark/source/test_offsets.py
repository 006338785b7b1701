"""Offsets in the connector's JSON, the division of ranges into tasks, and the bounds of a micro-batch."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.common import TopicPartition
from aiokafkapy.spark.source.offsets import (
    OffsetRange,
    count_new,
    limit_rate,
    offsets_from_json,
    offsets_to_json,
    pack_ranges,
    parse_offsets,
    parse_partitions,
    split_ranges,
)

A0, A1, A10, B0 = (TopicPartition(*tp) for tp in (("a", 0), ("a", 1), ("a", 10), ("b", 0)))


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", number, 100, 100 + size) for number, size in enumerate(sizes)]


def sizes(found: list[OffsetRange]) -> list[tuple[int, int]]:
    return [(one.partition, one.size) for one in found]


def test_offsets_are_written_as_the_connector_writes_them() -> None:
    text = json.dumps(offsets_to_json({B0: 5, A10: 2, A1: 1, A0: 23}), separators=(",", ":"))
    assert text == '{"a":{"0":23,"1":1,"10":2},"b":{"0":5}}'


def test_offsets_are_read_as_they_were_written() -> None:
    offsets = {A0: 23, A10: 0, B0: 2**62}
    assert offsets_from_json(json.loads(json.dumps(offsets_to_json(offsets)))) == offsets
    assert parse_offsets(json.dumps(offsets_to_json(offsets))) == offsets


def test_the_earliest_and_the_latest_offset_are_numbers_as_any() -> None:
    assert parse_offsets(' {"a": {"0": -2, "1": -1}} ') == {A0: -2, A1: -1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "it is not JSON"),
        ("[1]", "not a JSON object"),
        ('{"a": 5}', "the value of 'a' must be an object"),
        ('{"a": {"x": 5}}', "'x' in 'a' is not the number of a partition"),
        ('{"a": {"-1": 5}}', "'-1' in 'a' is not the number of a partition"),
        ('{"a": {"0": "5"}}', "\"5\" for partition 0 of 'a' is not a whole number"),
        ('{"a": {"0": true}}', "true for partition 0 of 'a' is not a whole number"),
    ],
)
def test_the_error_for_malformed_offsets_has_the_reason(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_offsets(text)


def test_partitions_are_read_in_order_and_once() -> None:
    assert parse_partitions('{"b": [0], "a": [10, 1, 1, 0]}') == (A0, A1, A10, B0)


@pytest.mark.parametrize("text", ["[]", '{"a": {"0": 1}}', '{"a": ["0"]}', '{"a": [-1]}', '{"a": [true]}', "a"])
def test_partitions_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_partitions(text)


def test_a_partition_is_a_task_and_an_empty_one_is_none() -> None:
    assert sizes(split_ranges(ranges(5, 0, 7, -3))) == [(0, 5), (2, 7)]


def test_enough_partitions_are_not_split() -> None:
    assert sizes(split_ranges(ranges(5, 7), min_partitions=2)) == [(0, 5), (1, 7)]


def test_large_partitions_are_split_in_proportion() -> None:
    found = sizes(split_ranges(ranges(10_000, 100, 20_000), min_partitions=7))
    assert found == [(0, 5_000)] * 2 + [(1, 100)] + [(2, 5_000)] * 4


def test_a_split_batch_is_still_complete_and_in_order() -> None:
    found = split_ranges(ranges(10), min_partitions=4)
    assert [(one.start, one.end) for one in found] == [(100, 102), (102, 104), (104, 107), (107, 110)]


def test_more_tasks_than_offsets_are_not_made() -> None:
    assert sizes(split_ranges(ranges(3), min_partitions=10)) == [(0, 1), (0, 1), (0, 1)]


def test_no_task_has_more_than_the_most_records() -> None:
    assert sizes(split_ranges(ranges(10, 3), max_records=4)) == [(0, 3), (0, 3), (0, 4), (1, 3)]


@given(
    st.lists(st.integers(-5, 2_000), max_size=20),
    st.none() | st.integers(1, 60),
    st.none() | st.integers(1, 500),
)
def test_nothing_is_lost_or_doubled_by_splitting(
    wanted: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    found = split_ranges(ranges(*wanted), min_partitions, max_records)
    assert all(one.size > 0 for one in found)
    if max_records is not None:
        assert all(one.size <= max_records for one in found)
    offsets = [(one.partition, offset) for one in found for offset in range(one.start, one.end)]
    assert offsets == [(one.partition, offset) for one in ranges(*wanted) for offset in range(one.start, one.end)]


def test_each_range_has_a_task_of_its_own_unless_that_is_too_many() -> None:
    assert pack_ranges(ranges(5, 7), None) == [(one,) for one in ranges(5, 7)]
    assert pack_ranges(ranges(5, 7), 2) == [(one,) for one in ranges(5, 7)]


def test_ranges_that_share_tasks_are_spread_evenly() -> None:
    tasks = pack_ranges(ranges(*[10] * 6, 60), 2)
    assert [sum(one.size for one in task) for task in tasks] == [60, 60]
    assert sorted(one for task in tasks for one in task) == ranges(*[10] * 6, 60)


def test_a_limit_is_shared_in_proportion_to_the_backlog() -> None:
    start, end = {A0: 0, A1: 100, B0: 50}, {A0: 300, A1: 200, B0: 50}
    assert limit_rate(100, start, end) == {A0: 75, A1: 125, B0: 50}


def test_a_small_backlog_is_not_starved() -> None:
    assert limit_rate(10, {A0: 0, A1: 0}, {A0: 1_000_000, A1: 3}) == {A0: 9, A1: 1}


def test_a_limit_over_the_backlog_takes_all() -> None:
    assert limit_rate(2**63 - 1, {A0: 0, A1: 5}, {A0: 7, A1: 5}) == {A0: 7, A1: 5}


def test_only_offsets_that_are_new_count() -> None:
    assert count_new({A0: 10, A1: 20}, {A0: 15, A1: 5, B0: 3}) == 8
