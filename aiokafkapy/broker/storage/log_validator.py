"""The checks of a producer's batch before it is appended: size, CRC, header, times and keys.

Pure: it changes no batch and knows no offset of the log. Kafka's counterpart is ``LogValidator``, with its messages.

Rules:

- records are decoded only when the header does not settle whether one of them is refused;
- a batch is refused as a whole; the error names the records that are the reason (KIP-467).
"""

from __future__ import annotations

from itertools import islice

from ...common import NO_TIMESTAMP, Buffer
from ...errors import (
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    UnsupportedForMessageFormatError,
)
from ...record.batch import RecordBatch, iter_batches
from .topic_config import TopicConfig

__all__ = ["RejectedRecords", "RejectedTimestamps", "the_batch", "validate_batch", "validate_records"]


class RejectedRecords(InvalidRecordError):
    """Some records of a batch are refused, so all are; ``record_errors`` has (index, message) of each (KIP-467)."""

    def __init__(self, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class RejectedTimestamps(InvalidTimestampError):
    """As ``RejectedRecords``, because of the records' times."""

    def __init__(self, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(message)
        self.record_errors = record_errors


def the_batch(records: Buffer) -> RecordBatch:
    """The one batch that a Produce request has for a partition; a part of a batch behind it is ignored.

    Raises CorruptMessageError, and InvalidRecordError when there is none, more than one, or one of an old format.
    """
    try:
        batches = list(islice(iter_batches(records), 2))
    except UnsupportedForMessageFormatError as error:
        raise InvalidRecordError(str(error)) from None
    if len(batches) != 1:
        raise InvalidRecordError("Produce requests must have exactly one whole record batch per partition")
    return batches[0]


def validate_batch(batch: RecordBatch, config: TopicConfig, name: str) -> None:
    """Check size, CRC and header of a batch for the partition ``name``.

    Raises MessageTooLargeError, CorruptMessageError, InvalidRecordError.
    """
    if batch.size > config.max_message_bytes:
        raise MessageTooLargeError(
            f"The record batch size in the append to {name} is {batch.size} bytes which exceeds the maximum configured "
            f"value of {config.max_message_bytes}."
        )
    batch.validate()
    problem = _problem(batch)
    if problem:
        raise InvalidRecordError(f"{problem} in topic partition {name}.")


def validate_records(batch: RecordBatch, config: TopicConfig, name: str, now_ms: int) -> None:
    """Check the records' times, and on a compacted topic their keys.

    A record without a key is not checked for its time; if any time is wrong, RejectedTimestamps is raised for the whole
    batch. Raises InvalidTimestampError, RejectedTimestamps, RejectedRecords.
    """
    oldest, newest = now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms
    is_in_time = True
    if not config.uses_log_append_time:
        if batch.has_append_time:
            raise InvalidTimestampError(f"Invalid timestamp type in message of {name}: LogAppendTime is the broker's.")
        # The header has the newest time, so by default nothing is decoded. It does not have the oldest: its base is the
        # first record's, and a later one may be older.
        is_in_time = batch.max_timestamp <= newest and oldest <= 0
    if is_in_time and not config.is_compacted:
        return
    errors: list[tuple[int, str]] = []
    has_wrong_time = False
    for index, record in enumerate(batch.records()):
        if config.is_compacted and record.key is None:
            errors.append((index, f"Compacted topic cannot accept message without key in topic partition {name}."))
        elif not is_in_time and record.timestamp_ms != NO_TIMESTAMP and not oldest <= record.timestamp_ms <= newest:
            text = f"Timestamp {record.timestamp_ms} of message {index} should be within [{oldest}, {newest}]"
            errors.append((index, text))
            has_wrong_time = True
    if has_wrong_time:
        raise RejectedTimestamps("One or more records have been rejected due to invalid timestamp", errors)
    if errors:
        raise RejectedRecords(
            f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the "
            f"first three errors at most: {[message for _, message in errors[:3]]}",
            errors,
        )


def _problem(batch: RecordBatch) -> str | None:
    """The reason to refuse a producer's batch with sound bytes, or None; Java's ``LogValidator.validateBatch``."""
    if batch.base_offset != 0:
        return f"The baseOffset of the record batch should be 0, but it is {batch.base_offset}"
    if batch.is_control:
        return "Clients are not allowed to write control records"
    if batch.record_count <= 0:
        return f"Invalid reported count {batch.record_count} for record batch"
    if batch.record_count != batch.last_offset_delta + 1:
        return f"Inconsistent batch offset range [0, {batch.last_offset_delta}] and count {batch.record_count}"
    if batch.has_producer_id and batch.base_sequence < 0:
        return f"Invalid sequence number {batch.base_sequence} in record batch with producerId {batch.producer_id}"
    return None
