"""Assignments of group members, as the protocol ``consumer`` writes them: the bytes that brokers pass on unread. Pure.

Owns their reading. Kafka's counterpart is ``ConsumerProtocol.deserializeAssignment``.

Rule: the bytes are a stranger's: those that do not fit are no assignment, and raise nothing.
"""

from __future__ import annotations

import struct
from typing import Final

from ..common import TopicPartition

__all__ = ["read_assignment"]

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")


def read_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions; none for bytes of another protocol."""
    found = []
    try:
        at = _SHORT.size  # the version, of which every one begins alike
        (topics,) = _INT.unpack_from(data, at)
        at += _INT.size
        for _ in range(topics):
            (length,) = _SHORT.unpack_from(data, at)
            at += _SHORT.size
            if length < 0 or at + length > len(data):
                return []
            name = data[at : at + length].decode()
            at += length
            (count,) = _INT.unpack_from(data, at)
            at += _INT.size
            if count < 0 or at + count * _INT.size > len(data):
                return []
            found += [TopicPartition(name, each) for each in struct.unpack_from(f">{count}i", data, at)]
            at += count * _INT.size
    except (struct.error, UnicodeDecodeError):
        return []
    return found
