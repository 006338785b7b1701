"""A topic of a Metadata response as columns: equal to kio's, from untrusted bytes, and in slices."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.protocol.api import ApiKey, schema_versions
from aiokafkapy.protocol.codec import encode_response
from aiokafkapy.protocol.cursor import Cursor
from aiokafkapy.protocol.messages import build_response
from aiokafkapy.protocol.metadata import FIRST_FLEXIBLE, read_metadata_response
from aiokafkapy.protocol.metadata_topic import (
    PARTITIONS_PER_SLICE,
    Lists,
    PartitionColumns,
    TopicColumns,
    read_topic_columns,
)

VERSIONS = range(FIRST_FLEXIBLE, schema_versions(ApiKey.METADATA)[1] + 1)
NEWEST = VERSIONS[-1]


def partition(number: int, replicas: list[int], **more: Any) -> dict[str, Any]:
    fields = {"leader_id": number % 3, "leader_epoch": number + 4, "replica_nodes": replicas, "isr_nodes": replicas[:1]}
    return {"partition_index": number, "error_code": 0, "offline_replicas": []} | fields | more


def frame(version: int, *topics: dict[str, Any]) -> bytes:
    brokers = [{"node_id": 1, "host": "h", "port": 9}]
    body = build_response(ApiKey.METADATA, version, brokers=brokers, cluster_id="c", controller_id=1, topics=topics)
    return encode_response(body, 1)[4:]


def topic(name: str, *partitions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "topic_id": UUID(int=len(name)), "partitions": partitions} | more


def read(version: int, data: bytes, lists: Lists | None = None, on_slice: Any = lambda: None) -> list[TopicColumns]:
    known: Lists = {} if lists is None else lists
    return list(
        read_metadata_response(
            version, data, lambda _, cursor: read_topic_columns(version, cursor, known, on_slice)
        ).topics
    )


def columns_of(message: Any) -> PartitionColumns:
    """kio's partitions in columns."""
    rows = message.partitions
    offline = tuple(tuple(row.offline_replicas) for row in rows)
    return PartitionColumns(
        tuple(row.partition_index for row in rows),
        tuple(row.leader_id for row in rows),
        tuple(row.leader_epoch for row in rows),
        tuple(tuple(row.replica_nodes) for row in rows),
        tuple(tuple(row.isr_nodes) for row in rows),
        offline if any(offline) else (),
        frozenset(int(row.error_code) for row in rows if row.error_code),
    )


MANY = list(range(200))
TOPICS = (
    topic("a", partition(0, [1, 2, 3]), partition(1, [2, 3, 1]), is_internal=True),
    topic("in no order", partition(2, []), partition(0, [1]), partition(5, [1], leader_id=-1, leader_epoch=-1)),
    topic("with errors", partition(0, [1], error_code=5), partition(1, [1], error_code=-1), error_code=3),
    topic("offline", partition(0, [1, 2]), partition(1, [1, 2], offline_replicas=[2])),
    topic("of many replicas", partition(70_000, MANY, isr_nodes=MANY, offline_replicas=MANY[:130])),
    topic("empty"),
)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_columns_equal_those_of_kio(version: int) -> None:
    data = frame(version, *TOPICS)
    wanted = read_metadata_response(version, data, lambda read_message, cursor: read_message(cursor)).topics
    found = read(version, data)
    assert [one.name for one in found] == [one["name"] for one in TOPICS]
    for one, message in zip(found, wanted, strict=True):
        assert (one.error_code, one.is_internal) == (message.error_code, message.is_internal)
        assert one.topic_id == (message.topic_id.bytes if version >= 10 else None)
        assert one.partitions == columns_of(message)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_cut_anywhere_is_malformed(version: int) -> None:
    data = frame(version, *TOPICS[:4])
    for size in range(len(data)):
        with pytest.raises(MalformedFrameError):
            read(version, data[:size])


def test_lists_that_are_alike_are_one() -> None:
    lists: Lists = {}
    (one, other) = read(
        NEWEST, frame(NEWEST, topic("a", partition(0, [1, 2])), topic("b", partition(0, [1, 2]))), lists
    )
    assert one.partitions.replicas[0] is other.partitions.replicas[0]
    assert sorted(lists.values()) == [(), (1,), (1, 2)]


def test_a_column_of_replicas_in_sync_is_that_of_the_replicas_where_all_are() -> None:
    (one,) = read(NEWEST, frame(NEWEST, topic("a", partition(0, [1, 2], isr_nodes=[1, 2]))))
    assert one.partitions.in_sync is one.partitions.replicas


def test_others_may_run_between_slices_of_a_long_topic() -> None:
    turns: list[None] = []
    count = 5 * PARTITIONS_PER_SLICE // 2
    partitions = [partition(number, [1]) for number in range(count)]
    (found,) = read(NEWEST, frame(NEWEST, topic("long", *partitions)), on_slice=lambda: turns.append(None))
    assert len(found.partitions.numbers) == count
    assert len(turns) == 2


def hand_made(partitions: bytes) -> Cursor:
    """A topic of version 13 called a, whose partitions, with their number, are these bytes."""
    return Cursor(b"\0\0" + b"\2a" + bytes(16) + b"\0" + partitions + bytes(4) + b"\0")


FIXED = bytes(14)


def test_unknown_tagged_fields_are_skipped() -> None:
    tags = b"\2" + b"\0\1x" + b"\5\2yy"
    cursor = hand_made(b"\3" + FIXED + b"\1\1\1" + tags + FIXED + b"\2\0\0\0\7\1\1" + b"\0")
    found = read_topic_columns(NEWEST, cursor, {}, lambda: None)
    assert found.partitions.replicas == ((), (7,))
    assert found.topic_id is None
    assert cursor.position == cursor.end


@pytest.mark.parametrize(
    "partitions",
    [
        b"\0",  # null
        b"\xff\xff\xff\xff\7",  # more than there are bytes
        b"\2" + FIXED + b"\0\1\1\0",  # a null list
        b"\2" + FIXED + b"\x7f\1\1\0",  # a list longer than the rest
        b"\2" + FIXED + b"\xff\xff\xff\xff\7\1\1\0",
        b"\2" + FIXED + b"\1\1\1\1\0\x7f",  # a tagged field longer than the rest
        b"\2" + FIXED[:9],
    ],
)
def test_lengths_are_not_believed(partitions: bytes) -> None:
    with pytest.raises(MalformedFrameError):
        read_topic_columns(NEWEST, hand_made(partitions), {}, lambda: None)
