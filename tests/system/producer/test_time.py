"""Promise 2, over real sockets: every record has an outcome in time; flush and close keep their deadlines."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.servers.ports import free_port
from tests.system.producer.observing import SHORT, our_tasks


class TestTime:
    """Promise 2: every record has an outcome in time; flush and close keep their deadlines; linger is linger."""

    async def test_close_with_a_dead_broker_returns_in_time_with_every_future_done(self, broker: DevBroker) -> None:
        producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
        await producer.start()
        await producer.send("t", b"x")
        broker.controls.stall_connections()
        deliveries = [await producer.enqueue("t", b"y") for _ in range(1000)]
        started = time.perf_counter()
        await producer.close(timeout=0.3)
        assert 0.25 < time.perf_counter() - started < 20, "a request's time-out is thirty"
        assert all(delivery.done() for delivery in deliveries)
        found = [delivery.exception() for delivery in deliveries]
        assert all(isinstance(error, errors.CloseTimeoutError) for error in found)
        assert "records of this partition" in str(found[0])
        assert our_tasks() == set()
        broker.controls.clear()

    async def test_flush_and_close_do_not_wait_out_linger(self, broker: DevBroker) -> None:
        producer = KafkaProducer(broker.bootstrap_servers, linger_ms=60_000)
        await producer.start()
        started = time.perf_counter()
        delivery = await producer.enqueue("t", b"x")
        await producer.flush()
        assert delivery.done()
        last = await producer.enqueue("t", b"y")
        await producer.close()
        assert last.done()
        assert time.perf_counter() - started < 30

    @pytest.mark.parametrize("options", [{"linger_ms": 60_000}, {"manual_flush": True}])
    @pytest.mark.parametrize("ends", ["flush", "close"])
    async def test_records_do_not_wait_for_one_that_is_not_accepted(
        self, broker: DevBroker, options: dict[str, Any], ends: str
    ) -> None:
        """One misspelt topic must not cost the records of all others when a service ends."""
        broker.create_topic("t", partitions=1)
        producer = KafkaProducer(broker.bootstrap_servers, **options)
        await producer.start()
        await producer.partitions_for("t")
        good = [producer.send_nowait("t", b"x") for _ in range(10)]
        broker.controls.fail_next(ApiKey.METADATA, errors.UnknownTopicOrPartitionError, times=1_000)
        waits = asyncio.create_task(producer.send("misspelt", b"y"))
        await asyncio.sleep(0)
        with contextlib.suppress(errors.FlushTimeoutError):
            await (producer.flush(timeout=1) if ends == "flush" else producer.close(timeout=1))
        assert [delivery.exception() for delivery in good] == [None] * 10
        await producer.close(timeout=0)
        await asyncio.wait([waits])
        assert isinstance(waits.exception(), errors.KafkaError)

    async def test_flush_reports_its_timeout_and_the_records_go_on(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"x")
            broker.controls.delay(ApiKey.PRODUCE, 0.2)
            delivery = await producer.enqueue("t", b"y")
            with pytest.raises(errors.FlushTimeoutError, match="1 records without an outcome"):
                await producer.flush(timeout=0.02)
            assert not delivery.done()
            await delivery

    async def test_flush_waits_for_calls_that_were_waiting_to_be_accepted(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            task = asyncio.create_task(producer.send("new topic".replace(" ", "-"), b"x"))
            await asyncio.sleep(0)
            await producer.flush()
            await asyncio.wait([task], timeout=0.1)
            assert task.done()

    async def test_a_record_expires_in_time_and_says_why(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, **SHORT) as producer:
            await producer.send("t", b"x")
            broker.controls.set_leader("t", 0, None)
            started = time.perf_counter()
            with pytest.raises(errors.DeliveryTimeoutError) as caught:
                await producer.send("t", b"y")
            assert 1.4 < time.perf_counter() - started < 20
        assert caught.value.topic == "t"
        assert caught.value.partition == 0
        assert "delivery_timeout_ms=1500" in str(caught.value)

    async def test_linger_is_measured_from_the_first_record(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=100) as producer:
            await producer.send("t", b"warm up")
            started = time.perf_counter()
            first = await producer.enqueue("t", b"0")
            while not first.done():
                await producer.enqueue("t", b"more")
                await asyncio.sleep(0.01)
            assert 0.08 < time.perf_counter() - started < 20, "measured from the last one it would never be over"

    async def test_an_idle_producer_does_not_wake_up(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"x")
            await asyncio.sleep(0.2)
            before = producer.statistics().wake_ups
            await asyncio.sleep(0.5)
            assert producer.statistics().wake_ups == before

    async def test_start_fails_in_time_naming_each_address(self) -> None:
        ports = [free_port(), free_port()]
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        producer = KafkaProducer(servers, max_block_ms=300)
        started = time.perf_counter()
        for _ in range(2):  # it may be tried again
            with pytest.raises(errors.MetadataTimeoutError) as caught:
                await producer.start()
            for port in ports:
                assert f"127.0.0.1:{port}" in str(caught.value)
        assert 0.5 < time.perf_counter() - started < 20
        assert our_tasks() == set()
        await producer.close()
