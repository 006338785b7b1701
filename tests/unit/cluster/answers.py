"""Metadata responses, made from a few words, and taken by a ``Metadata``."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.cluster.metadata_answer import MetadataAnswer
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_response
from aiokafkapy.testing.clock import VirtualClock

BROKERS = [{"node_id": 1, "host": "one", "port": 1}, {"node_id": 2, "host": "two", "port": 2}]


def partition(number: int = 0, leader: int = 1, epoch: int = 1, error: int = 0) -> dict[str, Any]:
    """A partition of an answer."""
    return {"partition_index": number, "leader_id": leader, "leader_epoch": epoch, "error_code": error}


def topic(name: str, *partitions: dict[str, Any], topic_id: UUID | None = None, error: int = 0) -> dict[str, Any]:
    """A topic of an answer."""
    return {"name": name, "partitions": partitions, "topic_id": topic_id, "error_code": error}


def answer(*topics: dict[str, Any], version: int = 12, brokers: Any = BROKERS, cluster_id: str = "c") -> Any:
    """A Metadata response."""
    fields = {"brokers": brokers, "cluster_id": cluster_id, "controller_id": 1}
    return build_response(ApiKey.METADATA, version, topics=topics, **fields)


def update(
    metadata: Metadata, clock: VirtualClock, *topics: dict[str, Any], partial: bool = False, **more: Any
) -> None:
    """Have ``metadata`` take an answer with these topics."""
    metadata.update(metadata.request_version, MetadataAnswer(answer(*topics, **more)), clock.time(), is_partial=partial)
