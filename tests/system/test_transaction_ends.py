"""What is under way when a transaction ends: offsets, partitions and batches belong to it, and to no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiokafka
import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.broker.context import RequestContext
from aiokafkapy.broker.handlers import Body
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


class TestBatches:
    """Those whose sequences follow others of the transaction."""

    async def test_those_behind_one_that_failed_are_not_waited_for(
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
