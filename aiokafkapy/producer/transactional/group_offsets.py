"""A consumer group and its offsets in any client's form: aiokafka's, confluent-kafka's, Java's, or plain numbers.

Owns the arguments of ``send_offsets_to_transaction``; it knows no client by import. Kafka's counterparts are
``ConsumerGroupMetadata`` and ``OffsetAndMetadata``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from ...common import MAX_INT, MAX_LONG, TopicPartition, group_id_of, number_within, text_of, topic_partition_of

__all__ = ["GroupLike", "GroupMetadata", "OffsetToCommit", "OffsetsLike", "group_of", "offsets_of"]

_LIBRDKAFKA_GROUP: Final = b"CGMDv2:"
"""The first bytes of confluent-kafka's ``consumer_group_metadata()`` (rd_kafka_consumer_group_metadata_write)."""


class GroupMetadata(NamedTuple):
    """The membership of a consumer in a group, as its client's ``consumer_group_metadata()`` has it (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetToCommit(NamedTuple):
    """The next offset to read of a partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class _HasGroup(Protocol):
    """A client's object for a member of a group."""

    @property
    def group_id(self) -> str: ...


class _HasOffset(Protocol):
    """A client's object for the offset of a partition."""

    @property
    def offset(self) -> int: ...


class _HasPartition(_HasOffset, Protocol):
    """An offset together with its partition."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


GroupLike: TypeAlias = str | bytes | _HasGroup
OffsetsLike: TypeAlias = Mapping[Any, int | _HasOffset] | Iterable[_HasPartition]
"""The mapping's keys are partitions in any form, because ``Mapping`` is invariant in its keys."""


def offsets_of(offsets: Mapping[Any, Any] | Iterable[Any]) -> dict[TopicPartition, OffsetToCommit]:
    """Offsets in any client's form: numbers or objects with ``offset`` by partition, or a list of objects with
    ``topic``, ``partition`` and ``offset``, as confluent-kafka has them.

    Raises TypeError or ValueError for anything else, and InvalidTopicError for a name that no topic has.
    """
    pairs = offsets.items() if isinstance(offsets, Mapping) else ((one, one) for one in offsets)
    known = ((topic_partition_of(partition), one) for partition, one in pairs)
    return {topic_partition: _offset(topic_partition, one) for topic_partition, one in known}


def _offset(topic_partition: TopicPartition, one: object) -> OffsetToCommit:
    offset = getattr(one, "offset", one)
    epoch = getattr(one, "leader_epoch", None)
    return OffsetToCommit(
        number_within(f"{topic_partition}: an offset to commit", offset, 0, MAX_LONG),
        -1 if epoch is None else number_within(f"{topic_partition}: the leader epoch of an offset", epoch, -1, MAX_INT),
        text_of(f"{topic_partition}: the metadata of an offset", getattr(one, "metadata", None) or ""),
    )


def group_of(given: object) -> GroupMetadata:
    """A group in any client's form: its id, an object that also has the member, or confluent-kafka's bytes.

    Raises TypeError or ValueError for anything else.
    """
    if isinstance(given, bytes) and given.startswith(_LIBRDKAFKA_GROUP):
        return _group_of_librdkafka(given)
    group_id = getattr(given, "group_id", given)
    if not isinstance(group_id, str):
        raise TypeError(f"{given!r} is not a group: expected its id, or a consumer's group metadata")
    generation = getattr(given, "generation_id", None)
    instance = getattr(given, "group_instance_id", None)
    return GroupMetadata(
        group_id_of(group_id),
        -1 if generation is None else number_within("the generation of the group", generation, -1, MAX_INT),
        text_of("the member's id in the group", getattr(given, "member_id", None) or ""),
        None if instance is None else text_of("the member's group_instance_id", instance),
    )


def _group_of_librdkafka(given: bytes) -> GroupMetadata:
    try:
        (generation,) = struct.unpack_from("=i", given, len(_LIBRDKAFKA_GROUP))
        group_id, member_id, instance = given[len(_LIBRDKAFKA_GROUP) + 4 :].split(b"\0", 2)
    except (struct.error, ValueError):
        raise ValueError(f"{given!r} is not a group's metadata: it is cut short") from None
    # A byte that is 1 without a name, else 0 followed by the name.
    name = instance[1:].rstrip(b"\0").decode() if instance[:1] == b"\0" else None
    return GroupMetadata(group_id.decode(), generation, member_id.decode(), name)
