"""The dev broker and real Kafka on consumer groups (KIP-848): epochs, fencing, reconciliation, offsets, words."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import ApacheKafka
from tests.kafka.agreement import Scenario, answers_of_both, create, describe, join_fields, joined, patiently
from tests.kafka.group_calls import beat, create_for_groups, described, joining, listed, topic_ids
from tests.raw_client import RawClient


async def a_consumer_group(client: RawClient, topic: str) -> Any:
    await create_for_groups(client, topic, 4)
    (topic_id,) = await topic_ids(client, topic)

    def owning(*partitions: int) -> dict[str, Any]:
        return {"topic_partitions": [{"topic_id": topic_id, "partitions": list(partitions)}]}

    told: list[Any] = [await beat(client, topic, "m", 0, **joining(topic)), await described(client, topic)]
    told.append(await beat(client, topic, "m", 1))
    told.append(await beat(client, topic, "n", 0, **joining(topic)))
    told.append(await described(client, topic))
    first = await beat(client, topic, "m", 1)
    told += [first[:3], len(first[3])]
    told.append(await beat(client, topic, "n", 2))
    told.append(await beat(client, topic, "m", 1, **owning(0, 1, 2, 3)))
    told.append((await beat(client, topic, "m", 1, **owning(*first[3])))[:3])
    told.append((await beat(client, topic, "n", 2))[:3])
    told.append((await described(client, topic))[:6])
    told += [await listed(client, topic), await listed(client, topic, types_filter=["Consumer"])]
    told += [
        await listed(client, topic, types_filter=["classic"]),
        await listed(client, topic, states_filter=["Empty"]),
    ]
    told.append(await describe(client, topic))
    told.append([await beat(client, topic, "m", epoch) for epoch in (1, 3, 0, -2, -3)])
    told.append(await beat(client, topic, "m", 1, **owning(*first[3])))
    told.append(await beat(client, topic, "m", 2, **joining(topic, **owning(*first[3]))))
    told.append(await beat(client, topic, "m", 0, **joining(topic)))
    told.append(await beat(client, topic, "n", -1))
    told.append((await described(client, topic))[:6])
    told.append((await beat(client, topic, "m", 2))[:3])
    body = await client.call(ApiKey.DELETE_GROUPS, 2, groups_names=[topic])
    told.append(int(body.results[0].error_code))
    told.append(joined(await client.call(ApiKey.JOIN_GROUP, 7, **join_fields(topic, protocol_type="connect"))))
    told.append(
        int((await client.call(ApiKey.HEARTBEAT, 4, group_id=topic, generation_id=3, member_id="m")).error_code)
    )
    told.append(await beat(client, topic, "m", -1))
    told.append(await described(client, topic))
    body = await client.call(ApiKey.DELETE_GROUPS, 2, groups_names=[topic])
    told.append(int(body.results[0].error_code))
    told += [await described(client, topic), await beat(client, topic, "m", 3), await beat(client, topic, "m", -1)]
    return told


async def members_of_different_topics(client: RawClient, topic: str) -> Any:
    other = f"{topic}-other"
    await create_for_groups(client, topic, 2)
    await create_for_groups(client, other, 2)
    told: list[Any] = [await beat(client, topic, "m", 0, **joining(topic))]
    told.append(await beat(client, topic, "n", 0, **joining(other, server_assignor="range")))
    told.append(await beat(client, topic, "m", 1))
    told.append(await described(client, topic))
    told.append(await beat(client, topic, "n", 2, subscribed_topic_names=[topic, other]))
    told.append((await described(client, topic))[:6])
    told.append(await beat(client, topic, "n", -1))
    told.append(await beat(client, topic, "m", 2))
    told.append(await described(client, topic))
    await create(client, f"{topic}-third")
    told.append(await beat(client, topic, "m", (await described(client, topic))[-1][0][2]))
    return told


async def heartbeats_that_cannot_be(client: RawClient, topic: str) -> Any:
    await create_for_groups(client, topic)
    candidates: list[dict[str, Any]] = [
        {"member_id": ""},
        {"group": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout": -1},
        {"topic_partitions": None},
        {"topic_partitions": [{"topic_id": (await topic_ids(client, topic))[0], "partitions": [0]}]},
        {"subscribed_topic_names": None},
        {"server_assignor": "sticky"},
        {"epoch": -2},
        {"epoch": -3},
        {"epoch": 5},
        {"version": 0, "member_id": "", "epoch": 1},
        {"subscribed_topic_names": ["a b"]},
        {"subscribed_topic_names": []},
    ]
    told = []
    for each in candidates:
        fields = {"group": topic, "member_id": "m", "epoch": 0, **joining(topic), **each}
        told.append(await beat(client, fields.pop("group"), fields.pop("member_id"), fields.pop("epoch"), **fields))
    for regex in (
        "(",
        "a**",
        "(?=a)",
        r"\1",
        "[z-a]",
        "a{1001}",
        r"\y",
        "(?P<n>a",
        r"\pX",
        "x{2,1}",
        ")",
        "(?i",
        "a++",
    ):
        fields = joining(topic, subscribed_topic_names=None, subscribed_topic_regex=regex)
        told.append((regex, (await beat(client, topic, "n", 0, **fields))[0]))
    return told


async def static_members_of_a_consumer_group(client: RawClient, topic: str) -> Any:
    await create_for_groups(client, topic, 2)
    static: dict[str, Any] = {"instance_id": "i"}
    told: list[Any] = [await beat(client, topic, "m", 0, **joining(topic, **static))]
    told.append(await beat(client, topic, "m", 0, **joining(topic, **static)))
    told.append(await beat(client, topic, "n", 0, **joining(topic, **static)))
    told.append(await beat(client, topic, "n", 1, **static))
    told.append(await beat(client, topic, "m", 1, instance_id="j"))
    told.append(await beat(client, topic, "m", -2, **static))
    told.append(await described(client, topic))
    told.append(await beat(client, topic, "m", 1, **static))
    told.append(await beat(client, topic, "n", 0, **joining(topic, **static)))
    told.append(await beat(client, topic, "m", 1, **static))
    told.append(await described(client, topic))
    told += [await beat(client, topic, "n", -1, **static), await beat(client, topic, "n", -1, **static)]
    return told


async def offsets_of_a_consumer_group(client: RawClient, topic: str) -> Any:
    await create_for_groups(client, topic, 2)
    await beat(client, topic, "m", 0, **joining(topic))

    async def commit(member_id: str, epoch: int, version: int = 9, group: str = topic) -> int:
        topics = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
        fields = {"group_id": group, "member_id": member_id, "generation_id_or_member_epoch": epoch, "topics": topics}
        body = await client.call(ApiKey.OFFSET_COMMIT, version, **fields)
        return int(body.topics[0].partitions[0].error_code)

    async def fetched(member_id: str | None, epoch: int, group: str = topic) -> Any:
        topics = [{"name": topic, "partition_indexes": [0]}]
        wanted = {"group_id": group, "member_id": member_id, "member_epoch": epoch, "topics": topics}
        (answer,) = (await client.call(ApiKey.OFFSET_FETCH, 9, groups=[wanted], require_stable=True)).groups
        return int(answer.error_code), [each.committed_offset for found in answer.topics for each in found.partitions]

    none = f"{topic}-none"
    told: list[Any] = [await commit("m", 1), await commit("m", 1, 8), await commit("m", 2), await commit("n", 1)]
    told += [await commit("", -1), await commit("m", 1, group=none), await commit("m", 1, 8, group=none)]
    told += [await fetched("m", 1), await fetched("m", 2), await fetched("n", 1), await fetched(None, -1)]
    told += [await fetched("m", 0), await fetched("m", 1, none)]
    topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    body = await client.call(ApiKey.OFFSET_DELETE, 0, group_id=topic, topics=topics)
    told.append((int(body.error_code), [int(each.error_code) for found in body.topics for each in found.partitions]))
    await beat(client, topic, "m", -1)
    told += [await commit("", -1), await fetched(None, -1), await fetched("m", 1)]
    body = await client.call(ApiKey.OFFSET_DELETE, 0, group_id=topic, topics=topics)
    told.append((int(body.error_code), [int(each.error_code) for found in body.topics for each in found.partitions]))
    return told


async def an_empty_group_becomes_one_of_the_other_protocol(client: RawClient, topic: str) -> Any:
    await create_for_groups(client, topic)
    told: list[Any] = []
    offsets = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    await patiently(client, ApiKey.HEARTBEAT, 4, group_id=topic, generation_id=1, member_id="m")
    await client.call(ApiKey.OFFSET_COMMIT, 8, group_id=topic, topics=offsets)
    told.append(await described(client, topic))
    first = await patiently(client, ApiKey.JOIN_GROUP, 7, **join_fields(topic))
    leaving = [{"member_id": first.member_id}]
    told.append(int((await client.call(ApiKey.LEAVE_GROUP, 5, group_id=topic, members=leaving)).error_code))
    told.append(await beat(client, topic, "m", 0, **joining(topic)))
    told.append(await listed(client, topic))
    told.append(await beat(client, topic, "m", -1))
    first = await client.call(ApiKey.JOIN_GROUP, 7, **join_fields(topic))
    second = await client.call(ApiKey.JOIN_GROUP, 7, **join_fields(topic, first.member_id))
    told += [int(first.error_code), joined(second)]
    assignments = [{"member_id": first.member_id, "assignment": b"all"}]
    me = {"group_id": topic, "generation_id": second.generation_id, "member_id": first.member_id}
    told.append((await client.call(ApiKey.SYNC_GROUP, 4, **me, assignments=assignments)).assignment)
    told.append(await listed(client, topic))
    told.append(await beat(client, topic, "m", 1))
    return told


SCENARIOS: list[Scenario] = [
    a_consumer_group,
    members_of_different_topics,
    heartbeats_that_cannot_be,
    static_members_of_a_consumer_group,
    offsets_of_a_consumer_group,
    an_empty_group_becomes_one_of_the_other_protocol,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_the_dev_broker_answers_as_kafka_does(kafka: ApacheKafka, topic: str, scenario: Scenario) -> None:
    ours, kafkas = await answers_of_both(kafka, topic, scenario)
    assert ours == kafkas
