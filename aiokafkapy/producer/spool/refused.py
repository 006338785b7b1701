"""Spooled records that brokers refused for good, as lines that ``aiokafkapy produce --resume FILE`` reads.

Owns which errors are for good. It knows no files. Kafka has no counterpart.
"""

from __future__ import annotations

from ...errors import BrokerError, InvalidTopicError, RecordTooLargeError
from ..undelivered_line import undelivered_line
from .format import SpooledRecord

__all__ = ["is_for_good", "refused_line"]


def is_for_good(error: BaseException) -> bool:
    """True when sending the same record again would fail in the same way, as far as anybody can tell."""
    return isinstance(error, BrokerError | RecordTooLargeError | InvalidTopicError) and not error.retriable


def refused_line(record: SpooledRecord, error: BaseException) -> bytes:
    """The record and why it was refused, as one line of JSON."""
    return undelivered_line(
        record.topic,
        record.partition,
        record.key,
        record.value,
        record.headers or (),
        record.timestamp_ms,
        error,
        outcome_unknown=False,
    )
