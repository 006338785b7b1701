"""``TopicAdmin``'s changes of options and deletions of records, on real Kafka as on the dev broker."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from aiokafkapy import KafkaProducer, TopicPartition
from aiokafkapy.admin import ConfigSource, TopicAdmin
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import KafkaError
from aiokafkapy.testing import ApacheKafka


async def outcome(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except KafkaError as error:
        return type(error).__name__


async def options(servers: str, topic: str) -> list[Any]:
    async with TopicAdmin(servers) as admin:
        await admin.create(topic)
        changes: tuple[dict[str, Any], ...] = (
            {"set": {"retention.ms": 1_000, "max.message.bytes": "2000", "preallocate": True}},
            {"append": {"cleanup.policy": "compact"}},
            {"subtract": {"cleanup.policy": ["delete"]}, "delete": ["retention.ms"]},
            {"set": {"retention.ms": 5}, "validate_only": True},
            {"set": {"no.such.option": "1"}},
            {"set": {"retention.ms": "soon", "max.message.bytes": 3_000}},
            {"append": {"retention.ms": "1"}},
            {"set": {"retention.ms": 1}, "delete": ["retention.ms"]},
            {"delete": ["segment.ms"]},
            {},
        )
        told = [await outcome(admin.alter_configs(topic, **each)) for each in changes]
        told.append(await outcome(admin.alter_configs(f"{topic}-none", set={"retention.ms": 1})))
        told.append(await outcome(admin.describe_configs([topic, f"{topic}-none"])))
        found = (await admin.describe_configs([topic]))[topic]
        told.append(await admin.configs(topic))
        told.append({name: found[name] for name in ("cleanup.policy", "segment.ms", "preallocate")})
        assert found["preallocate"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    return told


async def records(servers: str, topic: str) -> list[Any]:
    first, second, gone = (TopicPartition(topic, number) for number in (0, 1, 7))
    compacted = TopicPartition(f"{topic}-compacted", 0)
    async with TopicAdmin(servers) as admin, KafkaProducer(servers) as producer:
        await admin.create(topic, partitions=2)
        await admin.create(compacted.topic, partitions=1, configs={"cleanup.policy": ["compact"]})
        for number in range(6):
            await producer.send(topic, b"x", key=b"k", partition=number % 2)
        await producer.send(compacted.topic, b"x", key=b"k")
        told = [
            await outcome(admin.delete_records(offsets))
            for offsets in (
                {first: 1, second: -1},
                {first: 1, second: 0},
                {first: 4},
                {first: -2},
                {gone: 0, first: 2},
                {first: 2},
                {TopicPartition(f"{topic}-none", 0): -1},
                {compacted: -1},
            )
        ]
    return [str(each).replace(topic, "t") for each in told]


async def test_options_are_changed_as_on_the_dev_broker(kafka: ApacheKafka, topic: str) -> None:
    async with DevBroker() as broker:
        ours = await options(broker.bootstrap_servers, topic)
    assert ours == await options(kafka.bootstrap_servers, topic)
    async with TopicAdmin(kafka.bootstrap_servers) as admin:
        found = (await admin.describe_configs([topic]))[topic]["retention.ms"]
    assert (found.value, found.source) == ("-1", ConfigSource.STATIC_BROKER_CONFIG)  # as ``ApacheKafka`` sets it
    assert ours[:3] == [None, None, None]
    assert ours[-2] == {"max.message.bytes": "2000", "preallocate": "true", "cleanup.policy": "compact"}


async def test_records_are_deleted_as_on_the_dev_broker(kafka: ApacheKafka, topic: str) -> None:
    async with DevBroker() as broker:
        ours = await records(broker.bootstrap_servers, topic)
    assert ours == await records(kafka.bootstrap_servers, topic)


async def test_three_nodes_are_described_and_each_leader_deletes_its_records(kafka3: ApacheKafka, topic: str) -> None:
    servers = kafka3.bootstrap_servers
    async with TopicAdmin(servers) as admin, KafkaProducer(servers) as producer:
        cluster = await admin.describe_cluster()
        assert [node.node_id for node in cluster.nodes] == [1, 2, 3]
        assert cluster.controller in cluster.nodes
        made = await admin.create(topic, partitions=6, replication_factor=1)
        assert {each.leader for each in made.partitions} == {1, 2, 3}
        for number in range(6):
            await producer.send(topic, b"x", partition=number)
        wanted = {TopicPartition(topic, number): -1 for number in range(6)}
        assert await admin.delete_records(wanted) == dict.fromkeys(wanted, 1)
        await admin.alter_configs(topic, set={"retention.ms": 60_000})
