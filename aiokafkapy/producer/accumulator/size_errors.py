"""The errors of records that are too large: for the producer, or for their topic.

Owns the lower bound of a record's batch size. It knows no batches and no time. Kafka's counterpart of the first is
``KafkaProducer.ensureValidRecordSize``; Java knows no topic's limit: there a broker refuses the batch.

Rule: only a batch that cannot fit its topic has an error. A record may become much smaller when compressed, so
that only its codec's highest possible ratio counts.
"""

from __future__ import annotations

from typing import Final

from ...errors import RecordTooLargeError
from ...record.builder import RecordBatchBuilder
from ...record.compression import most_expansion
from ...record.layout import BATCH_HEADER_SIZE
from .serialized_record import IncomingRecord

__all__ = ["over_limit_error", "too_large_error"]

MOST_SLACK: Final = 97
"""The most bytes by which ``record_size_upper_bound`` may exceed the bytes of a record without headers."""
MOST_SLACK_OF_HEADER: Final = 10


def over_limit_error(
    record: IncomingRecord, most_size: int, compression: int, max_message_bytes: int
) -> RecordTooLargeError | None:
    """The error of a record whose batch cannot be within ``max_message_bytes``; None if it may be. ``most_size`` is its
    ``record_size_upper_bound``.
    """
    if compression:
        bytes_at_least = most_size - MOST_SLACK - MOST_SLACK_OF_HEADER * len(record.headers or ())
        size = BATCH_HEADER_SIZE + bytes_at_least // most_expansion(compression)
        how_many = f"{size} bytes at least, compressed,"
    else:
        builder = RecordBatchBuilder(1)
        builder.try_append(record.timestamp_ms, record.key, record.value, record.headers)
        size = builder.size
        how_many = f"{size} bytes"
    if size <= max_message_bytes:
        return None
    excess = f"{how_many} in a batch of its own, more than max.message.bytes of the topic"
    return _error(record, size, max_message_bytes, excess)


def too_large_error(record: IncomingRecord, size: int, option: str, limit: int) -> RecordTooLargeError:
    """The error of a record of ``size`` bytes, more than an option allows."""
    return _error(record, size, limit, f"{size} bytes when serialized, more than {option}")


def _error(record: IncomingRecord, size: int, limit: int, excess: str) -> RecordTooLargeError:
    partition = record.partition
    return RecordTooLargeError(
        f"a record for topic {record.topic!r} has {excess}, {limit}",
        size=size,
        limit=limit,
        topic=record.topic,
        partition=None if partition is None or partition < 0 else partition,
    )
