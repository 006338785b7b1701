"""Assignments of group members, as the protocol ``consumer`` writes them: the bytes that brokers pass on unread. Pure.

``protocol.consumer_protocol`` reads them. Kafka's counterpart is ``ConsumerProtocol.deserializeAssignment``.

Rule: the bytes are a stranger's: bytes that do not fit are an empty assignment, not an error.
"""

from __future__ import annotations

from ..common import TopicPartition
from ..errors import MalformedFrameError
from ..protocol.consumer_protocol import decode_assignment

__all__ = ["read_assignment"]


def read_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions; empty for bytes of another protocol."""
    try:
        return list(decode_assignment(data)[0])
    except MalformedFrameError:
        return []
