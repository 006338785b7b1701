from __future__ import annotations

import asyncio

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.producer.closings import call_before_closed, tell_before_closed
from aiokafkapy.producer.state import ProducerState
from aiokafkapy.testing import MockProducer


async def test_all_are_told_once_while_the_producer_counts_as_open() -> None:
    seen: list[str] = []
    async with MockProducer() as producer:
        for _ in range(2):
            call_before_closed(producer, lambda: seen.append(producer.state.value))
        assert seen == []
    await producer.close()
    assert seen == ["closing", "closing"]


async def test_a_close_that_is_cancelled_calls_its_callbacks_too(kafka_broker: DevBroker) -> None:
    seen: list[int] = []
    producer = KafkaProducer(kafka_broker.bootstrap_servers, linger_ms=60_000)
    await producer.start()
    delivery = await producer.enqueue("t", b"v")
    kafka_broker.stall_connections(True, None)
    call_before_closed(producer, lambda: seen.append(producer.statistics().failed))
    closing = asyncio.ensure_future(producer.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert seen == [1]
    assert delivery.exception() is not None
    await producer.close()
    kafka_broker.stall_connections(False, None)


async def test_a_callback_that_raises_stops_neither_the_others_nor_the_close(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    async with MockProducer() as producer:
        call_before_closed(producer, lambda: 1 / 0)
        call_before_closed(producer, lambda: seen.append("told"))
    assert seen == ["told"]
    assert producer.state is ProducerState.CLOSED
    assert "producer.closing_untold" in caplog.text


def test_a_producer_that_nobody_waits_for_tells_nobody() -> None:
    tell_before_closed(MockProducer())
