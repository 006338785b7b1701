"""Calls of consumer groups (KIP-848) whose answers have no ids that differ from one broker to another."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafkapy.protocol.api import ApiKey
from tests.kafka.agreement import create, patiently
from tests.raw_client import RawClient

__all__ = ["beat", "create_for_groups", "described", "joining", "listed", "topic_ids"]


async def beat(client: RawClient, group: str, member_id: str, epoch: int, *, version: int = 1, **fields: Any) -> Any:
    """The answer to a heartbeat, with partitions by number: ids of topics differ."""
    fields = {"group_id": group, "member_id": member_id, "member_epoch": epoch, "topic_partitions": None, **fields}
    body = await patiently(client, ApiKey.CONSUMER_GROUP_HEARTBEAT, version, **fields)
    assigned = (
        None if body.assignment is None else sorted(n for t in body.assignment.topic_partitions for n in t.partitions)
    )
    return int(body.error_code), body.error_message, body.member_epoch, assigned


def joining(topic: str, **changes: Any) -> dict[str, Any]:
    return {"rebalance_timeout": 10_000, "subscribed_topic_names": [topic], "topic_partitions": [], **changes}


async def described(client: RawClient, group: str, version: int = 1) -> Any:
    (answer,) = (await client.call(ApiKey.CONSUMER_GROUP_DESCRIBE, version, group_ids=[group])).groups
    members = [
        (
            each.member_id,
            each.instance_id,
            each.member_epoch,
            each.client_id,
            each.client_host,
            each.subscribed_topic_names,
            each.subscribed_topic_regex,
            [(topic.topic_name, sorted(topic.partitions)) for topic in each.assignment.topic_partitions],
            [(topic.topic_name, sorted(topic.partitions)) for topic in each.target_assignment.topic_partitions],
            getattr(each, "member_type", None),
        )
        for each in sorted(answer.members, key=lambda member: member.member_id)
    ]
    return (
        int(answer.error_code),
        answer.error_message,
        answer.group_state,
        answer.group_epoch,
        answer.assignment_epoch,
        answer.assignor_name,
        members,
    )


async def listed(client: RawClient, group: str, **filters: Any) -> Any:
    body = await client.call(ApiKey.LIST_GROUPS, 5, **filters)
    return [
        (each.protocol_type, each.group_state, each.group_type.lower())
        for each in body.groups
        if each.group_id == group
    ]


async def create_for_groups(client: RawClient, topic: str, partitions: int = 1) -> None:
    """A topic of which the coordinator of groups has heard. Kafka tells it last of all, after the leaders: a member
    that joins before that is given nothing. All groups have one coordinator here, so a group beside the scenario's can
    ask.
    """
    assert await create(client, topic, partitions) == 0
    probe = f"{topic}-probe"
    _, _, epoch, assigned = await beat(client, probe, "p", 0, **joining(topic))
    async with asyncio.timeout(10):
        while not assigned:
            _, _, epoch, assigned = await beat(client, probe, "p", epoch)
    await beat(client, probe, "p", -1)


async def topic_ids(client: RawClient, *topics: str) -> list[Any]:
    body = await client.call(ApiKey.METADATA, 12, topics=[{"name": topic} for topic in topics])
    return [each.topic_id for each in body.topics]
