"""A producer by settings of pydantic, on a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy import KafkaProducer, TopicPartition
from aiokafkapy.broker import DevBroker
from aiokafkapy.reader import PartitionReader

pytest.importorskip(
    "pydantic_settings", reason="pydantic-settings is not installed: pip install 'aiokafkapy[settings]'"
)

from aiokafkapy.integrations.settings import ProducerSettings, ReaderSettings


async def test_a_record_goes_by_a_file_of_variables(kafka_broker: DevBroker, tmp_path: Path) -> None:
    kafka_broker.create_topic("t", partitions=1)
    file = tmp_path / ".env"
    file.write_text(f"AIOKAFKAPY_BOOTSTRAP_SERVERS={kafka_broker.bootstrap_servers}\nAIOKAFKAPY_COMPRESSION_TYPE=lz4\n")
    async with KafkaProducer(config=ProducerSettings(_env_file=file)) as producer:
        await producer.send("t", b"value" * 100)
    settings = ReaderSettings(bootstrap_servers=kafka_broker.bootstrap_servers)
    async with PartitionReader(config=settings) as reader:
        reader.assign([TopicPartition("t", 0)])
        assert [record.value for record in await reader.fetch()] == [b"value" * 100]
