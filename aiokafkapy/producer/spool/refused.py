"""Spooled records that brokers refused for good, as lines that ``aiokafkapy produce --resume FILE`` reads.

Owns the list of lasting errors. It knows no files. Kafka has no counterpart.
"""

from __future__ import annotations

from typing import Final

from ...errors import (
    BrokerError,
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
)
from ..undelivered_line import undelivered_line
from .format import SpooledRecord

__all__ = ["is_for_good", "may_be_of_another", "refused_line"]

_OF_ALL: Final = (ClusterAuthorizationFailedError, InvalidTopicError, TopicAuthorizationFailedError)
"""Errors that every record of the topic would have."""


def is_for_good(error: BaseException) -> bool:
    """True when sending the same record again would presumably fail in the same way."""
    return isinstance(error, BrokerError | RecordTooLargeError | InvalidTopicError) and not error.retriable


def may_be_of_another(error: BaseException) -> bool:
    """True when another record of the batch may have caused a broker to refuse it with this error."""
    return not isinstance(error, _OF_ALL)


def refused_line(record: SpooledRecord, error: BaseException) -> bytes:
    """The record and the reason for its refusal, as one line of JSON."""
    return undelivered_line(record, error, outcome_unknown=False)
