"""Transactions of stock clients on the dev broker, unchanged; and their state after its restart."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.broker.coordination.transaction_expiry import TransactionExpiry
from aiokafkapy.broker.features import UpgradeType
from aiokafkapy.common import TopicPartition
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.reader import PartitionReader
from tests.reading import committed_values


async def committed(broker: DevBroker) -> list[bytes | None]:
    """The values of topic t for a reader of committed records."""
    return await committed_values(broker.bootstrap_servers, "t", up_to="the open transaction")


def with_librdkafka(servers: str, group: str) -> list[bytes | None]:
    """Commit, abort, commit offsets; then consume the committed records."""
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


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 0)])
async def test_a_producer_uses_the_transaction_version_that_its_cluster_has_now(before: Any, after: Any) -> None:
    way = UpgradeType.UPGRADE if after > before else UpgradeType.SAFE_DOWNGRADE
    async with DevBroker(transaction_version=before) as broker:
        broker.create_topic("t", 1)
        async with KafkaProducer(broker.bootstrap_servers, transactional_id="x") as producer:
            for value in (b"1", b"2", b"3", b"4"):
                async with producer.transaction():
                    await producer.send("t", value)
                if value == b"1":
                    broker.state.features.update({"transaction.version": (after, way)})
                    broker.controls.drop_connections()  # a client hears of it when it connects
                if value == b"2":
                    broker.controls.clear()
        added = broker.controls.request_count(ApiKey.ADD_PARTITIONS_TO_TXN)
        assert await committed(broker) == [b"1", b"2", b"3", b"4"]
    assert added == (0 if after >= 2 else 2)


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


class TestControls:
    """The effects of ``controls`` on transactions of our producer."""

    @pytest.fixture(params=[1, 2])
    async def broker(self, request: pytest.FixtureRequest) -> AsyncIterator[DevBroker]:
        async with DevBroker(nodes=3, transaction_version=request.param) as broker:
            broker.create_topic("t", 1)
            yield broker

    @pytest.fixture
    async def producer(self, broker: DevBroker) -> AsyncIterator[KafkaProducer]:
        async with KafkaProducer(broker.bootstrap_servers, transactional_id="tx", retry_backoff_ms=10) as producer:
            yield producer

    async def test_a_coordinator_that_moves_before_each_request_is_followed(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        nodes = itertools.cycle([1, 2, 3])
        for turn in range(6):
            broker.controls.move_coordinator("tx", next(nodes))
            async with producer.transaction():
                await producer.send("t", b"%d" % turn)
                broker.controls.move_coordinator("tx", next(nodes))
                await producer.send_offsets_to_transaction({("t", 0): turn}, "g")
                broker.controls.move_coordinator("g", next(nodes))
                broker.controls.move_coordinator("tx", next(nodes))
        assert await committed(broker) == [b"%d" % turn for turn in range(6)]

    async def test_without_a_coordinator_a_commit_waits_for_one(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        await producer.begin_transaction()
        await producer.send("t", b"1")
        broker.controls.move_coordinator("tx", None)
        commit = asyncio.create_task(producer.commit_transaction())
        await asyncio.wait([commit], timeout=0.3)
        assert not commit.done()
        broker.controls.move_coordinator("tx", 2)
        await commit
        assert await committed(broker) == [b"1"]

    async def test_the_coordinator_s_node_stops_in_mid_transaction(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        broker.controls.move_coordinator("tx", 3)
        async with producer.transaction():
            await producer.send("t", b"1")
            broker.controls.stop_node(3)
        assert await committed(broker) == [b"1"]

    async def test_a_held_transaction_is_decided_and_not_yet_visible(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        broker.controls.hold_transactions()
        async with producer.transaction():
            await producer.send("t", b"1")
        async with PartitionReader(broker.bootstrap_servers, isolation_level="read_committed") as reader:
            assert (await reader.end_offsets([TopicPartition("t", 0)]))[TopicPartition("t", 0)] == 0
        await producer.begin_transaction()
        following = asyncio.create_task(producer.send("t", b"2"))
        await asyncio.wait([following], timeout=0.3)
        assert not following.done(), "CONCURRENT_TRANSACTIONS"
        broker.controls.clear()
        await following
        await producer.commit_transaction()
        assert await committed(broker) == [b"1", b"2"]

    async def test_one_that_is_expired_is_aborted_and_its_records_are_never_seen(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        await producer.begin_transaction()
        await producer.send("t", b"never")
        assert broker.controls.expire_transactions("another") == 0
        assert broker.controls.expire_transactions() == 1
        assert await committed(broker) == []
        with pytest.raises((errors.ProducerFencedError, errors.InvalidTxnStateError)):
            await producer.commit_transaction()
        assert await committed(broker) == []

    async def test_a_node_that_does_not_run_coordinates_nothing(self, broker: DevBroker) -> None:
        with pytest.raises(ValueError, match="node 7 cannot coordinate: the running nodes are"):
            broker.controls.move_coordinator("tx", 7)
