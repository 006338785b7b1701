"""``RecordAppender.append_rows``: rows of a table into batches, as if each had been appended by itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy import errors
from aiokafkapy.producer.tables.row_places import RowPlaces
from aiokafkapy.record.arrow import BatchReader, ColumnNames, TableSchema
from aiokafkapy.record.arrow_rows import ArrowRows
from aiokafkapy.record.columns import Route

from ..accumulator_harness import KIB, Harness, Waiter

PLENTY = 1 << 40
NOW_MS = 1
ROUTE = Route(1, 2)


def rows_of(columns: dict[str, Any], hashes_keys: bool = True) -> Any:
    batch = pa.record_batch(columns)
    window, _ = BatchReader(batch, TableSchema(batch.schema, ColumnNames(), "t")).window(0, batch.num_rows)
    rows = ArrowRows(window, hashes_keys=hashes_keys)
    rows.now_ms = NOW_MS
    rows.plan(0, batch.num_rows, [ROUTE], PLENTY)
    return rows


def append_rows(harness: Harness, rows: Any, places: RowPlaces | None = None, most_bytes: int = PLENTY) -> bool:
    if places is None:
        places = RowPlaces()
    found: bool = harness.accumulator.appender.append_rows(
        rows, places, "t", 1, 3, most_bytes, harness.now, harness.cluster
    )
    return found


def drained(harness: Harness) -> list[bytes]:
    """All batches, by partition and in order."""
    found: dict[int, list[bytes]] = {}
    harness.accumulator.close()
    while harness.ready().ready_nodes:
        for batch in harness.drain():
            found.setdefault(batch.topic_partition.partition, []).append(b"".join(batch.buffers()))
    return [data for partition in sorted(found) for data in found[partition]]


@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=400), st.none() | st.binary(max_size=9), st.integers(0, 1)),
        max_size=80,
    ),
    st.sampled_from([1, 300, 2000, 16 * KIB]),
    st.sampled_from([1, 500, PLENTY]),
)
def test_the_batches_are_those_of_single_appends(rows: Any, batch_size: int, slice_bytes: int) -> None:
    one_by_one, at_once = Harness(batch_size=batch_size), Harness(batch_size=batch_size)
    for value, key, partition in rows:
        one_by_one.append_ok(value, partition, key=key, at=NOW_MS)
    table = {
        "value": pa.array([row[0] for row in rows], pa.binary()),
        "key": pa.array([row[1] for row in rows], pa.binary()),
        "partition": pa.array([row[2] for row in rows], pa.int32()),
    }
    planned, places = rows_of(table), RowPlaces()
    places.begin_window(planned.planned, planned.lanes())
    while planned.position < planned.planned:
        assert append_rows(at_once, planned, places, planned.encoded_bytes + slice_bytes)
    assert at_once.accumulator.accepted == one_by_one.accumulator.accepted == places.count == len(rows)
    assert planned.encoded_bytes == sum(batch.builder.records_size for batch in at_once.accumulator.incomplete)
    at_once.check()
    assert drained(at_once) == drained(one_by_one)


def test_rows_without_a_partition_go_to_the_sticky_one_batch_by_batch() -> None:
    harness = Harness(batch_size=2 * KIB, partitioner_adaptive_partitioning_enable=False)
    assert append_rows(harness, rows_of({"value": [b"x" * 100] * 200}))
    harness.check()
    partitions = [batch.topic_partition.partition for batch in harness.accumulator.incomplete]
    assert len(partitions) > 10
    assert abs(partitions.count(0) - partitions.count(1)) <= 1
    assert harness.accumulator.accepted == 200


def test_appending_rows_ends_where_memory_ends_and_goes_on_when_some_is_back() -> None:
    harness = Harness(batch_size=4 * KIB, buffer_memory=10 * KIB, max_request_size=8 * KIB)
    rows, places = rows_of({"value": [b"%04d" % n + b"x" * 96 for n in range(1000)]}), RowPlaces()
    places.begin_window(1000, None)
    rounds = 0
    while not append_rows(harness, rows, places):
        assert harness.held <= 10 * KIB
        assert harness.accumulator.accepted == rows.position == places.count
        assert harness.ready().ready_nodes
        for batch in harness.drain():
            batch.buffers()
            batch.complete(0)
            harness.accumulator.deallocate(batch)
        rounds += 1
        assert rounds < 200
    assert rows.position == 1000
    assert rounds > 5


def test_nothing_is_appended_while_others_wait() -> None:
    harness = Harness(buffer_memory=2 * KIB, batch_size=1 * KIB, max_request_size=2 * KIB)
    harness.append_ok(b"x" * 900)
    while harness.append(b"y" * 400) is not None:
        pass
    assert harness.accumulator.appender.append_or_wait(Waiter(b"z" * 400), harness.now, harness.cluster) is None
    rows = rows_of({"value": [b""]})
    assert not append_rows(harness, rows)
    assert rows.position == 0


def test_a_row_that_is_too_large_raises_in_its_turn_and_those_before_it_are_in() -> None:
    harness = Harness(max_request_size=1000)
    rows, places = rows_of({"value": [b"a", b"b", b"x" * 2000, b"c"]}), RowPlaces()
    places.begin_window(4, None)
    with pytest.raises(errors.RecordTooLargeError):
        append_rows(harness, rows, places)
    assert (rows.position, places.count, harness.accumulator.accepted) == (2, 2, 2)
    rows.position = 3
    assert append_rows(harness, rows, places)
    assert harness.accumulator.accepted == 3


def test_the_lanes_of_another_topic_are_left_alone() -> None:
    harness = Harness({"t": [1, 1]})
    rows = rows_of({"value": [b"a", b"b"], "partition": pa.array([0, 1], pa.int32())})
    assert harness.accumulator.appender.append_rows(rows, RowPlaces(), "t", 1, 2, PLENTY, harness.now, harness.cluster)
    assert rows.position == 1


def test_a_closed_accumulator_takes_no_rows() -> None:
    harness = Harness()
    harness.append_ok(b"open")
    harness.accumulator.close()
    with pytest.raises(errors.ProducerClosedError):
        append_rows(harness, rows_of({"value": [b"a"]}))


def test_a_full_batch_wakes_the_sender() -> None:
    harness = Harness(batch_size=1000)
    append_rows(harness, rows_of({"value": [b"a"]}))
    before = harness.wakeups
    append_rows(harness, rows_of({"value": [b"x" * 100] * 20}))
    assert harness.wakeups > before


def test_the_sticky_partition_is_returned_and_changes_when_it_has_its_share() -> None:
    harness = Harness(batch_size=1000)
    first = harness.accumulator.appender.sticky_partition("t", 0, harness.cluster)
    assert harness.accumulator.appender.sticky_partition("t", 500, harness.cluster) == first
    assert harness.accumulator.appender.sticky_partition("t", 500, harness.cluster) == 1 - first
