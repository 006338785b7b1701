"""Spooled records that brokers refused for good, as lines that ``aiokafkapy produce --resume FILE`` reads.

Owns which errors are for good. It knows no files. Kafka has no counterpart.
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
"""Errors that each record of the topic has."""


def is_for_good(error: BaseException) -> bool:
    """True when sending the same record again would fail in the same way, as far as anybody can tell."""
    return isinstance(error, BrokerError | RecordTooLargeError | InvalidTopicError) and not error.retriable


def may_be_of_another(error: BaseException) -> bool:
    """True when it may be the fault of another record of the batch that a broker refused with this error."""
    return not isinstance(error, _OF_ALL)


def refused_line(record: SpooledRecord, error: BaseException) -> bytes:
    """The record and why it was refused, as one line of JSON."""
    return undelivered_line(record, error, outcome_unknown=False)
