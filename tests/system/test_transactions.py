"""Transactions of stock clients on the dev broker, unchanged; and what a restart of it leaves of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.broker.coordination.transaction_expiry import TransactionExpiry
from aiokafkapy.common import TopicPartition
from aiokafkapy.reader import PartitionReader


async def committed(broker: DevBroker) -> list[bytes | None]:
    """The values of topic t as a reader of what is committed sees them."""
    partition = TopicPartition("t", 0)
    async with PartitionReader(broker.bootstrap_servers, isolation_level="read_committed") as reader:
        (end,) = (await reader.end_offsets([partition])).values()
        reader.assign([partition])
        reader.stop_at(partition, end)
        async with asyncio.timeout(30):
            return [record.value async for record in reader]


def with_librdkafka(servers: str, group: str) -> list[bytes | None]:
    """Commit, abort, commit offsets; then consume what is committed."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": "librdkafka"})
    producer.init_transactions(30)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["t"])
    for value, is_commit in ((b"1", True), (b"never", False), (b"2", True)):
        producer.begin_transaction()
        producer.produce("t", value)
        offsets = [confluent_kafka.TopicPartition("t", 0, int(value) if value.isdigit() else 99)]
        assert consumer.poll(30) is not None
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        (producer.commit_transaction if is_commit else producer.abort_transaction)(30)
    (found,) = consumer.committed([confluent_kafka.TopicPartition("t", 0)], 30)
    assert found.offset == 2
    consumer.close()
    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": f"{group}-2", "auto.offset.reset": "earliest"}
    )
    reader.subscribe(["t"])
    values: list[bytes | None] = []
    while len(values) < 5:
        message = reader.poll(30)
        assert message is not None, values
        assert message.error() is None
        values.append(message.value())
    reader.close()
    return values


@pytest.mark.parametrize("version", [2, 1])
async def test_librdkafka_commits_aborts_and_reads(version: Any) -> None:
    async with DevBroker(nodes=3, transaction_version=version) as broker:
        broker.create_topic("t", 1)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send_many("t", [b"a", b"b", b"c"])
        values = await asyncio.to_thread(with_librdkafka, broker.bootstrap_servers, "g")
    assert values == [b"a", b"b", b"c", b"1", b"2"]


@pytest.mark.parametrize("version", [2, 1])
async def test_aiokafka_commits_aborts_and_reads(version: Any) -> None:
    async with DevBroker(nodes=3, transaction_version=version) as broker:
        broker.create_topic("t", 1)
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="aiokafka")
        async with producer:
            async with producer.transaction():
                await producer.send_and_wait("t", b"1")
                await producer.send_offsets_to_transaction({aiokafka.TopicPartition("t", 0): 7}, "g")
            with pytest.raises(LookupError):
                async with producer.transaction():
                    await producer.send_and_wait("t", b"never")
                    raise LookupError
            async with producer.transaction():
                await producer.send_and_wait("t", b"2")
        consumer = aiokafka.AIOKafkaConsumer(
            "t",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="h",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        async with consumer, asyncio.timeout(60):
            assert [(await consumer.getone()).value for _ in range(2)] == [b"1", b"2"]


@pytest.mark.parametrize("version", [2, 1])
async def test_an_open_transaction_is_open_after_a_restart_and_may_be_committed(tmp_path: Path, version: Any) -> None:
    broker = DevBroker(data_dir=tmp_path, transaction_version=version)
    await broker.start()
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    broker.create_topic("t", 1)
    async with KafkaProducer(broker.bootstrap_servers, transactional_id="tx") as producer:
        async with producer.transaction():
            await producer.send("t", b"1")
        await producer.begin_transaction()
        await producer.send("t", b"2")
        await broker.stop()
        broker = DevBroker(port=port, data_dir=tmp_path, transaction_version=version)
        await broker.start()
        assert await committed(broker) == [b"1"]
        await producer.send("t", b"3")
        await producer.commit_transaction()
    assert await committed(broker) == [b"1", b"2", b"3"]
    await broker.stop()


async def test_a_transaction_that_is_over_its_time_is_aborted() -> None:
    async with DevBroker() as broker:
        broker.create_topic("t", 1)
        producer = KafkaProducer(broker.bootstrap_servers, transactional_id="tx", transaction_timeout_ms=200)
        async with producer:
            await producer.begin_transaction()
            await producer.send("t", b"never")
            async with (
                asyncio.timeout(30),
                PartitionReader(broker.bootstrap_servers, isolation_level="read_committed") as reader,
            ):
                while not (await reader.end_offsets([TopicPartition("t", 0)]))[TopicPartition("t", 0)]:
                    await reader.fetch(0.05)
            with pytest.raises(errors.KafkaError):
                await producer.send("t", b"never, too")
        async with (
            KafkaProducer(broker.bootstrap_servers, transactional_id="tx") as later,
            later.transaction(),
        ):
            await later.send("t", b"again")
        assert await committed(broker) == [b"again"]


async def test_a_start_that_fails_leaves_no_timer_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[TransactionExpiry] = []
    monkeypatch.setattr(TransactionExpiry, "close", lambda expiry: closed.append(expiry))
    broker = DevBroker(
        data_dir=tmp_path,
        listeners={"SASL_PLAINTEXT": "127.0.0.1:0"},
        sasl_enabled_mechanisms=["OAUTHBEARER"],
        sasl_oauthbearer_jwks_endpoint_url=f"file://{tmp_path}/none",
    )
    with pytest.raises(errors.ConfigurationError):
        await broker.start()
    assert len(closed) == 1
