"""``existing_partitions``: the partitions of a topic; a missing topic is found out long before a time-out.

Rule: brokers learn of a new topic one after the other, so the first that does not know it is not believed at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import KafkaTimeoutError

if TYPE_CHECKING:
    from ..common import PartitionInfo
    from .partition_reader import PartitionReader

__all__ = ["UNKNOWN_TOPIC_TIMEOUT", "existing_partitions"]

UNKNOWN_TOPIC_TIMEOUT: Final = 2.0
"""Seconds after which a topic that the brokers do not know counts as missing."""


async def existing_partitions(reader: PartitionReader, topic: str, timeout: float) -> tuple[PartitionInfo, ...]:
    """As ``PartitionReader.partitions_for``, but raises UnknownTopicOrPartitionError after two seconds already."""
    first = min(UNKNOWN_TOPIC_TIMEOUT, timeout)
    try:
        return await reader.partitions_for(topic, first)
    except KafkaTimeoutError:
        if first == timeout:
            raise
    return await reader.partitions_for(topic, timeout - first)
