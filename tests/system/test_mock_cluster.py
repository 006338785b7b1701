"""The producer and the reader against librdkafka's built-in mock cluster, which many test their services with.

It is not a complete broker: ApiVersions in versions 0 to 2, with a refusal of its own form for later ones; a byte too
many after a Metadata answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import confluent_kafka
import pytest

from aiokafkapy import KafkaProducer, TopicPartition
from aiokafkapy.reader import PartitionReader


@pytest.fixture
def bootstrap_servers() -> Iterator[str]:
    """The servers of three mock brokers, which live as long as the client that made them."""
    owner = confluent_kafka.Producer({"test.mock.num.brokers": 3, "log_level": 0})
    yield ",".join(f"{node.host}:{node.port}" for node in owner.list_topics(timeout=10).brokers.values())
    owner.flush(1)


async def test_records_produced_to_it_are_read_back(bootstrap_servers: str) -> None:
    async with KafkaProducer(bootstrap_servers) as producer:
        sent = [await producer.enqueue("t", b"%d" % number, key=b"k%d" % (number % 7)) for number in range(200)]
        metadata = await asyncio.gather(*sent)
    async with PartitionReader(bootstrap_servers) as reader:
        partitions = [TopicPartition("t", info.partition) for info in await reader.partitions_for("t", timeout=10)]
        reader.assign(partitions)
        for partition, end in (await reader.end_offsets(partitions, timeout=10)).items():
            reader.stop_at(partition, end)
        read = {(record.partition, record.offset): record.value async for record in reader}
    assert read == {(one.partition, one.offset): b"%d" % number for number, one in enumerate(metadata)}
