"""aiokafkapy.producer.tables.row_places and table_metadata: a row's partition and offset."""

from __future__ import annotations

import asyncio
from array import array
from typing import Any, cast

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy import PartitionMetadata, TopicPartition, errors
from aiokafkapy.producer.deliveries.delivery import new_delivery, place_of
from aiokafkapy.producer.deliveries.produce_request_result import Move, ProduceRequestResult
from aiokafkapy.producer.tables.row_places import RowPlaces
from aiokafkapy.producer.tables.table_metadata import TableMetadata

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def result_of(place: TopicPartition = T0, base_offset: int | None = None) -> ProduceRequestResult:
    result = ProduceRequestResult(place)
    if base_offset is not None:
        result.succeed(base_offset, -1)
    return result


async def settled(places: RowPlaces) -> TableMetadata:
    await asyncio.wait_for(places.settled(), 10)
    return TableMetadata(places, 0)


async def test_rows_sent_as_they_are_follow_their_batches() -> None:
    places = RowPlaces()
    first, second = result_of(T0, 100), result_of(T1, 7)
    places.begin_window(3, None)
    places.add_span(first, 5, 3)
    places.begin_window(3, None)
    places.add_span(first, 8, 1)
    places.add_span(second, 0, 2)
    metadata = await settled(places)
    assert [metadata.offset(row) for row in range(6)] == [105, 106, 107, 108, 7, 8]
    assert metadata.partitions == {T0: PartitionMetadata(4, 105, 108), T1: PartitionMetadata(2, 7, 8)}
    assert metadata.rows == len(metadata) == 6
    assert repr(metadata) == "<TableMetadata of 6 rows, 0 failed, in 2 partitions>"


async def test_failed_rows_may_be_asked_for_by_numpy_s_numbers() -> None:
    places = RowPlaces()
    places.begin_window(2, None)
    places.add_span(result_of(T0, 5), 0, 1)
    places.add_failed(1, errors.SerializationError("refused"))
    failed = (await settled(places)).failed
    first, second = (cast(int, numpy.int64(row)) for row in (0, 1))
    assert first not in failed
    assert second in failed
    assert str(failed[second]) == str(failed[1])
    assert all(other not in failed for other in (2**70, -1, "1", None, 1.0))


async def test_rows_sent_by_lanes_are_found_in_their_own_order() -> None:
    places = RowPlaces()
    places.begin_window(2, None)
    places.add_span(result_of(T0, 50), 0, 2)
    places.begin_window(5, array("B", [3, 1, 3, 1, 2]))
    places.add_span(result_of(T0, 0), 0, 2)
    places.add_span(result_of(T1, 10), 0, 1)
    places.add_span(result_of(T1, 20), 0, 2)
    metadata = await settled(places)
    assert [metadata.offset(row) for row in range(7)] == [50, 51, 20, 0, 21, 1, 10]
    for row in (-1, 7):
        with pytest.raises(IndexError, match=f"row {row} of 7"):
            metadata.offset(row)


async def test_waiting_for_rows_waits_for_every_batch_once_wherever_its_records_go() -> None:
    places = RowPlaces()
    pending, moved = result_of(), result_of()
    halves = [result_of(), result_of()]
    places.begin_window(6, None)
    places.add_span(pending, 0, 1)
    places.add_span(moved, 0, 4)
    places.add_span(pending, 1, 1)
    waiting = asyncio.ensure_future(places.settled())
    await asyncio.sleep(0)
    moved.move([Move(0, halves[0], 0), Move(2, halves[1], 0)])
    pending.succeed(10, -1)
    halves[0].succeed(20, -1)
    await asyncio.sleep(0)
    assert not waiting.done()
    halves[1].fail(errors.DeliveryTimeoutError("too late"))
    await asyncio.wait_for(waiting, 10)
    metadata = TableMetadata(places, 0)
    assert [metadata.offset(row) for row in (0, 1, 2, 5)] == [10, 20, 21, 11]
    assert list(metadata.failed) == [3, 4]
    assert metadata.partitions == {T0: PartitionMetadata(4, 10, 21)}
    with pytest.raises(errors.DeliveryTimeoutError, match="row 4: too late"):
        metadata.topic_partition(4)


async def test_a_waiter_may_be_cancelled() -> None:
    places = RowPlaces()
    result = result_of()
    places.begin_window(1, None)
    places.add_span(result, 0, 1)
    waiting = asyncio.ensure_future(places.settled())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    result.succeed(1, -1)
    assert (await settled(places)).offset(0) == 1


