"""Promise 3, over real sockets: per partition, wire order is call order."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.system.producer.observing import numbered, values


class TestOrder:
    """Promise 3: per partition, wire order is call order."""

    async def test_concurrent_sends_to_an_unknown_topic_keep_call_order(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await asyncio.gather(*(producer.send("t", value) for value in numbered(3000)))
        assert values(broker, "t") == numbered(3000)

    async def test_order_is_kept_when_the_buffer_is_full(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        options: dict[str, Any] = {"buffer_memory": 30_000, "max_request_size": 10_000, "batch_size": 4_000}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await asyncio.gather(*(producer.send("t", value + b"x" * 100) for value in numbered(5000)))
        assert [value[:6] for value in values(broker, "t") if value] == numbered(5000)

    async def test_async_serializers_finish_in_any_order_and_records_do_not(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        source = random.Random(1)

        async def serialize(data: int) -> bytes:
            for _ in range(source.randrange(20)):
                await asyncio.sleep(0)
            return b"%06d" % data

        async with KafkaProducer(broker.bootstrap_servers, value_serializer=serialize) as producer:
            await asyncio.gather(*(producer.send("t", number) for number in range(500)))
            with pytest.raises(errors.IllegalStateError):
                producer.send_nowait("t", 1)
        assert values(broker, "t") == numbered(500)

    async def test_retriable_errors_reorder_nothing_with_five_in_flight(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=2)
        options: dict[str, Any] = {"batch_size": 500, "retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "linger_ms": 0}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.send("t", b"first", partition=0)
            source = random.Random(7)
            deliveries = []
            for number, value in enumerate(numbered(3000)):
                if number % 200 == 0:
                    error = source.choice([errors.NotEnoughReplicasError, errors.NotLeaderOrFollowerError])
                    broker.controls.fail_next(ApiKey.PRODUCE, error, after_append=False)
                if number % 500 == 250:
                    broker.controls.drop_next(ApiKey.PRODUCE, after=source.random() < 0.5)
                deliveries.append(await producer.enqueue("t", value, partition=0))
                if number % 10 == 0:
                    await asyncio.sleep(0)
            await asyncio.gather(*deliveries)
        assert values(broker, "t") == [b"first", *numbered(3000)]

    async def test_retriable_errors_reorder_nothing_while_requests_in_flight_adapt(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        options: dict[str, Any] = {
            "max_in_flight_requests_per_connection": "auto", "batch_size": 500, "retry_backoff_ms": 5, "linger_ms": 0,
            "retry_backoff_max_ms": 20, "metrics_per_node": True,
        }  # fmt: skip
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            deliveries, most = [], 0
            for number, value in enumerate(numbered(3000)):
                if number % 200 == 0:
                    broker.controls.fail_next(ApiKey.PRODUCE, errors.NotEnoughReplicasError)
                deliveries.append(await producer.enqueue("t", value))
                if number % 10 == 0:
                    await asyncio.sleep(0)
                    most = max(most, *producer.statistics().in_flight.values())
            await asyncio.gather(*deliveries)
            (limit,) = producer.statistics().in_flight_limits.values()
            assert 1 <= limit <= 5
            assert most <= 6, "with one of the metadata's"
            found = [metrics.get("requests-in-flight-limit") for metrics in producer.node_metrics().values()]
            assert limit in found
        assert values(broker, "t") == numbered(3000)

    async def test_a_moving_leader_loses_and_reorders_nothing(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, batch_size=1000, retry_backoff_ms=10) as producer:
            await producer.send("t", b"first")
            deliveries = []
            for number, value in enumerate(numbered(4000)):
                if number % 400 == 200:
                    broker.controls.set_leader("t", 0, number // 400 % 3 + 1)
                deliveries.append(await producer.enqueue("t", value))
                if number % 20 == 0:
                    await asyncio.sleep(0)
            await asyncio.gather(*deliveries)
        assert values(broker, "t") == [b"first", *numbered(4000)]

    async def test_order_without_idempotence_with_one_in_flight(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        options: dict[str, Any] = {
            "enable_idempotence": False, "max_in_flight_requests_per_connection": 1, "batch_size": 500,
            "retry_backoff_ms": 5,
        }  # fmt: skip
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.send("t", b"first")
            broker.controls.fail_next(ApiKey.PRODUCE, errors.NotEnoughReplicasError, times=5)
            await producer.send_many("t", numbered(2000))
        assert values(broker, "t") == [b"first", *numbered(2000)]
