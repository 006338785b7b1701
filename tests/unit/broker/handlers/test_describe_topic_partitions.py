"""DescribeTopicPartitions: topics in pages."""

from __future__ import annotations

from typing import Any

from aiokafkapy.protocol.api import ApiKey

from ..socketless import codes, socketless_node


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
