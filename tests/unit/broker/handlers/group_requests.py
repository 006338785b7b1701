"""Requests of group members to their coordinator, in any version."""

from __future__ import annotations

from typing import Any

from aiokafkapy.broker.handlers.dispatch_table import dispatch_table
from aiokafkapy.protocol.api import ApiKey

from .harness import Harness

__all__ = ["call", "commit", "join", "joined", "sync", "versions"]


def call(harness: Harness, api: ApiKey, version: int, group: str = "g", /, **fields: Any) -> Any:
    """Ask the node that coordinates the group."""
    return harness.call(api, version, node_id=harness.coordinator_id(group), **fields)


def versions(api: ApiKey) -> list[int]:
    handler = dispatch_table()[api]
    return list(range(handler.min_version, handler.max_version + 1))


def join(harness: Harness, version: int = 9, member_id: str = "", group_id: str = "g", **fields: Any) -> Any:
    fields = {
        "group_id": group_id,
        "member_id": member_id,
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"meta"}],
        **fields,
    }
    return call(harness, ApiKey.JOIN_GROUP, version, group_id, **fields)


def joined(harness: Harness, version: int = 9) -> Any:
    """Join as a client does: with the id it is given, if it is."""
    answer = join(harness, version)
    return join(harness, version, answer.member_id) if answer.error_code == 79 else answer


def sync(harness: Harness, member: Any, version: int = 5, assignment: bytes = b"all") -> Any:
    assignments = [{"member_id": member.member_id, "assignment": assignment}]
    fields = {"group_id": "g", "generation_id": member.generation_id, "member_id": member.member_id}
    fields |= {"protocol_type": "consumer", "protocol_name": "range"}
    return call(harness, ApiKey.SYNC_GROUP, version, **fields, assignments=assignments)


def commit(harness: Harness, version: int, offset: int, partition: int = 0, metadata: str | None = "note") -> int:
    wanted = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": 3,
        "committed_metadata": metadata,
    }
    topics = [{"name": "t", "partitions": [wanted]}]
    body = call(harness, ApiKey.OFFSET_COMMIT, version, group_id="g", topics=topics)
    return int(body.topics[0].partitions[0].error_code)