async def test_rows_that_were_not_accepted_have_errors_of_their_own() -> None:
    places = RowPlaces()
    places.begin_window(6, array("B", [0, 2, 0, 1, 2, 0]))
    places.add_failed(3, lambda index: errors.SerializationError(f"reason {index}"))
    places.add_failed(1, ValueError("not one of ours"))
    places.add_failed(0, ValueError("nobody"))
    places.add_span(result_of(T1, 0), 0, 1)
    places.add_failed(1, errors.ProducerClosedError("closed"))
    failed = (await settled(places)).failed
    assert {row: str(error) for row, error in failed.items()} == {
        0: "row 0: reason 0",
        2: "row 2: reason 1",
        3: "not one of ours",
        4: "row 4: closed",
        5: "row 5: reason 2",
    }
    assert failed[3].__notes__ == ["row 3 of the table"]
    assert str(failed[4]) == "row 4: closed"  # said once, however often it is looked at
    others: list[Any] = [1, 6, "0"]
    assert not any(row in failed for row in others)
    assert repr(failed) == "<5 failed rows>"
    with pytest.raises(KeyError):
        failed[1]


async def test_a_delivery_tells_its_place() -> None:
    result = result_of()
    assert place_of(new_delivery(result, 7, 0, -1, -1)) == (result, 7)


async def test_answers_without_offsets_have_none() -> None:
    places = RowPlaces()
    places.begin_window(3, None)
    places.add_span(result_of(T0, -1), 0, 2)
    places.add_span(result_of(T0, 4), 0, 1)
    metadata = await settled(places)
    assert [metadata.offset(row) for row in range(3)] == [-1, -1, 4]
    assert metadata.partitions == {T0: PartitionMetadata(3, 4, 4)}


async def test_failures_are_found_among_many_batches() -> None:
    places = RowPlaces()
    places.begin_window(3_000, None)
    results = [result_of() for _ in range(3_000)]
    for number, result in enumerate(results):
        places.add_span(result, 0, 1)
        if number % 100:
            result.succeed(number, -1)
        else:
            result.fail(errors.DeliveryTimeoutError())
    assert places.outstanding == 0
    assert list((await settled(places)).failed) == list(range(0, 3_000, 100))


async def test_progress_is_the_next_outcome() -> None:
    places = RowPlaces()
    first, second = result_of(), result_of()
    places.begin_window(3, None)
    places.add_span(first, 0, 1)
    places.add_span(second, 0, 1)
    places.add_span(first, 1, 1)
    now = asyncio.get_running_loop().time()
    assert places.outstanding == 3
    assert not await places.progress(now)
    waiting = asyncio.ensure_future(places.progress(now + 60))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.succeed(0, -1)
    assert await waiting
    assert places.outstanding == 1


async def test_finding_many_failed_rows_gives_others_their_turn() -> None:
    places = RowPlaces()
    for _ in range(20):
        places.begin_window(10_000, array("B", [1, 2] * 5_000))
        places.add_failed(10_000, errors.ProducerClosedError())
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_turns())
    metadata = await settled(places)
    counting.cancel()
    assert list(metadata.failed) == list(range(200_000))
    assert turns >= 5


@given(st.data())
def test_every_row_is_found_with_all_lanes_and_batches(data: Any) -> None:
    """Against the obvious: a list of each row's outcome."""
    places = RowPlaces()
    expected: list[tuple[int, int] | None] = []  # partition and offset
    offsets = [0, 0, 0]
    open_results: list[tuple[ProduceRequestResult, int] | None] = [None, None, None]
    pending: list[tuple[ProduceRequestResult, int]] = []
    for _ in range(data.draw(st.integers(0, 4))):
        lanes = data.draw(st.lists(st.integers(0, 3), max_size=12))
        is_plain = len(set(lanes)) <= 1
        places.begin_window(len(lanes), None if is_plain else array("B", lanes))
        rows = sorted(range(len(lanes)), key=lanes.__getitem__)
        outcome: list[tuple[int, int] | None] = [None] * len(lanes)
        for row in rows:
            lane = lanes[row]
            if not lane:
                places.add_failed(1, errors.SerializationError("refused"))
                continue
            batch = open_results[lane - 1]
            if batch is None or data.draw(st.booleans()):
                batch = (ProduceRequestResult(TopicPartition("t", lane)), offsets[lane - 1])
                pending.append(batch)
            result, base = batch
            open_results[lane - 1] = batch
            places.add_span(result, offsets[lane - 1] - base, 1)
            outcome[row] = (lane, offsets[lane - 1])
            offsets[lane - 1] += 1
        expected += outcome
    failing = {id(result) for result, _ in pending if data.draw(st.booleans())}
    for result, base in pending:
        if id(result) in failing:
            result.fail(errors.DeliveryTimeoutError())
        else:
            result.succeed(base, -1)
    lost = {(result.topic_partition.partition, base) for result, base in pending if id(result) in failing}

    async def look() -> None:
        metadata = await settled(places)
        found: list[tuple[int, int] | None] = []
        for row in range(metadata.rows):
            try:
                found.append((metadata.topic_partition(row).partition, metadata.offset(row)))
            except errors.KafkaError:
                found.append(None)
        assert [row for row, place in enumerate(found) if place is None] == list(metadata.failed)
        assert len(found) == len(expected)
        for row, place in enumerate(found):
            if place is not None:
                assert place == expected[row]
            elif expected[row] is not None:
                assert lost
        assert sum(told.count for told in metadata.partitions.values()) == len(found) - len(metadata.failed)

    asyncio.run(look())
