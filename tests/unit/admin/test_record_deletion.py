"""Deletions of records: the leaders that are asked, and partitions that fail."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.common import Node, TopicPartition
from aiokafkapy.errors import (
    DisconnectedError,
    KafkaError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_response

from .fakes import Answer, admin_with, led


def begun(*partitions: tuple[int, int, int]) -> Answer:
    entries = [{"partition_index": index, "low_watermark": low, "error_code": code} for index, low, code in partitions]
    return lambda version: build_response(ApiKey.DELETE_RECORDS, version, topics=[{"name": "t", "partitions": entries}])


async def test_records_are_deleted_by_the_leaders_one_request_each() -> None:
    admin, client = admin_with(led(1, 2, 1), begun((0, 5, 0), (2, 7, 0)), begun((1, 6, 0)))
    offsets = {TopicPartition("t", 0): 5, TopicPartition("t", 1): -1, TopicPartition("t", 2): 7}
    found = await admin.delete_records(offsets)
    assert found == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6, TopicPartition("t", 2): 7}
    asked = [
        (node.node_id, [(one.partition_index, one.offset) for topic in body.topics for one in topic.partitions])
        for _, body, node in client.requests[1:]
        if node is not None
    ]
    assert asked == [(1, [(0, 5), (2, 7)]), (2, [(1, -1)])]


@pytest.mark.parametrize("wrong", [2**63, -(2**63), 1.0, True, "1", None])
async def test_an_invalid_offset_is_refused_before_anything_is_deleted(wrong: Any) -> None:
    admin, client = admin_with()
    with pytest.raises((TypeError, ValueError), match="the offset of t-1 is"):
        await admin.delete_records({TopicPartition("t", 0): 1, TopicPartition("t", 1): wrong})
    assert client.requests == []


async def test_only_partitions_that_failed_for_a_moment_are_asked_again() -> None:
    moved = NotLeaderOrFollowerError.code or 0
    admin, client = admin_with(led(1, 1), begun((0, 5, 0), (1, -1, moved)), led(1, 2), begun((1, 6, 0)))
    found = await admin.delete_records({TopicPartition("t", 0): 5, TopicPartition("t", 1): 6})
    assert found == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}
    body, node = client.requests[-1][1:]
    assert [one.partition_index for topic in body.topics for one in topic.partitions] == [1]
    assert node == Node(2, "h", 2, "r2")


async def test_a_partition_that_fails_for_good_is_raised_when_the_others_are_done() -> None:
    refused = OffsetOutOfRangeError.code or 0
    admin, client = admin_with(
        led(1, -1), begun((0, -1, refused)), led(1, 1), begun((1, 6, 0)), DisconnectedError("asked too often")
    )
    with pytest.raises(OffsetOutOfRangeError, match="t-0") as caught:
        await admin.delete_records({TopicPartition("t", 0): 99, TopicPartition("t", 1): 6})
    assert (caught.value.topic, caught.value.partition) == ("t", 0)
    assert len(client.requests) == 4


async def test_a_topic_or_partition_that_is_not_there_is_raised_at_once() -> None:
    admin, client = admin_with(led(1))
    with pytest.raises(UnknownTopicOrPartitionError, match="t-7") as caught:
        await admin.delete_records({TopicPartition("t", 7): -1})
    assert caught.value.partition == 7
    admin, client = admin_with(led(code=3))
    with pytest.raises(UnknownTopicOrPartitionError) as caught:
        await admin.delete_records({TopicPartition("t", 0): -1})
    assert caught.value.partition is None
    assert len(client.requests) == 1
    assert await admin.delete_records({}) == {}


async def test_a_partition_that_an_answer_leaves_out_is_an_error() -> None:
    admin, _ = admin_with(led(1), begun())
    with pytest.raises(KafkaError, match="t-0: the answer left it out"):
        await admin.delete_records({TopicPartition("t", 0): -1})
