"""``send_arrow`` against the dev broker over real sockets: what arrives, in which order, and what is told of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

from aiokafkapy import KafkaProducer, PartitionMetadata, TopicPartition
from aiokafkapy.broker import DevBroker


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker() as broker:
        broker.create_topic("t", partitions=3)
        yield broker


async def test_every_column_of_a_table_arrives_as_it_is(broker: DevBroker) -> None:
    headers = [[("a", b"1"), ("a", None)], None, []]
    entry = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "value": pa.array([b"v", None, b""], pa.binary()),
            "key": pa.array(["k", None, "ü"]),
            "headers": pa.array(headers, entry),
            "partition": pa.array([2, 2, 2], pa.int32()),
            "timestamp": pa.array([1_700_000_000_000, 1, -1], pa.timestamp("ms", "UTC")),
        }
    )
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        metadata = await producer.send_arrow("t", table)
    assert metadata.rows == 3
    assert metadata.partitions == {TopicPartition("t", 2): PartitionMetadata(3, 0, 2)}
    assert [metadata.offset(row) for row in range(3)] == [0, 1, 2]
    assert not metadata.failed
    found = broker.records("t", 2)
    assert [record.value for record in found] == [b"v", None, b""]
    assert [record.key for record in found] == [b"k", None, "ü".encode()]
    assert [list(record.headers) for record in found] == [headers[0], [], []]
    assert [record.timestamp_ms for record in found] == [1_700_000_000_000, 1, -1]
