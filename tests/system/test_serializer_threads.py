"""Serializers of large records in threads: order, errors, cancellation, and a loop that goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import ConfigurationError, IllegalStateError, SerializationError
from aiokafkapy.testing import MockProducer

LARGE = 1_000


class Held:
    """A serializer that lets large values wait for the test, and knows the waiting ones."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.loop_thread = threading.get_ident()

    def __call__(self, data: bytes) -> bytes:
        if len(data) > LARGE:
            assert threading.get_ident() != self.loop_thread
            self.entered.set()
            assert self.gate.wait(30)
        else:
            assert threading.get_ident() == self.loop_thread
        if data.startswith(b"bad"):
            raise ValueError("no")
        return data


def producer_of(broker: DevBroker, serializer: Any, **options: Any) -> KafkaProducer[bytes, bytes]:
    given = {"value_serializer": serializer, "serialize_in_thread_above": LARGE, **options}
    return KafkaProducer(broker.bootstrap_servers, **given)


async def test_the_order_of_calls_is_kept_and_the_loop_goes_on(kafka_broker: DevBroker) -> None:
    kafka_broker.create_topic("t", partitions=1)
    held = Held()
    values = [b"0", b"1" * 2_000, b"2", b"3" * 2_000, b"4"]
    async with producer_of(kafka_broker, held) as producer:
        await producer.send("t", b"first")
        sends = [asyncio.ensure_future(producer.send("t", value)) for value in values]
        assert await asyncio.to_thread(held.entered.wait, 30)
        # The loop runs while a thread is in the serializer; later calls wait for it, also those with other keys.
        await producer.send("another", b"5")
        assert not any(send.done() for send in sends[1:])
        held.gate.set()
        await asyncio.gather(*sends)
    assert [record.value for record in kafka_broker.records("t")] == [b"first", *values]


async def test_an_error_is_the_records_alone_and_a_cancelled_call_sends_nothing(kafka_broker: DevBroker) -> None:
    kafka_broker.create_topic("t", partitions=1)
    held = Held()
    async with producer_of(kafka_broker, held) as producer:
        bad = asyncio.ensure_future(producer.send("t", b"bad" * 1_000))
        gone = asyncio.ensure_future(producer.send("t", b"gone" * 1_000))
        good = asyncio.ensure_future(producer.send("t", b"good" * 1_000))
        assert await asyncio.to_thread(held.entered.wait, 30)
        gone.cancel()
        held.gate.set()
        with pytest.raises(SerializationError, match=r"the value_serializer failed .*ValueError"):
            await bad
        with pytest.raises(asyncio.CancelledError):
            await gone
        await good
        outcomes = await producer.send_many("t", [b"bad", b"x" * 2_000], return_exceptions=True)
        assert isinstance(outcomes[0], SerializationError)
    assert [record.value for record in kafka_broker.records("t")] == [b"good" * 1_000, b"x" * 2_000]


async def test_the_wait_for_a_thread_is_bounded_and_send_nowait_never_waits(kafka_broker: DevBroker) -> None:
    kafka_broker.create_topic("t", partitions=1)
    held = Held()
    async with producer_of(kafka_broker, held, max_block_ms=1_000) as producer:
        await producer.send("t", b"x")
        with pytest.raises(IllegalStateError, match="async serializer"):
            producer.send_nowait("t", b"x" * 2_000)
        await producer.send_nowait("t", b"y")
        with pytest.raises(TimeoutError, match="the serializer did not answer within max_block_ms=1000"):
            await producer.send("t", b"x" * 2_000)
        held.gate.set()
    assert [record.value for record in kafka_broker.records("t")] == [b"x", b"y"]


async def test_threads_of_programs_and_mocks_have_it_too(kafka_broker: DevBroker) -> None:
    kafka_broker.create_topic("t", partitions=1)
    held = Held()
    held.gate.set()
    async with producer_of(kafka_broker, held) as producer:
        futures = await asyncio.to_thread(
            lambda: [producer.send_from_thread("t", size * b"x") for size in (2_000, 1, 3_000)]
        )
        for future in futures:
            await asyncio.wrap_future(future)
    assert [len(record.value or b"") for record in kafka_broker.records("t")] == [2_000, 1, 3_000]
    mock: Any = MockProducer(value_serializer=held, serialize_in_thread_above=LARGE)
    async with mock:
        await mock.send("t", b"x" * 2_000)
    assert [len(record.value) for record in mock.records("t")] == [2_000]


@pytest.mark.parametrize("wrong", [-1, "many", 1.5])
def test_a_limit_is_a_number_of_bytes(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="serialize_in_thread_above"):
        KafkaProducer("h:1", serialize_in_thread_above=wrong)
