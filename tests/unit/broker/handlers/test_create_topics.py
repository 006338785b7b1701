"""CreateTopics, DeleteTopics, CreatePartitions: each topic of a request by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from aiokafkapy.protocol.api import ApiKey

from ..socketless import SocketlessNode, codes, socketless_node
from ..support import topic_of
from .harness import OpenHarness


def create(node: SocketlessNode, *topics: dict[str, Any], version: int = 7, **fields: Any) -> list[Any]:
    wanted = [{"num_partitions": 1, "replication_factor": 1} | topic for topic in topics]
    return list(node.call(ApiKey.CREATE_TOPICS, version, topics=wanted, timeout=1000, **fields).topics)


async def test_a_topic_that_the_disk_has_no_room_for_is_a_storage_error(
    open_harness: OpenHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = open_harness(data_dir=tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    wanted = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    (topic,) = harness.call(ApiKey.CREATE_TOPICS, 7, topics=[wanted], timeout=1000).topics
    assert topic.error_code == 56
    assert "No space left" in topic.error_message
    monkeypatch.undo()
    assert codes(harness.call(ApiKey.CREATE_TOPICS, 7, topics=[wanted], timeout=1000).topics) == [0]


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
            assert results[0].topic_id == topic_of(node.state.topics, "a").topic_id


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
        assert [p.replicas for p in topic_of(node.state.topics).partitions] == [(3, 1), (2, 3)]
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
        topic_id = topic_of(node.state.topics).topic_id
        wanted = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": uuid4()}]
        results = node.call(ApiKey.DELETE_TOPICS, 6, topics=wanted, timeout=1000).responses
        assert [(result.name, result.error_code) for result in results] == [("t", 0), (None, 100)]
    async with socketless_node(delete_topic_enable=False) as node:
        node.broker.create_topic("t")
        assert codes(node.call(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "t"}], timeout=1000).responses) == [73]
        assert len(node.state.topics) == 1


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_topic_named_twice_is_not_deleted(version: int) -> None:
    async with socketless_node() as node:
        for name in ("t", "u"):
            node.broker.create_topic(name)
        names = ["t", "u", "t", "t"]
        wanted = {"topics": [{"name": name} for name in names]} if version == 6 else {"topic_names": names}
        results = node.call(ApiKey.DELETE_TOPICS, version, timeout=1000, **wanted).responses
        assert [(result.name, result.error_code) for result in results] == [("t", 42), ("u", 0)]
        if version >= 5:
            assert results[0].error_message == "Duplicate topic name."
        assert [topic.name for topic in node.state.topics] == ["t"]


async def test_a_topic_given_twice_by_id_or_by_both_is_not_deleted() -> None:
    async with socketless_node() as node:
        for name in ("t", "u", "v"):
            node.broker.create_topic(name)
        t, u, v = (topic_of(node.state.topics, name).topic_id for name in ("t", "u", "v"))

        def delete(*topics: tuple[str | None, Any]) -> set[tuple[str | None, Any, int]]:
            wanted = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
            results = node.call(ApiKey.DELETE_TOPICS, 6, topics=wanted, timeout=1000).responses
            return {(result.name, result.topic_id, result.error_code) for result in results}

        assert delete((None, t), (None, t), ("u", u), (None, None)) == {(None, t, 42), ("u", u, 42), (None, None, 42)}
        assert delete((None, t), ("t", None)) == {("t", t, 42)}
        assert delete((None, t), ("t", None), (None, t)) == {("t", t, 42), (None, t, 42)}
        assert {topic.name for topic in node.state.topics} == {"t", "u", "v"}
        assert delete((None, t), ("u", None), ("w", None), (None, v)) == {
            ("t", t, 0), ("u", u, 0), ("w", None, 3), ("v", v, 0),
        }  # fmt: skip
        assert len(node.state.topics) == 0


@pytest.mark.parametrize("version", range(4))
async def test_a_topic_named_twice_gets_no_partitions(version: int) -> None:
    async with socketless_node() as node:
        for name in ("t", "u"):
            node.broker.create_topic(name)
        counts = (("t", 9_000), ("u", 2_000), ("t", 9_000))  # which are too many in all
        wanted = [{"name": name, "count": count, "assignments": None} for name, count in counts]
        results = node.call(ApiKey.CREATE_PARTITIONS, version, topics=wanted, timeout=1000).results
        assert [(result.name, result.error_code) for result in results] == [("t", 42), ("u", 0)]
        assert [len(topic_of(node.state.topics, name).partitions) for name in ("t", "u")] == [1, 2_000]


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added_and_never_taken_away(version: int) -> None:
    async with socketless_node() as node:
        node.broker.create_topic("t", partitions=2)

        def grow(count: int, **fields: Any) -> int:
            topics = [{"name": "t", "count": count, "assignments": None}]
            return codes(node.call(ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout=1000, **fields).results)[0]

        assert [grow(1), grow(2), grow(5, validate_only=True)] == [37, 37, 0]
        topic = topic_of(node.state.topics)
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
        topic = topic_of(node.state.topics)
        assert len(topic.partitions) == 2
        assert "a" not in node.state.topics
        assert create(a=4, b=-5) == {0, 37}
        assert grow(10) == 0


@pytest.mark.parametrize(("size", "code"), [(32_686, 17), (32_687, -1)])
@pytest.mark.parametrize("version", [4, 7])
async def test_an_error_with_a_message_too_long_for_a_response_becomes_an_unknown_error(
    version: int, size: int, code: int
) -> None:
    async with socketless_node() as node:
        assert codes(create(node, {"name": "x" * size}, version=version)) == [code]
