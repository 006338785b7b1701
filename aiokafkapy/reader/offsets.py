"""Offsets by time, as values: the special times, a found offset, and the error of an offset that was not found.

Pure: ``offset_lookup`` sends the requests. Kafka's counterparts are ``ListOffsetsRequest`` and ``OffsetAndTimestamp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..common import TopicPartition
from ..errors import KafkaError, KafkaTimeoutError
from ..protocol.constants import EARLIEST, LATEST, MAX_TIMESTAMP

if TYPE_CHECKING:
    from ..cluster.metadata import Metadata

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "OffsetAndTimestamp",
    "not_found_error",
    "refusal_of",
]


class OffsetAndTimestamp(NamedTuple):
    """An offset found. ``timestamp_ms`` is that of its record if a time was looked up, else -1; the leader epoch is -1
    if the broker did not return it.
    """

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


def not_found_error(
    topic_partition: TopicPartition, timeout: float, last_error: KafkaError | None, metadata: Metadata
) -> KafkaTimeoutError:
    """The error of a partition whose offset was not found in time, with its last error, or the gap in the metadata."""
    cause = last_error or metadata.describe_failure(*topic_partition)
    text = f"the offset of {topic_partition} was not found within {timeout:g} s: {cause}"
    return KafkaTimeoutError(text, topic=topic_partition.topic, partition=topic_partition.partition)


def refusal_of(topic_partition: TopicPartition, metadata: Metadata) -> KafkaError | None:
    """The reason why brokers do not report the leader, if it will not pass by itself, such as a missing right. Requests
    metadata, to notice when it is cured.
    """
    error = metadata.topic_error(topic_partition.topic)
    if error is None or error.retriable or metadata.current_leader(topic_partition)[0] is not None:
        return None
    metadata.request_update()
    return error.fresh()
