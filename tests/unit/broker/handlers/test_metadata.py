"""Metadata: the nodes that run, the topics asked for, and those it makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from aiokafkapy.broker.handlers import metadata
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.writer import encode_element

from ..socketless import codes, socketless_node
from ..support import topic_of
from .harness import OpenHarness


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


async def test_a_topic_that_the_disk_has_no_room_for_leaves_the_others_their_answer(
    open_harness: OpenHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = open_harness(data_dir=tmp_path)
    harness.topics.create("t", 1)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    body = harness.call(ApiKey.METADATA, 13, topics=[{"name": "t"}, {"name": "new"}])
    assert (body.error_code, codes(body.topics)) == (0, [0, 56])


async def test_metadata_refuses_invalid_names() -> None:
    async with socketless_node() as node:
        body = node.call(ApiKey.METADATA, 13, topics=[{"name": ""}, {"name": "a b"}, {"name": "fine"}])
        assert codes(body.topics) == [17, 17, 0]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "caf\u00e9", "x" * 250])
async def test_metadata_refuses_invalid_names_also_where_no_topic_is_made(name: str) -> None:
    async with socketless_node(auto_create_topics_enable=False) as node:
        for version, fields in ((3, {}), (13, {"allow_auto_topic_creation": False})):
            assert codes(node.call(ApiKey.METADATA, version, topics=[{"name": name}], **fields).topics) == [17]


async def test_metadata_finds_topics_by_id_from_version_12() -> None:
    async with socketless_node() as node:
        node.broker.create_topic("t")
        topic_id = topic_of(node.state.topics).topic_id
        body = node.call(ApiKey.METADATA, 12, topics=[{"name": None, "topic_id": topic_id}])
        assert (body.topics[0].name, body.topics[0].error_code) == ("t", 0)
        unknown = uuid4()
        body = node.call(ApiKey.METADATA, 13, topics=[{"name": None, "topic_id": unknown}])
        assert (body.topics[0].topic_id, body.topics[0].error_code, body.error_code) == (unknown, 100, 0)


async def test_metadata_shows_running_nodes_only_and_offline_replicas() -> None:
    async with socketless_node(nodes=3) as node:
        node.broker.create_topic("t")
        del node.state.running_nodes[1]
        node.state.topics.node_stopped(1)
        body = node.call(ApiKey.METADATA, 13, topics=None)
        partition = body.topics[0].partitions[0]
        assert [broker.node_id for broker in body.brokers] == [2, 3]
        assert (body.controller_id, partition.leader_id, partition.leader_epoch) == (2, 2, 1)
        assert (partition.isr_nodes, partition.offline_replicas) == ((2, 3), (1,))


async def test_nodes_have_their_racks() -> None:
    async with socketless_node(nodes=3, broker_rack="a, b") as node:
        told = [node.call(ApiKey.METADATA, 12, topics=[]).brokers, node.call(ApiKey.DESCRIBE_CLUSTER, 1).brokers]
        assert [[each.rack for each in brokers] for brokers in told] == [["a", "b", "a"]] * 2


async def test_metadata_encodes_a_topic_once_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that asks for ten thousand topics is answered within its time-out."""
    encoded: list[str] = []

    def encode(api_key: int, version: int, array: str, fields: dict[str, Any]) -> bytes:
        encoded.append(fields["name"])
        return encode_element(api_key, version, array, fields)

    monkeypatch.setattr(metadata, "encode_element", encode)
    async with socketless_node(nodes=3) as node:
        for name in ("a", "b", "c"):
            node.broker.create_topic(name, 2)
        topics = node.state.topics
        changes: list[tuple[Callable[[], object], list[str]]] = [
            (lambda: None, ["a", "b", "c"]),
            (lambda: None, []),
            (lambda: topics.set_leader("b", 1, None), ["b"]),
            (lambda: topics.elect(topic_of(topics, "b").partitions[1], 3), ["b"]),
            (lambda: topics.reassign("c", 0, [2, 3]), ["c"]),
            (lambda: topics.add_partitions("a", 3), ["a"]),
            (lambda: topics.delete("a") or topics.create("a"), ["a"]),  # type: ignore[func-returns-value]
            (lambda: node.state.running_nodes.pop(2), ["a", "b", "c"]),
            (lambda: None, []),
        ]
        for change, expected in changes:
            change()
            shown = node.call(ApiKey.METADATA, 9, topics=None).topics
            assert sorted(encoded) == expected
            # An answer with operations is made anew.
            fresh = node.call(ApiKey.METADATA, 9, topics=None, include_topic_authorized_operations=True).topics
            assert [each.partitions for each in shown] == [each.partitions for each in fresh]
            encoded.clear()


async def test_metadata_of_one_version_says_nothing_in_the_form_of_another() -> None:
    async with socketless_node(nodes=3) as node:
        node.broker.create_topic("t", 2)
        for version in (*range(1, 14), *range(1, 14)):
            (topic,) = node.call(ApiKey.METADATA, version, topics=None).topics
            assert (topic.name, [each.leader_id for each in topic.partitions]) == ("t", [1, 2])


async def test_topics_have_three_replicas_by_default_however_many_nodes_there_are() -> None:
    async with socketless_node(nodes=5) as node:
        node.broker.create_topic("t")
        assert node.call(ApiKey.METADATA, 13, topics=[{"name": "t"}]).topics[0].partitions[0].replica_nodes == (1, 2, 3)
