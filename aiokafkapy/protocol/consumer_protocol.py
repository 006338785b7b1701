"""The protocol ``consumer`` inside of the classic groups' requests: members' subscriptions and assignments.

Owns these bytes, which a broker passes on unread until classic members are in a group of KIP-848's protocol. Pure.
Kafka's counterpart is ``ConsumerProtocol``, with the schemas ``ConsumerProtocolSubscription`` and
``ConsumerProtocolAssignment``.

Rules:

- the bytes are a stranger's: every length is checked before it is used, and invalid bytes raise MalformedFrameError;
- each version begins as the one before it, so a newer version is read as the newest known one, as in Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from ..common import TopicPartition
from ..errors import MalformedFrameError
from .cursor import Cursor, read_bytes, read_int16, read_int32, read_string

__all__ = [
    "PROTOCOL_TYPE",
    "Subscription",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "version_of",
]

PROTOCOL_TYPE: Final = "consumer"

OWNED_FROM_VERSION: Final = 1
GENERATION_FROM_VERSION: Final = 2
RACK_FROM_VERSION: Final = 3

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")


class Subscription(NamedTuple):
    """The metadata of a member."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    rack_id: str | None = None


def decode_subscription(data: bytes) -> Subscription:
    """A member's metadata. Raises MalformedFrameError."""
    cursor = Cursor(data)
    version = _version(cursor)
    topics = tuple(read_string(cursor) or "" for _ in range(_count(cursor)))
    read_bytes(cursor)
    owned = _partitions(cursor) if version >= OWNED_FROM_VERSION else ()
    if version >= GENERATION_FROM_VERSION:
        cursor.advance(_INT.size)
    return Subscription(topics, owned, (read_string(cursor) or None) if version >= RACK_FROM_VERSION else None)


def version_of(data: bytes) -> int:
    """The version of a member's metadata, in which the member also reads assignments. Raises MalformedFrameError."""
    return _version(Cursor(data))


def decode_assignment(data: bytes) -> tuple[tuple[TopicPartition, ...], bytes]:
    """The partitions of an assignment, and the assignor's own bytes. Raises MalformedFrameError."""
    cursor = Cursor(data)
    _version(cursor)
    return _partitions(cursor), read_bytes(cursor) or b""


def encode_assignment(version: int, partitions: Iterable[TopicPartition]) -> bytes:
    """An assignment as the broker makes it, without bytes of an assignor; all versions of it look the same."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    written = [_SHORT.pack(version), _INT.pack(len(by_topic))]
    for topic, indexes in by_topic.items():
        name = topic.encode()
        written += [_SHORT.pack(len(name)), name, struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)]
    return b"".join([*written, _INT.pack(-1)])


def _version(cursor: Cursor) -> int:
    version = read_int16(cursor)
    if version < 0:
        raise MalformedFrameError(f"version {version} of the protocol {PROTOCOL_TYPE}: the lowest is 0")
    return version


def _count(cursor: Cursor) -> int:
    count = read_int32(cursor)
    if count < 0:
        raise MalformedFrameError(f"an array of {count} at offset {cursor.position - _INT.size}")
    return cursor.read_count(count)


def _partitions(cursor: Cursor) -> tuple[TopicPartition, ...]:
    found: list[TopicPartition] = []
    for _ in range(_count(cursor)):
        topic = read_string(cursor) or ""
        found += [TopicPartition(topic, read_int32(cursor)) for _ in range(_count(cursor))]
    return tuple(found)
