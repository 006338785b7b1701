"""The APIs about nodes, topics and their options, in every version that is served."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from aiokafkapy.protocol.api import ApiKey

from ..socketless import SocketlessNode, socketless_node

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def create(node: SocketlessNode, *topics: dict[str, Any], version: int = 7, **fields: Any) -> list[Any]:
    wanted = [{"num_partitions": 1, "replication_factor": 1} | topic for topic in topics]
    return list(node.call(ApiKey.CREATE_TOPICS, version, topics=wanted, timeout=1000, **fields).topics)


def codes(results: Any) -> list[int]:
    return [int(result.error_code) for result in results]


# Metadata


async def test_metadata_names_unknown_topics_without_making_them_when_told_so() -> None:
    async with socketless_node() as node:
        for version in range(4, 14):
            body = node.call(ApiKey.METADATA, version, topics=[{"name": "t"}], allow_auto_topic_creation=False)
            assert codes(body.topics) == [3]
        assert len(node.state.topics) == 0


async def test_metadata_makes_no_topic_where_the_broker_forbids_it() -> None:
    async with socketless_node(auto_create_topics_enable=False) as node:
        assert codes(node.call(ApiKey.METADATA, 13, topics=[{"name": "t"}]).topics) == [3]


async def test_metadata_makes_topics_with_the_brokers_number_of_partitions() -> None:
    async with socketless_node(nodes=3, num_partitions=4) as node:
        topic = node.call(ApiKey.METADATA, 13, topics=[{"name": "t"}]).topics[0]
        assert [partition.leader_id for partition in topic.partitions] == [1, 2, 3, 1]
        assert topic.partitions[1].replica_nodes == (2, 3, 1)


async def test_metadata_refuses_names_that_are_none() -> None:
    async with socketless_node() as node:
        body = node.call(ApiKey.METADATA, 13, topics=[{"name": ""}, {"name": "a b"}, {"name": "fine"}])
        assert codes(body.topics) == [17, 17, 0]


async def test_metadata_finds_topics_by_id_from_version_12() -> None:
    async with socketless_node() as node:
        node.broker.create_topic("t")
        topic_id = node.state.topics.get("t").topic_id  # type: ignore[union-attr]
        body = node.call(ApiKey.METADATA, 12, topics=[{"name": None, "topic_id": topic_id}])
        assert (body.topics[0].name, body.topics[0].error_code) == ("t", 0)
        unknown = uuid4()
        body = node.call(ApiKey.METADATA, 13, topics=[{"name": None, "topic_id": unknown}])
        assert (body.topics[0].topic_id, body.topics[0].error_code, body.error_code) == (unknown, 100, 0)


async def test_metadata_shows_only_running_nodes_and_who_is_offline() -> None:
    async with socketless_node(nodes=3) as node:
        node.broker.create_topic("t")
        del node.state.running_nodes[1]
        node.state.topics.node_stopped(1)
        body = node.call(ApiKey.METADATA, 13, topics=None)
        partition = body.topics[0].partitions[0]
        assert [broker.node_id for broker in body.brokers] == [2, 3]
        assert (body.controller_id, partition.leader_id, partition.leader_epoch) == (2, 2, 1)
        assert (partition.isr_nodes, partition.offline_replicas) == ((2, 3), (1,))


# CreateTopics, DeleteTopics, CreatePartitions


@pytest.mark.parametrize("version", range(2, 8))
async def test_topics_are_created_each_by_itself(version: int) -> None:
    async with socketless_node(nodes=3) as node:
        results = create(
            node,
            {
                "name": "a",
                "num_partitions": 2,
                "replication_factor": 2,
                "configs": [{"name": "retention.ms", "value": "5"}],
            },
            {"name": "b c"},
            {"name": "d", "replication_factor": 4},
            {"name": "e", "num_partitions": 0},
            {"name": "f", "configs": [{"name": "no.such", "value": "1"}]},
            version=version,
        )
        assert codes(results) == [0, 17, 38, 37, 40]
        assert "b c" in results[1].error_message
        assert [topic.name for topic in node.state.topics] == ["a"]
        if version >= 5:
            assert (results[0].num_partitions, results[0].replication_factor) == (2, 2)
            assert {entry.name: entry.value for entry in results[0].configs}["retention.ms"] == "5"
        if version >= 7:
            assert results[0].topic_id == node.state.topics.get("a").topic_id  # type: ignore[union-attr]


async def test_a_topic_twice_in_a_request_or_in_the_cluster_is_refused() -> None:
    async with socketless_node() as node:
        assert codes(create(node, {"name": "twice"}, {"name": "twice"}, {"name": "once"})) == [42, 0]
        assert codes(create(node, {"name": "once"})) == [36]


async def test_validate_only_makes_nothing() -> None:
    async with socketless_node() as node:
        assert codes(create(node, {"name": "t"}, validate_only=True)) == [0]
        assert codes(create(node, {"name": "u", "num_partitions": 0}, validate_only=True)) == [37]
        assert len(node.state.topics) == 0


async def test_replicas_may_be_assigned_by_hand() -> None:
    async with socketless_node(nodes=3) as node:
        by_hand = {"num_partitions": -1, "replication_factor": -1}
        assignments = [{"partition_index": 0, "broker_ids": [3, 1]}, {"partition_index": 1, "broker_ids": [2, 3]}]
        assert codes(create(node, {"name": "t", **by_hand, "assignments": assignments})) == [0]
        assert [p.replicas for p in node.state.topics.get("t").partitions] == [(3, 1), (2, 3)]  # type: ignore[union-attr]
        assert codes(create(node, {"name": "u", "assignments": assignments})) == [42]
        assert codes(create(node, {"name": "u", **by_hand, "assignments": assignments[:1] * 2})) == [37]


@pytest.mark.parametrize("version", range(1, 7))
async def test_topics_are_deleted_each_by_itself(version: int) -> None:
    async with socketless_node() as node:
        node.broker.create_topic("t")
        wanted = {"topics": [{"name": "t"}, {"name": "u"}]} if version == 6 else {"topic_names": ["t", "u"]}
        assert codes(node.call(ApiKey.DELETE_TOPICS, version, timeout=1000, **wanted).responses) == [0, 3]
        assert len(node.state.topics) == 0


async def test_topics_are_deleted_by_id_and_not_at_all_where_that_is_off() -> None:
    async with socketless_node() as node:
        node.broker.create_topic("t")
        topic_id = node.state.topics.get("t").topic_id  # type: ignore[union-attr]
        wanted = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": uuid4()}]
        results = node.call(ApiKey.DELETE_TOPICS, 6, topics=wanted, timeout=1000).responses
        assert [(result.name, result.error_code) for result in results] == [("t", 0), (None, 100)]
    async with socketless_node(delete_topic_enable=False) as node:
        node.broker.create_topic("t")
        assert codes(node.call(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "t"}], timeout=1000).responses) == [73]
        assert len(node.state.topics) == 1


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added_and_never_taken_away(version: int) -> None:
    async with socketless_node() as node:
        node.broker.create_topic("t", partitions=2)

        def grow(count: int, **fields: Any) -> int:
            topics = [{"name": "t", "count": count, "assignments": None}]
            return codes(node.call(ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout=1000, **fields).results)[0]

        assert [grow(1), grow(2), grow(5, validate_only=True)] == [37, 37, 0]
        topic = node.state.topics.get("t")
        assert topic is not None
        assert len(topic.partitions) == 2
        assert grow(5) == 0
        assert [partition.index for partition in topic.partitions] == [0, 1, 2, 3, 4]


async def test_a_request_adds_ten_thousand_partitions_at_most() -> None:
    """A few bytes ask for them; also when they are many topics', and when assignments or defaults make the number."""
    async with socketless_node(num_partitions=5_001) as node:
        node.broker.create_topic("t", partitions=2)

        def create(**topics: int) -> set[int]:
            wanted = [{"name": name, "num_partitions": n, "replication_factor": 1} for name, n in topics.items()]
            return set(codes(node.call(ApiKey.CREATE_TOPICS, 5, topics=wanted, timeout=1000).topics))

        def grow(count: int) -> int:
            wanted = [{"name": "t", "count": count, "assignments": None}]
            return codes(node.call(ApiKey.CREATE_PARTITIONS, 3, topics=wanted, timeout=1000).results)[0]

        assert create(a=10_001) == {44}
        assert create(a=5_000, b=5_000, c=1) == {44}
        assert create(a=-1, b=-1) == {44}
        assert create(a=2**31 - 1, b=-5) == {44}
        assert grow(10_003) == 44
        assert len(node.state.topics.get("t").partitions) == 2
        assert "a" not in node.state.topics
        assert create(a=4, b=-5) == {0, 37}
        assert grow(10) == 0


