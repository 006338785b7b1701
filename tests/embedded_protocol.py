"""The bytes of the protocol ``consumer``, by kio's and aiokafka's schemas: not by the code under test."""

from __future__ import annotations

import io
from typing import Any

from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment, TopicPartition
from kio.schema.consumer_protocol_subscription.v0 import data as v0
from kio.schema.consumer_protocol_subscription.v3 import data as v3
from kio.serial import entity_writer

__all__ = ["assignment", "assignment_of", "subscription"]


def subscription(*topics: str, owned: tuple[int, ...] = (), rack_id: str | None = None, version: int = 3) -> bytes:
    """A member's metadata, of version 0 or 3; it has partitions of the first topic."""
    wanted: Any
    if version == 0:
        wanted = v0.ConsumerProtocolSubscription(topics=topics)
    else:
        has = (v3.TopicPartition(topic=topics[0], partitions=owned),) if owned else ()  # type: ignore[arg-type]
        wanted = v3.ConsumerProtocolSubscription(topics=topics, owned_partitions=has, rack_id=rack_id)
    return version.to_bytes(2, "big") + written(wanted)


def assignment(topic: str, *partitions: int, user_data: bytes | None = None) -> bytes:
    """A member's assignment."""
    has = (TopicPartition(topic=topic, partitions=partitions),) if partitions else ()  # type: ignore[arg-type]
    return b"\0\0" + written(ConsumerProtocolAssignment(assigned_partitions=has, user_data=user_data))


def assignment_of(data: bytes) -> tuple[int, list[tuple[str, int]]]:
    """The version of an assignment, and its partitions."""
    found = ConsumerProtocolMemberAssignment.decode(data)
    return found.version, sorted((topic, number) for topic, numbers in found.assignment for number in numbers)


def written(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()
