"""Work that is under way when a transaction ends: offsets, partitions and batches belong to it, and to no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiokafka
import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.broker.context import RequestContext
from aiokafkapy.broker.handlers.registry import Body
from aiokafkapy.broker.handlers.txn_offset_commit import handle
from aiokafkapy.common import TopicPartition
from aiokafkapy.protocol.api import ApiKey

from .transactional import committed, transactional


@pytest.fixture(params=[1, 2])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[DevBroker]:
    """Both versions of transactions."""
    async with DevBroker(transaction_version=request.param) as broker:
        broker.create_topic("t", 1)
        yield broker


@pytest.fixture
async def producer(broker: DevBroker) -> AsyncIterator[KafkaProducer]:
    async with transactional(broker, delivery_timeout_ms=60_000, client_id="me") as producer:
        yield producer


async def has_a_new_transaction(broker: DevBroker, producer: KafkaProducer) -> None:
    """A new one commits its records, and nothing else is committed."""
    async with producer.transaction():
        await producer.send("t", b"new")
    assert await committed(broker) == [b"new"]


async def offset_of_the_group(broker: DevBroker, partition: int = 0) -> int | None:
    options = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "g", "enable_auto_commit": False}
    async with aiokafka.AIOKafkaConsumer(**options) as consumer:
        found: int | None = await consumer.committed(aiokafka.TopicPartition("t", partition))
    return found


class TestOffsets:
    """``send_offsets_to_transaction``, while the group's coordinator does not take them."""

    @staticmethod
    async def under_way(broker: DevBroker, producer: KafkaProducer) -> asyncio.Task[None]:
        """A call in a new transaction with one record, and a coordinator that is loading."""
        broker.controls.fail_next(ApiKey.TXN_OFFSET_COMMIT, errors.CoordinatorLoadInProgressError, times=None)
        await producer.begin_transaction()
        await producer.send("t", b"1")
        call = asyncio.create_task(producer.send_offsets_to_transaction({TopicPartition("t", 0): 42}, "g"))
        while not broker.controls.request_count(ApiKey.TXN_OFFSET_COMMIT):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        return call

    async def test_a_commit_waits_for_them(self, broker: DevBroker, producer: KafkaProducer) -> None:
        call = await self.under_way(broker, producer)
        commit = asyncio.create_task(producer.commit_transaction())
        await asyncio.sleep(0.05)
        assert not commit.done()
        broker.controls.clear()
        await asyncio.gather(commit, call)
        assert await offset_of_the_group(broker) == 42

    async def test_they_are_not_missing_in_a_commit(self, broker: DevBroker, producer: KafkaProducer) -> None:
        call = await self.under_way(broker, producer)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call, 0.05)
        with pytest.raises(errors.TransactionAbortableError, match="was cancelled before its answer came"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        broker.controls.clear()
        await has_a_new_transaction(broker, producer)
        assert await offset_of_the_group(broker) is None

    async def test_a_refusal_is_their_own_transaction_s(self, broker: DevBroker, producer: KafkaProducer) -> None:
        call = await self.under_way(broker, producer)
        commit = asyncio.create_task(producer.commit_transaction())
        await asyncio.sleep(0)
        broker.controls.clear()
        broker.controls.fail_next(ApiKey.TXN_OFFSET_COMMIT, errors.FencedInstanceIdError)
        for task in (call, commit):
            with pytest.raises(errors.FencedInstanceIdError):
                await task
        await producer.abort_transaction()
        await has_a_new_transaction(broker, producer)

    async def test_after_an_abort_they_are_in_no_other_one(self, broker: DevBroker, producer: KafkaProducer) -> None:
        call = await self.under_way(broker, producer)
        await producer.abort_transaction()
        with pytest.raises(errors.TransactionAbortedError):
            await call
        broker.controls.clear()
        await has_a_new_transaction(broker, producer)
        assert await offset_of_the_group(broker) is None

    @pytest.mark.parametrize("version", [1, 2])
    async def test_a_request_that_comes_after_its_transaction_is_refused(self, version: int) -> None:
        """That holds even if the next transaction sends offsets of the same group."""
        async with DevBroker(nodes=2, transaction_version=version) as broker:
            broker.create_topic("t", 2)
            broker.controls.move_coordinator("g", 1)
            broker.controls.move_coordinator("one", 2)
            may_come = asyncio.Event()

            async def handled_late(context: RequestContext, body: Body) -> Any:
                await may_come.wait()
                return handle(context, body)

            broker.controls.on_request(
                ApiKey.TXN_OFFSET_COMMIT, lambda *request: asyncio.ensure_future(handled_late(*request))
            )
            async with transactional(broker) as producer:
                await producer.begin_transaction()
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await producer.send_offsets_to_transaction({TopicPartition("t", 0): 42}, "g")
                await producer.abort_transaction()
                async with producer.transaction():
                    call = asyncio.create_task(producer.send_offsets_to_transaction({TopicPartition("t", 1): 7}, "g"))
                    await asyncio.sleep(0.1)  # until the group is in this transaction, in version 1
                    may_come.set()
                    await call
            assert await offset_of_the_group(broker) is None
            assert await offset_of_the_group(broker, 1) == 7

    async def test_they_wait_for_markers_in_their_transaction_alone(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        broker.controls.hold_transactions()
        async with producer.transaction():
            await producer.send("t", b"new")
        await producer.begin_transaction()
        call = asyncio.create_task(producer.send_offsets_to_transaction({TopicPartition("t", 0): 42}, "g"))
        await asyncio.sleep(0)
        abort = asyncio.create_task(producer.abort_transaction())
        await asyncio.sleep(0)
        broker.controls.hold_transactions(False)
        await abort
        with pytest.raises(errors.TransactionAbortedError):
            await call
        async with producer.transaction():
            await producer.send("t", b"2")
        assert await offset_of_the_group(broker) is None


class TestPartitions:
    """AddPartitionsToTxn, which version 1 sends."""

    async def test_partitions_that_are_being_added_are_aborted(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        """The broker has no open transaction that the producer does not know, which its time-out would end."""
        await producer.begin_transaction()
        await producer.send("t", b"never")
        await producer.abort_transaction()
        broker.controls.delay(ApiKey.ADD_PARTITIONS_TO_TXN, 0.2)
        broker.controls.delay(ApiKey.PRODUCE, 0.2)
        await producer.begin_transaction()
        record = await producer.enqueue("t", b"never")
        await asyncio.sleep(0.05)
        await producer.abort_transaction()
        await asyncio.gather(record, return_exceptions=True)
        await asyncio.sleep(0.3)  # until a late request has come
        broker.controls.clear()
        assert broker.controls.expire_transactions("one") == 0
        await has_a_new_transaction(broker, producer)


class TestBatches:
    """Batches whose sequences follow others of the transaction."""

    async def test_batches_behind_a_failed_one_are_not_waited_for(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        await producer.begin_transaction()
        await producer.send("t", b"never")
        broker.controls.delay(ApiKey.PRODUCE, 0.1)
        broker.controls.fail_next(ApiKey.PRODUCE, errors.InvalidRecordError)
        first = await producer.enqueue("t", b"never")
        await asyncio.sleep(0.02)
        second = await producer.enqueue("t", b"never")
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(first, second, return_exceptions=True)
            await producer.abort_transaction()
        broker.controls.clear()
        assert [type(one) for one in outcomes] == [errors.InvalidRecordError, errors.OutOfOrderSequenceNumberError]
        await has_a_new_transaction(broker, producer)

    async def test_parts_of_a_split_batch_leave_no_gap(self, broker: DevBroker, producer: KafkaProducer) -> None:
        await producer.begin_transaction()
        await producer.send("t", b"never")
        broker.controls.throttle("me", 500)
        broker.controls.fail_next(ApiKey.PRODUCE, errors.MessageTooLargeError)
        records = [producer.send_nowait("t", bytes(100)) for _ in range(10)]
        while not producer.metrics()["batch-split-total"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        broker.controls.throttle("me", 0)
        async with asyncio.timeout(20):
            await producer.abort_transaction()
            await asyncio.gather(*records, return_exceptions=True)
            await has_a_new_transaction(broker, producer)


async def test_a_call_with_many_records_goes_on_after_a_cancelled_prepare() -> None:
    options: dict[str, Any] = {
        "buffer_memory": 40_000,
        "max_request_size": 20_000,
        "transaction_two_phase_commit_enable": True,
    }
    async with DevBroker(transaction_two_phase_commit_enable=True) as broker:
        broker.create_topic("t", 1)
        async with transactional(broker, **options) as producer:
            await producer.begin_transaction()
            await producer.send("t", b"1")
            broker.controls.delay(ApiKey.PRODUCE, 0.2)
            call = asyncio.create_task(producer.send_many("t", [bytes(1_000)] * 200))
            await asyncio.sleep(0.05)
            preparing = asyncio.create_task(producer.prepare_transaction())
            await asyncio.sleep(0)
            preparing.cancel()
            await asyncio.wait([preparing])
            broker.controls.clear()
            await call
            await producer.commit_transaction()
        assert len(await committed(broker)) == 201
