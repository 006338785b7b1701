"""Requests that write and read partitions, in any version, and the content of their responses."""

from __future__ import annotations

from typing import Any

from aiokafkapy.broker.handlers.registry import CLOSE_CONNECTION, NO_RESPONSE
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.batch import iter_batches

from .harness import Harness

__all__ = ["base_offsets", "fetch", "fetched", "place", "produce"]


def place(harness: Harness, version: int, by_id_from: int, name: str = "t", key: str = "topic") -> dict[str, Any]:
    """The field by which a version names a topic."""
    if version < by_id_from:
        return {key: name}
    topic = harness.topics.get(name)
    return {"topic_id": None if topic is None else topic.topic_id}


def produce(
    harness: Harness,
    *batches: bytes | None,
    version: int = 13,
    acks: int = -1,
    node_id: int = 1,
    first: int = 0,
    **fields: Any,
) -> Any:
    """Produce batches to partitions ``first``, ``first`` + 1 … and return the response of each."""
    data = [{"index": first + index, "records": batch} for index, batch in enumerate(batches)]
    topic_data = [{**place(harness, version, 13, key="name"), "partition_data": data}]
    fields = {"acks": acks, "timeout": 1_000, "topic_data": topic_data, **fields}
    body = harness.call(ApiKey.PRODUCE, version, node_id=node_id, **fields)
    if body in (NO_RESPONSE, CLOSE_CONNECTION):
        return body
    (topic,) = body.responses
    return topic.partition_responses


def fetch(
    harness: Harness,
    *offsets: int,
    version: int = 18,
    node_id: int = 1,
    partition_max_bytes: int = 10_000,
    leader_epoch: int = -1,
    **fields: Any,
) -> Any:
    """Fetch partitions 0, 1 … from these offsets."""
    partitions = [
        {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": partition_max_bytes,
            "current_leader_epoch": leader_epoch,
        }
        for index, offset in enumerate(offsets)
    ]
    topics = [{**place(harness, version, 13), "partitions": partitions}]
    fields = {"max_wait": 0, "min_bytes": 1, "max_bytes": 100_000, "topics": topics, **fields}
    return harness.call(ApiKey.FETCH, version, node_id=node_id, **fields)


def fetched(body: Any) -> list[Any]:
    """The partitions of a Fetch response."""
    return [partition for topic in body.responses for partition in topic.partitions]


def base_offsets(partition: Any) -> list[int]:
    return [batch.base_offset for batch in iter_batches(partition.records)]
