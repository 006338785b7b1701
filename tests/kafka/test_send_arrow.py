"""Tables on a real Apache Kafka: a stock consumer reads the rows of ``send_arrow``."""

from __future__ import annotations

import asyncio
import random
import uuid
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from aiokafkapy import KafkaProducer
from aiokafkapy.producer.options.keywords import CompressionName
from aiokafkapy.testing import ApacheKafka
from tests.oracle import read_back

pytestmark = pytest.mark.kafka

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
COUNT = 20_000
BASE = 1_700_000_000_000


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


Headers = list[tuple[str, bytes | None]]


def made_up(count: int) -> list[tuple[bytes | None, bytes | None, Headers | None, int]]:
    chance = random.Random(9)

    def headers(n: int) -> Headers | None:
        choices: list[Headers | None] = [None, [], [("n", b"%d" % n)], [("twice", b""), ("twice", None)]]
        return chance.choice(choices)

    return [
        (
            None if n % 50 == 7 else b"%d " % n + chance.randbytes(chance.randrange(200)),
            None if n % 4 == 0 else b"key-%d" % (n % 1000),
            headers(n),
            BASE + chance.randrange(10_000),
        )
        for n in range(count)
    ]


def table_of(rows: Any) -> Any:
    return pa.table(
        {
            "value": pa.array([row[0] for row in rows], pa.binary()),
            "key": pa.array([row[1] for row in rows], pa.large_binary()),
            "headers": pa.array([row[2] for row in rows], HEADERS),
            "timestamp": pa.array([row[3] * 1000 for row in rows], pa.timestamp("us", "UTC")),
        }
    )


@pytest.mark.parametrize("codec", ["none", "lz4"])
async def test_a_table_is_read_back_by_a_stock_consumer(kafka: ApacheKafka, codec: CompressionName) -> None:
    topic = unique("table")
    await kafka.create_topic(topic, partitions=5)
    rows = made_up(COUNT)
    async with KafkaProducer(kafka.bootstrap_servers, compression_type=codec) as producer:
        metadata = await producer.send_arrow(topic, table_of(rows))
    assert (metadata.rows, len(metadata.failed)) == (COUNT, 0)
    found = await read_back(kafka.bootstrap_servers, topic)
    records = {(partition, record.offset): record for partition, log in found.items() for record in log}
    assert len(records) == COUNT
    for row, (value, key, headers, timestamp_ms) in enumerate(rows):
        record = records[metadata.topic_partition(row).partition, metadata.offset(row)]
        assert (record.value, record.key, record.timestamp_ms) == (value, key, timestamp_ms)
        assert list(record.headers) == (headers or [])
    for (_, partition), told in metadata.partitions.items():
        assert (told.count, told.first_offset, told.last_offset) == (
            len(found[partition]),
            0,
            len(found[partition]) - 1,
        )
    order: dict[int, int] = {}
    for row in range(COUNT):
        partition = metadata.topic_partition(row).partition
        assert metadata.offset(row) == order.get(partition, -1) + 1
        order[partition] = metadata.offset(row)


async def test_keys_are_in_the_partitions_where_other_clients_put_them(kafka: ApacheKafka) -> None:
    ours, theirs = unique("ours"), unique("theirs")
    for topic in (ours, theirs):
        await kafka.create_topic(topic, partitions=7)
    keys = [f"key-{n}" * (n % 5 + 1) for n in range(500)]
    async with KafkaProducer(kafka.bootstrap_servers) as producer:
        await producer.send_arrow(ours, pa.table({"value": keys, "key": keys}))
    other = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2"})
    for key in keys:
        other.produce(theirs, key, key)
    assert other.flush(30) == 0
    partition_of = []
    for topic in (ours, theirs):
        logs = await read_back(kafka.bootstrap_servers, topic)
        partition_of.append({record.key: partition for partition, log in logs.items() for record in log})
    assert partition_of[0] == partition_of[1]
    assert len(partition_of[0]) == 500


async def test_a_large_table_survives_a_broker_that_stands_still(kafka: ApacheKafka) -> None:
    topic = unique("stalled")
    await kafka.create_topic(topic, partitions=3)
    values = [b"%07d" % n + b"x" * 93 for n in range(200_000)]
    options: dict[str, Any] = {"request_timeout_ms": 700, "delivery_timeout_ms": 60_000, "buffer_memory": 4 << 20}
    async with KafkaProducer(kafka.bootstrap_servers, **options) as producer:
        await producer.partitions_for(topic)
        kafka.pause(1)
        try:
            sending = asyncio.create_task(producer.send_arrow(topic, pa.table({"value": values, "key": values})))
            await asyncio.wait([sending], timeout=1.5)  # longer than a request may take: sent rows are sent again
            assert not sending.done()
        finally:
            kafka.resume(1)
        metadata = await sending
        assert producer.statistics().delivered == 200_000
    logs = await read_back(kafka.bootstrap_servers, topic)
    assert sorted(record.value or b"" for log in logs.values() for record in log) == values
    for log in logs.values():
        assert [record.value for record in log] == sorted(record.value or b"" for record in log)
    assert sum(told.count for told in metadata.partitions.values()) == 200_000