# Configs


@pytest.mark.parametrize("version", range(1, 5))
async def test_configs_of_topics_and_brokers_are_described(version: int) -> None:
    async with socketless_node(num_partitions=7) as node:
        node.broker.create_topic("t", retention_ms=99)
        resources = [
            {"resource_type": TOPIC, "resource_name": "t", "configuration_keys": None},
            {"resource_type": TOPIC, "resource_name": "t", "configuration_keys": ["cleanup.policy"]},
            {"resource_type": TOPIC, "resource_name": "u", "configuration_keys": None},
            {"resource_type": BROKER, "resource_name": "1", "configuration_keys": ["num.partitions"]},
            {"resource_type": 99, "resource_name": "x", "configuration_keys": None},
        ]
        results = node.call(ApiKey.DESCRIBE_CONFIGS, version, resources=resources).results
        assert codes(results) == [0, 0, 3, 0, 42]
        of_topic = {entry.name: (entry.value, entry.config_source) for entry in results[0].configs}
        assert of_topic["retention.ms"] == ("99", 1)
        assert of_topic["max.message.bytes"] == ("1048588", 5)
        assert [entry.value for entry in results[1].configs] == ["delete"]
        assert [(entry.value, entry.config_source, entry.read_only) for entry in results[3].configs] == [("7", 4, True)]


