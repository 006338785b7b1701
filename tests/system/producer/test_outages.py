"""Promise 8, over real sockets: brokers go away and come back, with or without their records."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.system.producer.observing import SHORT, numbered, values
from tests.waiting import until


class TestOutages:
    """Promise 8."""

    async def test_metadata_requests_do_not_grow_with_records(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=8)
        options: dict[str, Any] = SHORT | {"retry_backoff_ms": 100, "retry_backoff_max_ms": 100}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            for partition in range(8):
                await producer.send("t", b"x", partition=partition)
            for partition in range(8):
                broker.controls.set_leader("t", partition, None)
            before = broker.controls.request_count(ApiKey.METADATA)
            outcomes = await asyncio.gather(
                *(producer.send("t", b"y", partition=number % 8) for number in range(2000)), return_exceptions=True
            )
            assert all(isinstance(outcome, errors.DeliveryTimeoutError) for outcome in outcomes)
            # 1.5 s of outage at 100 ms ± 20 %, and a request per connection lost or made.
            assert broker.controls.request_count(ApiKey.METADATA) - before <= 1500 / 80 + 4

    async def test_an_outage_of_all_brokers_is_survived_and_the_log_stays_short(
        self, broker: DevBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        broker.create_topic("t", partitions=3)
        async with KafkaProducer(broker.bootstrap_servers, request_timeout_ms=500) as producer:
            await producer.send("t", b"first")
            caplog.clear()
            for node_id in (1, 2, 3):
                broker.controls.stop_node(node_id)
            deliveries = [await producer.enqueue("t", value) for value in numbered(1000)]
            await asyncio.sleep(0.6)
            in_the_outage = producer.health
            assert not in_the_outage.is_healthy
            assert not any(delivery.done() for delivery in deliveries)
            for node_id in (1, 2, 3):
                broker.controls.start_node(node_id)
            await asyncio.wait_for(asyncio.gather(*deliveries), 20)
            assert producer.health.is_healthy
        assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) < 40
        assert len(broker.records("t")) == 1001

    @pytest.mark.parametrize(("host", "port"), [("", 9092), ("localhost", -1)])
    async def test_a_broker_without_an_address_is_waited_for(self, host: str, port: int) -> None:
        """A broker that is misconfigured, or starting: the producer ended for good."""
        async with DevBroker() as broker, KafkaProducer(broker.bootstrap_servers, retry_backoff_ms=20) as producer:
            await producer.send("t", b"1")
            partitions = [{"partition_index": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}]
            broker.controls.on_request(
                ApiKey.METADATA,
                lambda context, body: context.respond(
                    brokers=[{"node_id": 1, "host": host, "port": port}],
                    topics=[{"name": topic.name, "partitions": partitions} for topic in body.topics],
                ),
            )
            before = broker.controls.request_count(ApiKey.METADATA)
            broker.controls.drop_connections()
            await until(lambda: broker.controls.request_count(ApiKey.METADATA) > before)
            sending = asyncio.create_task(producer.send("t", b"2"))
            await until(lambda: broker.controls.request_count(ApiKey.METADATA) > before + 1 or sending.done())
            broker.controls.on_request(ApiKey.METADATA, None)
            await asyncio.wait_for(sending, 20)
            assert values(broker, "t") == [b"1", b"2"]

    async def test_a_topic_made_soon_after_the_first_send_is_found_by_the_next_request(self) -> None:
        async with (
            DevBroker(auto_create_topics_enable=False) as broker,
            KafkaProducer(broker.bootstrap_servers) as producer,
        ):
            sending = asyncio.create_task(producer.send("late", b"x"))
            await until(lambda: broker.controls.request_count(ApiKey.METADATA) > 3)
            broker.create_topic("late", 1)
            before = broker.controls.request_count(ApiKey.METADATA)
            await asyncio.wait_for(sending, 20)
            assert broker.controls.request_count(ApiKey.METADATA) == before + 1


async def test_a_truncated_log_is_reported(broker: DevBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Here by making the topic anew; a node that leads without the records does the same."""
    broker.create_topic("cut", 1)
    async with KafkaProducer(broker.bootstrap_servers, **SHORT | {"delivery_timeout_ms": 10_000}) as producer:
        for value in numbered(3):
            await producer.send("cut", value)
        broker.delete_topic("cut")
        broker.create_topic("cut", 1)
        assert (await producer.send("cut", b"first")).offset == 0
        assert (await producer.send("cut", b"second")).offset == 1
        assert producer.metrics()["log-truncation-total"] == 1
    (told,) = [record for record in caplog.records if "produce.records_lost" in record.getMessage()]
    assert told.levelno == logging.ERROR
    assert "topic=cut partition=0 offset=0 acknowledged=2" in told.getMessage()
