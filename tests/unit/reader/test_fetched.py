"""From batches to the records a reader may see."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import CorruptMessageError
from aiokafkapy.reader.fetched import AbortedTransaction, CompletedFetch
from aiokafkapy.record.batch import ControlType, assign_offset, control_batch
from aiokafkapy.record.builder import RecordBatchBuilder

TP = TopicPartition("t", 3)


def batch(base_offset: int, count: int, *, producer_id: int = -1, is_transactional: bool = False) -> bytearray:
    builder = RecordBatchBuilder(1 << 20)
    for number in range(count):
        builder.try_append(1_000 + number, b"k", b"%d" % (base_offset + number), None)
    builder.seal(0)
    builder.stamp(producer_id, 0 if producer_id >= 0 else -1, 0 if producer_id >= 0 else -1, is_transactional)
    data = bytearray().join(builder.buffers())
    assign_offset(data, base_offset, 0)
    return data


def marker(offset: int, kind: ControlType, producer_id: int) -> bytearray:
    data = control_batch(kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0)
    assign_offset(data, offset, 0)
    return data


def offsets(fetch: CompletedFetch, enough: int = 1_000) -> list[int]:
    return [record.offset for record in fetch.take(enough)]


def test_records_come_with_their_place_and_the_next_offset_is_behind_them() -> None:
    fetch = CompletedFetch(bytes(batch(5, 3)), TP, 5)
    records = fetch.take(1_000)
    assert [(one.topic, one.partition, one.offset, one.value) for one in records] == [
        ("t", 3, 5, b"5"),
        ("t", 3, 6, b"6"),
        ("t", 3, 7, b"7"),
    ]
    assert (fetch.next_offset, fetch.is_drained, fetch.error) == (8, True, None)


def test_records_before_the_position_are_left_out() -> None:
    assert offsets(CompletedFetch(bytes(batch(0, 4) + batch(4, 2)), TP, 2)) == [2, 3, 4, 5]


def test_batches_are_decoded_as_many_as_are_asked_for() -> None:
    fetch = CompletedFetch(bytes(batch(0, 3) + batch(3, 3) + batch(6, 3)), TP, 0)
    assert offsets(fetch, 4) == [0, 1, 2, 3, 4, 5]
    assert (fetch.next_offset, fetch.is_drained) == (6, False)
    assert offsets(fetch, 4) == [6, 7, 8]
    assert fetch.is_drained


def test_the_next_offset_is_never_behind_the_end_that_was_asked_for() -> None:
    for enough in (3, 1_000):  # with three there are enough: the end of the bytes is not looked for
        fetch = CompletedFetch(bytes(batch(0, 10)), TP, 0)
        assert [record.offset for record in fetch.take(enough, 5)] == [0, 1, 2, 3, 4]
        assert (fetch.next_offset, fetch.is_drained) == (5, True)


def test_an_end_that_compaction_has_removed_is_passed_by_no_record() -> None:
    fetch = CompletedFetch(bytes(batch(0, 2) + batch(8, 3)), TP, 0)
    assert [record.offset for record in fetch.take(1_000, 5)] == [0, 1]
    assert (fetch.next_offset, fetch.is_drained) == (5, True)


def test_the_end_of_a_batch_is_where_reading_stops_when_it_is_asked_for() -> None:
    fetch = CompletedFetch(bytes(batch(0, 2) + batch(2, 2)), TP, 0)
    assert [record.offset for record in fetch.take(1_000, 2)] == [0, 1]
    assert (fetch.next_offset, fetch.is_drained) == (2, True)


def test_a_trailing_part_of_a_batch_is_left_for_the_next_fetch() -> None:
    fetch = CompletedFetch(bytes(batch(0, 2) + batch(2, 5)[:-1]), TP, 0)
    assert offsets(fetch) == [0, 1]
    assert (fetch.next_offset, fetch.error) == (2, None)


def test_a_damaged_batch_is_an_error_after_the_batches_before_it() -> None:
    damaged = batch(2, 2)
    damaged[-1] ^= 1
    fetch = CompletedFetch(bytes(batch(0, 2) + damaged), TP, 0)
    assert offsets(fetch) == [0, 1]
    assert isinstance(fetch.error, CorruptMessageError)
    assert str(fetch.error).startswith("t-3: at offset 2:")
    assert fetch.next_offset == 2


def test_without_the_check_a_wrong_crc_is_not_looked_at() -> None:
    damaged = batch(0, 2)
    damaged[17] ^= 1  # the CRC itself
    assert CompletedFetch(bytes(damaged), TP, 0).take(9) == []
    assert offsets(CompletedFetch(bytes(damaged), TP, 0, check_crcs=False)) == [0, 1]


def test_control_records_are_never_seen_and_reading_goes_on_behind_them() -> None:
    data = batch(0, 1, producer_id=7, is_transactional=True) + marker(1, ControlType.COMMIT, 7)
    aborted: list[Any] | None
    for aborted in (None, []):
        fetch = CompletedFetch(bytes(data), TP, 0, aborted=aborted)
        assert offsets(fetch) == [0]
        assert fetch.next_offset == 2


def test_with_read_committed_an_aborted_transaction_is_not_seen_and_others_are() -> None:
    data = (
        batch(0, 2, producer_id=7, is_transactional=True)
        + batch(2, 1, producer_id=8, is_transactional=True)
        + batch(3, 1)
        + marker(4, ControlType.ABORT, 7)
        + batch(5, 1, producer_id=7, is_transactional=True)
        + marker(6, ControlType.COMMIT, 8)
        + marker(7, ControlType.COMMIT, 7)
    )
    aborted = [AbortedTransaction(first_offset=0, producer_id=7)]
    assert offsets(CompletedFetch(bytes(data), TP, 0, aborted=aborted)) == [2, 3, 5]
    assert offsets(CompletedFetch(bytes(data), TP, 0)) == [0, 1, 2, 3, 5]


def test_a_second_aborted_transaction_of_the_same_producer_begins_at_its_own_offset() -> None:
    data = (
        batch(0, 1, producer_id=7, is_transactional=True)
        + marker(1, ControlType.COMMIT, 7)
        + batch(2, 1, producer_id=7, is_transactional=True)
        + marker(3, ControlType.ABORT, 7)
    )
    fetch = CompletedFetch(bytes(data), TP, 0, aborted=[AbortedTransaction(2, 7)])
    assert offsets(fetch) == [0]
    assert fetch.next_offset == 4


@pytest.mark.parametrize("data", [b"", b"\0" * 11])
def test_nothing_or_too_little_gives_no_records(data: bytes) -> None:
    fetch = CompletedFetch(data, TP, 4)
    assert fetch.take(10) == []
    assert (fetch.next_offset, fetch.is_drained, fetch.error) == (4, True, None)