@pytest.mark.parametrize("version", range(2))
async def test_configs_are_altered_all_or_none(version: int) -> None:
    async with socketless_node() as node:
        node.broker.create_topic("t", retention_ms=99)

        def alter(*changes: tuple[str, int, str | None], kind: int = TOPIC, **fields: Any) -> int:
            configs = [
                {"name": name, "config_operation": operation, "value": value} for name, operation, value in changes
            ]
            resource = {"resource_type": kind, "resource_name": "t", "configs": configs}
            body = node.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], **fields)
            return codes(body.responses)[0]

        topic = node.state.topics.get("t")
        assert topic is not None
        assert alter(("retention.ms", SET, "7"), ("cleanup.policy", APPEND, "compact"), validate_only=True) == 0
        assert topic.config.overrides == {"retention.ms": "99"}
        assert alter(("retention.ms", DELETE, None), ("cleanup.policy", APPEND, "compact")) == 0
        assert topic.config.overrides == {"cleanup.policy": "delete,compact"}
        assert alter(("cleanup.policy", SUBTRACT, "delete")) == 0
        assert topic.config.overrides == {"cleanup.policy": "compact"}
        assert alter(("max.message.bytes", SET, "5"), ("no.such", SET, "1")) == 40
        assert alter(("max.message.bytes", APPEND, "5")) == 40
        assert alter(("max.message.bytes", SET, None)) == 40
        assert alter(("max.message.bytes", SET, "5"), ("max.message.bytes", SET, "6")) == 42
        assert alter(("num.partitions", SET, "5"), kind=BROKER) == 40
        assert topic.config.overrides == {"cleanup.policy": "compact"}


# DescribeCluster, DescribeTopicPartitions


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described(version: int) -> None:
    async with socketless_node(nodes=3) as node:
        del node.state.running_nodes[1]
        body = node.call(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=1)
        assert (body.cluster_id, body.controller_id) == (node.broker.cluster_id, 2)
        assert [broker.broker_id for broker in body.brokers] == [2, 3]
        if version >= 1:
            assert node.call(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=2).error_code == 114
        if version >= 2:
            body = node.call(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=1, include_fenced_brokers=True)
            assert [(broker.broker_id, broker.is_fenced) for broker in body.brokers] == [
                (1, True),
                (2, False),
                (3, False),
            ]


async def test_topics_are_described_in_pages() -> None:
    async with socketless_node() as node:
        for name, partitions in (("a", 3), ("b", 5), ("c", 1)):
            node.broker.create_topic(name, partitions=partitions)
        pages: list[list[tuple[str, list[int]]]] = []
        cursor: Any = None
        while True:
            body = node.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=4, cursor=cursor)
            pages.append([(topic.name, [p.partition_index for p in topic.partitions]) for topic in body.topics])
            if body.next_cursor is None:
                break
            cursor = {"topic_name": body.next_cursor.topic_name, "partition_index": body.next_cursor.partition_index}
        assert pages == [
            [("a", [0, 1, 2]), ("b", [0])],
            [("b", [1, 2, 3, 4])],
            [("c", [0])],
        ]


async def test_a_topic_that_is_not_there_is_described_as_such() -> None:
    async with socketless_node() as node:
        node.broker.create_topic("t")
        wanted = [{"name": "t"}, {"name": "u"}]
        body = node.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=wanted, response_partition_limit=2000, cursor=None)
        assert codes(body.topics) == [0, 3]
        assert len(node.state.topics) == 1
