"""A producer in programs of anyio, on its asyncio backend: task groups, and scopes, which cancel at each await."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import ProducerClosedError
from aiokafkapy.protocol.api import ApiKey

PATIENCE = 20.0


def senders() -> list[asyncio.Task[object]]:
    """The Senders that run on this loop."""
    return [task for task in asyncio.all_tasks() if task.get_name() == "aiokafkapy-sender"]


async def test_a_task_group_s_tasks_share_a_producer(kafka_broker: DevBroker) -> None:
    async with KafkaProducer(kafka_broker.bootstrap_servers) as producer:

        async def send(number: int) -> None:
            await producer.send("t", b"%d" % number)

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(send, number)
    values = {record.value for record in kafka_broker.records("t")}
    assert values == {b"%d" % number for number in range(50)}


async def test_a_scope_that_ends_while_a_record_is_under_way_leaves_it_to_the_producer(kafka_broker: DevBroker) -> None:
    arrived: asyncio.Event = asyncio.Event()
    gate = asyncio.get_running_loop().create_future()

    def park(context: object, body: object) -> asyncio.Future[None]:
        arrived.set()
        return gate

    async with KafkaProducer(kafka_broker.bootstrap_servers) as producer:
        await producer.send("t", b"warm")
        kafka_broker.controls.on_request(ApiKey.PRODUCE, park)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(producer.send, "t", b"value")
                await arrived.wait()
                scope.cancel()
        assert scope.cancelled_caught
        assert producer.statistics().pending == 1
        kafka_broker.controls.on_request(ApiKey.PRODUCE, None)
        kafka_broker.controls.drop_connections()
        assert (await producer.send("t", b"next")).topic == "t"
    assert sorted(record.value or b"" for record in kafka_broker.records("t")) == [b"next", b"value", b"warm"]


async def test_a_producer_inside_of_a_scope_that_ends_is_closed_and_leaves_no_task(kafka_broker: DevBroker) -> None:
    async with asyncio.timeout(PATIENCE):
        with anyio.CancelScope() as scope:
            async with KafkaProducer(kafka_broker.bootstrap_servers) as producer:
                await producer.send("t", b"first")
                assert senders()
                scope.cancel()
                await producer.send("t", b"second")
        assert scope.cancelled_caught
        with pytest.raises(ProducerClosedError):
            producer.send_nowait("t", b"third")
        await asyncio.gather(*senders(), return_exceptions=True)  # ends, within the patience
        assert not senders()
    assert next(record.value for record in kafka_broker.records("t")) == b"first"
