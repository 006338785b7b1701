"""The batches that a log takes, and the reasons for those that it refuses."""

from __future__ import annotations

import struct

import pytest

from aiokafkapy.broker.storage.log_validator import RejectedRecords, RejectedTimestamps
from aiokafkapy.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
)

from ..support import make_batch
from .logs import NOW_MS, OpenLog, append


def test_a_batch_over_the_limit_names_size_and_limit(open_log: OpenLog) -> None:
    log = open_log(max_message_bytes="200")
    batch = make_batch([b"x" * 200])
    with pytest.raises(
        MessageTooLargeError, match=rf"{len(batch)} bytes which exceeds the maximum configured value of 200"
    ):
        append(log, batch)


def with_header(batch: bytes, offset: int, form: str, value: int) -> bytes:
    """The batch with one header field changed, and its CRC made right again."""
    from crc32c import crc32c

    changed = bytearray(batch)
    struct.pack_into(form, changed, offset, value)
    struct.pack_into(">I", changed, 17, crc32c(changed[21:]))
    return bytes(changed)


@pytest.mark.parametrize(
    ("batch", "problem"),
    [
        (make_batch() + make_batch(), "exactly one whole record batch"),
        (make_batch()[:40], "exactly one whole record batch"),
        (make_batch()[:-1], "exactly one whole record batch"),
        (b"", "exactly one whole record batch"),
        (with_header(make_batch(), 16, ">b", 1), "message format 1"),
        (with_header(make_batch(), 0, ">q", 5), "baseOffset .* should be 0"),
        (with_header(make_batch(), 21, ">h", 0x20), "control records"),
        (with_header(make_batch(), 57, ">i", 0), "Invalid reported count 0"),
        (with_header(make_batch(), 23, ">i", 4), r"Inconsistent batch offset range \[0, 4\] and count 1"),
        (make_batch(producer=(5, 0, -1)), "Invalid sequence number -1 in record batch with producerId 5"),
    ],
)
def test_a_batch_whose_header_is_wrong_is_refused(open_log: OpenLog, batch: bytes, problem: str) -> None:
    log = open_log()
    with pytest.raises(InvalidRecordError, match=problem):
        append(log, batch)
    assert log.end_offset == 0


@pytest.mark.parametrize("garbage", [b"x" * 100, bytes(100), with_header(make_batch(), 16, ">b", 3)])
def test_bytes_that_are_not_a_batch_are_corrupt_or_of_an_old_format(open_log: OpenLog, garbage: bytes) -> None:
    log = open_log()
    with pytest.raises((CorruptMessageError, InvalidRecordError)):
        append(log, garbage)
    assert log.end_offset == 0


def test_a_piece_behind_the_batch_is_left_out(open_log: OpenLog) -> None:
    log = open_log()
    batch = make_batch()
    append(log, batch + batch[:30])
    assert log.size == len(batch)


def test_records_from_the_future_are_named_one_by_one(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_after_max_ms="1000")
    with pytest.raises(RejectedTimestamps) as caught:
        append(log, make_batch([b"a", b"b", b"c"], timestamps=[NOW_MS, NOW_MS + 1_001, NOW_MS + 1_000]))
    assert [index for index, _ in caught.value.record_errors] == [1]
    assert isinstance(caught.value, InvalidTimestampError)
    assert log.end_offset == 0


def test_records_that_are_too_old_are_named_one_by_one(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_before_max_ms="1000")
    with pytest.raises(RejectedTimestamps) as caught:
        append(log, make_batch([b"a", b"b"], timestamps=[NOW_MS - 1_001, NOW_MS]))
    assert [index for index, _ in caught.value.record_errors] == [0]
    with pytest.raises(RejectedTimestamps) as caught:
        append(log, make_batch([b"a", b"b"], timestamps=[NOW_MS, NOW_MS - 1_001]))
    assert [index for index, _ in caught.value.record_errors] == [1]
    append(log, make_batch([b"a", b"b"], timestamps=[NOW_MS, NOW_MS - 1_000]))


def test_a_compacted_topic_names_the_records_without_a_key(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy="compact")
    append(log, make_batch())
    with pytest.raises(RejectedRecords, match="Compacted topic cannot accept message without key") as caught:
        append(log, make_batch([b"a", b"b"], key=None))
    assert [index for index, _ in caught.value.record_errors] == [0, 1]


def test_the_time_of_a_record_without_a_key_is_not_looked_at(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy="compact", message_timestamp_after_max_ms="1000")
    with pytest.raises(RejectedRecords, match="Compacted topic cannot accept message without key") as caught:
        append(log, make_batch([b"a", b"b"], key=None, timestamps=[NOW_MS, NOW_MS + 1_001]))
    assert [index for index, _ in caught.value.record_errors] == [0, 1]
    with pytest.raises(RejectedTimestamps):
        append(log, make_batch([b"a"], timestamps=[NOW_MS + 1_001]))
