"""A transaction after an error or a cancellation: nothing is committed that lacks a record, nothing comes
into the next transaction, and the producer is as good as new.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pyarrow
import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.common import TopicPartition
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import FaultProxy
from tests.inside import transaction_version_of

from .transactional import committed, transactional

VALUES = [b"%d" % number for number in range(100)]


@pytest.fixture(params=[1, 2])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[DevBroker]:
    """Both versions of transactions."""
    async with DevBroker(transaction_version=request.param) as broker:
        broker.create_topic("t", 1)
        yield broker


@pytest.fixture
async def producer(broker: DevBroker) -> AsyncIterator[KafkaProducer]:
    async with transactional(broker) as producer:
        yield producer


async def has_a_new_transaction(broker: DevBroker, producer: KafkaProducer) -> None:
    """A new one commits its records, and nothing else is committed."""
    async with producer.transaction():
        await producer.send("t", b"new")
    assert await committed(broker) == [b"new"]


class TestWhatIsNotAccepted:
    """A record that is refused before it is in a batch is missing in its transaction, even if the error was caught."""

    async def test_a_record_that_is_too_large(self, broker: DevBroker) -> None:
        async with transactional(broker, max_request_size=1_000) as producer:
            await producer.begin_transaction()
            await producer.send("t", b"never")
            with pytest.raises(errors.RecordTooLargeError):
                producer.send_nowait("t", bytes(2_000))
            with pytest.raises(errors.RecordTooLargeError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            await has_a_new_transaction(broker, producer)

    @pytest.mark.parametrize("way", ["send", "send_many", "send_arrow"])
    async def test_a_record_whose_topic_is_not_found(self, broker: DevBroker, way: str) -> None:
        # ``max_block_ms`` bounds the start, too: a broker of a busy machine answers later than a missing topic needs.
        async with transactional(broker, max_block_ms=1_000, allow_auto_create_topics=False) as producer:
            await producer.begin_transaction()
            await producer.send("t", b"never")
            with pytest.raises(errors.MetadataTimeoutError):
                if way == "send":
                    await producer.send("missing", b"1")
                elif way == "send_many":
                    await producer.send_many("missing", [b"1", b"2"])
                else:
                    await producer.send_arrow("missing", pyarrow.table({"value": [b"1", b"2"]}))
            with pytest.raises(errors.MetadataTimeoutError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            await has_a_new_transaction(broker, producer)

    async def test_an_error_that_may_be_retried_at_once_does_not_fail_the_transaction(self, broker: DevBroker) -> None:
        async with transactional(broker) as producer, producer.transaction():
            with pytest.raises(errors.MetadataNotReadyError):
                producer.send_nowait("t", b"too early")
            await producer.partitions_for("t")
            producer.send_nowait("t", b"1")
        assert await committed(broker) == [b"1"]

    async def test_a_value_that_a_serializer_refuses_harms_nothing(self, broker: DevBroker) -> None:
        def to_bytes(value: str) -> bytes:
            return value.encode()

        producer: KafkaProducer[bytes, str]
        async with transactional(broker, value_serializer=to_bytes) as producer, producer.transaction():
            with pytest.raises(errors.SerializationError):
                await producer.send("t", "\ud800")
            await producer.send("t", "1")
        assert await committed(broker) == [b"1"]


class TestAfterAnError:
    """From the error on no record is accepted, and unsent records fail at once."""

    async def test_waiting_records_are_not_waited_for(self, broker: DevBroker) -> None:
        async with transactional(broker, linger_ms=60_000, max_block_ms=60_000) as producer:
            await producer.begin_transaction()
            in_a_batch = await producer.enqueue("t", b"never")
            no_partition = asyncio.create_task(producer.enqueue("t", b"never", partition=7))
            await asyncio.sleep(0)
            broker.controls.fail_next(ApiKey.TXN_OFFSET_COMMIT, errors.FencedInstanceIdError)
            with pytest.raises(errors.FencedInstanceIdError):
                await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "group")
            async with asyncio.timeout(10):
                for waiting in (in_a_batch, no_partition):
                    with pytest.raises(errors.TransactionAbortedError) as raised:
                        await waiting
                    assert isinstance(raised.value.__cause__, errors.FencedInstanceIdError)
            with pytest.raises(errors.FencedInstanceIdError):
                await producer.send("t", b"never")
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.abort_transaction()

    async def test_a_fenced_producer_waits_for_nothing(self, broker: DevBroker, producer: KafkaProducer) -> None:
        await producer.begin_transaction()
        async with transactional(broker), asyncio.timeout(10):
            with pytest.raises((errors.ProducerFencedError, errors.InvalidProducerEpochError)):
                await producer.send("t", b"never")
            with pytest.raises((errors.ProducerFencedError, errors.InvalidProducerEpochError)):
                await producer.send("t", b"never")

    async def test_records_that_a_broker_names_fail_their_transaction_alone(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        """The others are not sent again, for that needs a new epoch, which only an end may bring."""
        broker.create_topic("compacted", 1, cleanup_policy="compact")
        await producer.begin_transaction()
        with_key, without = await asyncio.gather(
            producer.enqueue("compacted", b"never", key=b"k"), producer.enqueue("compacted", b"never")
        )
        for delivery in (with_key, without):
            with pytest.raises(errors.InvalidRecordError):
                await delivery
        with pytest.raises(errors.InvalidRecordError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await has_a_new_transaction(broker, producer)
        assert producer.metrics()["epoch-bump-total"] == 0


class TestCallsThatOutliveTheirTransaction:
    """A call with many records puts none into the next transaction."""

    async def test_a_table_that_had_waited_for_metadata(self, broker: DevBroker, producer: KafkaProducer) -> None:
        broker.controls.delay(ApiKey.METADATA, 0.2)
        await producer.begin_transaction()
        table = pyarrow.table({"value": VALUES})
        call = asyncio.ensure_future(producer.send_arrow("t", table, return_exceptions=True))
        await asyncio.sleep(0)
        await producer.commit_transaction()
        async with producer.transaction():
            failed = (await call).failed
        assert len(failed) == len(VALUES)
        assert "the transaction that this call began in has ended" in str(failed[0])
        assert await committed(broker) == []

    async def test_an_error_of_the_next_transaction_is_not_theirs(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        broker.controls.delay(ApiKey.METADATA, 0.2)
        await producer.begin_transaction()
        table = pyarrow.table({"value": VALUES})
        call = asyncio.ensure_future(producer.send_arrow("t", table, return_exceptions=True))
        await asyncio.sleep(0)
        await producer.commit_transaction()
        await producer.begin_transaction()
        with pytest.raises(errors.RecordTooLargeError):
            await producer.send("t", bytes(2 << 20))
        failed = (await call).failed
        assert len(failed) == len(VALUES)
        assert "the transaction that this call began in has ended" in str(failed[0])
        with pytest.raises(errors.RecordTooLargeError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await has_a_new_transaction(broker, producer)

    async def test_a_list_that_had_waited_for_metadata(self, broker: DevBroker, producer: KafkaProducer) -> None:
        await producer.begin_transaction()
        call = asyncio.create_task(producer.send_many("t", VALUES, return_exceptions=True))
        await asyncio.sleep(0)
        await producer.commit_transaction()
        first = await committed(broker)
        async with producer.transaction():
            failed = [error for error in await call if isinstance(error, errors.IllegalStateError)]
        assert failed
        assert len(first) + len(failed) == len(VALUES)
        assert await committed(broker) == first

    async def test_a_transaction_waits_for_a_call_that_it_waits_for(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        async with producer.transaction():
            await producer.send_many("t", VALUES)
            await producer.send_arrow("t", pyarrow.table({"value": VALUES}))
        assert await committed(broker) == VALUES * 2


class TestLateNews:
    """A late record belongs to no transaction but its own."""

    @pytest.mark.parametrize("broker", [1], indirect=True)  # where a batch is sent long after it was made
    async def test_a_request_that_ends_after_its_records_time_harms_no_later_transaction(
        self, broker: DevBroker
    ) -> None:
        options: dict[str, Any] = {"request_timeout_ms": 500, "delivery_timeout_ms": 600}
        async with transactional(broker, **options) as producer:
            broker.controls.delay(ApiKey.ADD_PARTITIONS_TO_TXN, 0.3)
            broker.controls.delay(ApiKey.PRODUCE, 60)
            await producer.begin_transaction()
            with pytest.raises(errors.DeliveryTimeoutError):
                await producer.send("t", b"never")
            broker.controls.clear()
            await producer.abort_transaction()
            async with producer.transaction():
                broker.controls.delay(ApiKey.TXN_OFFSET_COMMIT, 0.4)  # the request ends meanwhile
                await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "group")
            await has_a_new_transaction(broker, producer)


class TestACommitThatNobodyWaitsFor:
    """Cancelled while it commits: it goes on, and is aborted if it fails."""

    async def test_it_is_aborted_when_it_fails(self, broker: DevBroker, producer: KafkaProducer) -> None:
        broker.controls.fail_next(ApiKey.END_TXN, errors.TransactionAbortableError)
        broker.controls.delay(ApiKey.END_TXN, 0.1)

        async def place() -> None:
            async with producer.transaction():
                await producer.send("t", b"never")

        task = asyncio.create_task(place())
        while not broker.controls.request_count(ApiKey.END_TXN):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await has_a_new_transaction(broker, producer)


class TestAnEpochThatDoesNotCome:
    """In version 1 an abort after a record that failed ends with a new epoch."""

    async def test_it_is_asked_for_again(self, broker: DevBroker) -> None:
        async with transactional(broker, max_block_ms=1_000) as producer:
            with pytest.raises(errors.InvalidRecordError):
                async with producer.transaction():
                    broker.controls.fail_next(ApiKey.PRODUCE, errors.InvalidRecordError)
                    broker.controls.delay(ApiKey.INIT_PRODUCER_ID, 1.3)
                    await producer.send("t", b"never")
            broker.controls.clear()
            await asyncio.sleep(0.6)  # until the late answer has come
            await has_a_new_transaction(broker, producer)


class TestMarkers:
    """In version 2 a transaction asks whether the markers of the one before are written."""

    async def test_they_are_waited_for(
        self, broker: DevBroker, producer: KafkaProducer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # On a busy machine more time may pass before the next transaction begins, and then nobody would ask.
        monkeypatch.setattr("aiokafkapy.producer.transactional.transactions.KEPT_BY_BROKERS", 60.0)
        broker.controls.hold_transactions()
        async with producer.transaction():
            await producer.send("t", b"first")
        asked = partial(broker.controls.request_count, ApiKey.DESCRIBE_TRANSACTIONS)
        sent = broker.controls.request_count(ApiKey.PRODUCE)
        await producer.begin_transaction()
        second = producer.send_nowait("t", b"second")
        if transaction_version_of(producer) == 2:
            while asked() < 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert broker.controls.request_count(ApiKey.PRODUCE) == sent
        broker.controls.hold_transactions(False)
        await second
        await producer.commit_transaction()
        assert await committed(broker) == [b"first", b"second"]

    async def test_an_answer_that_cannot_be_read_holds_nothing(self, broker: DevBroker) -> None:
        async with FaultProxy(broker.bootstrap_servers) as net:
            net.corrupt(ApiKey.DESCRIBE_TRANSACTIONS, times=None)
            async with KafkaProducer(net.bootstrap_servers, transactional_id="one", linger_ms=0) as producer:
                for value in VALUES[:5]:
                    async with asyncio.timeout(10), producer.transaction():
                        await producer.send("t", value)
        assert await committed(broker) == VALUES[:5]


class TestACoordinatorThatIsGone:
    """Its node died while nothing was asked of it: the next one is looked up, and nobody waits for the dead one."""

    @pytest.mark.parametrize("what", ["commit", "abort", "offsets", "nothing open"])
    async def test_the_next_one_is_asked(self, what: str) -> None:
        async with DevBroker(nodes=3) as broker:
            broker.create_topic("t", 1)
            async with transactional(broker, max_block_ms=60_000) as producer:
                async with producer.transaction():
                    await producer.send("t", b"1")
                    await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "group")
                if what != "nothing open":
                    await producer.begin_transaction()
                    await producer.send("t", b"2")
                for key in ("one", "group"):
                    node = broker.state.coordinator_for(key)
                    assert node is not None
                    broker.controls.stop_node(node.node_id)
                await asyncio.sleep(0.3)  # until the client has seen that it cannot connect
                async with asyncio.timeout(20):
                    if what == "offsets":
                        await producer.send_offsets_to_transaction({TopicPartition("t", 0): 2}, "group")
                    if what == "abort":
                        await producer.abort_transaction()
                    elif what != "nothing open":
                        await producer.commit_transaction()
                    async with producer.transaction():
                        await producer.send("t", b"3")
            assert await committed(broker) == [b"1", *([] if what in ("abort", "nothing open") else [b"2"]), b"3"]
