"""While deliveries keep failing, calls fail at once; when the cluster is back, the first record that is let through is
delivered, and all others are taken again (``circuit_breaker``).
"""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow
import pytest

from aiokafkapy import CircuitBreaker, KafkaProducer, ProducerRecord
from aiokafkapy.errors import (
    BufferExhaustedError,
    CircuitOpenError,
    DeliveryTimeoutError,
    KafkaError,
    MetadataTimeoutError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafkapy.integrations.service import readiness
from aiokafkapy.protocol.api import ApiKey

from .observing import assert_accounts_balance
from .proxied_clusters import Cluster, DevCluster

QUICK: dict[str, Any] = {"request_timeout_ms": 400, "delivery_timeout_ms": 600, "linger_ms": 0}


def breaker(**options: Any) -> CircuitBreaker:
    return CircuitBreaker(**({"failures": 2, "open_ms": 60_000} | options))


async def fail(producer: KafkaProducer[Any, Any], topic: str, times: int, error: type[KafkaError]) -> None:
    for _ in range(times):
        with pytest.raises(error):
            await producer.send(topic, b"lost")


async def test_calls_fail_at_once_in_an_outage_and_one_is_let_through_first_after_it(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK, circuit_breaker=breaker(open_ms=300)) as producer:
        await producer.send(topic, b"before")
        cluster.net.go_down()
        await fail(producer, topic, 2, DeliveryTimeoutError)
        with pytest.raises(CircuitOpenError) as raised:
            await producer.send(topic, b"refused")
        assert isinstance(raised.value.__cause__, DeliveryTimeoutError)
        assert raised.value.topic == topic
        with pytest.raises(CircuitOpenError):
            await producer.enqueue(topic, b"refused")
        with pytest.raises(CircuitOpenError):
            producer.send_nowait(topic, b"refused")
        (status,) = producer.statistics().circuits
        assert (status.topic, status.state, status.failures) == (topic, "open", 2)
        assert [one.topic for one in producer.health.open_circuits] == [topic]
        assert producer.statistics().accepted == 3  # nothing fills the buffer
        await cluster.net.come_back()
        async with asyncio.timeout(20):
            while producer.statistics().circuits:
                try:
                    await producer.send(topic, b"after")
                except (CircuitOpenError, DeliveryTimeoutError):
                    await asyncio.sleep(0.01)
        await asyncio.gather(*(producer.send(topic, b"taken") for _ in range(100)))
        assert_accounts_balance(producer)
    log = await cluster.log(topic)
    assert log[0] == b"before"
    assert log[-100:] == [b"taken"] * 100
    assert b"refused" not in log


async def test_each_way_of_sending_many_tells_each_record(dev_cluster: DevCluster) -> None:
    topic, another = await dev_cluster.create_topic(), await dev_cluster.create_topic()
    controls = dev_cluster.broker.controls
    async with dev_cluster.producer(circuit_breaker=breaker()) as producer:
        await producer.send_many(topic, [b"before"] * 10)
        controls.fail_next(ApiKey.PRODUCE, TopicAuthorizationFailedError, topic=topic, times=2)
        await fail(producer, topic, 2, TopicAuthorizationFailedError)
        values = await producer.send_many(topic, [b"refused"] * 100, return_exceptions=True)
        assert [type(one) for one in values] == [CircuitOpenError] * 100
        records = [ProducerRecord(topic, b"refused"), ProducerRecord(another, b"taken")]
        first, second = await producer.send_many(topic, records, return_exceptions=True)
        assert isinstance(first, CircuitOpenError)
        assert not isinstance(second, BaseException)
        table = pyarrow.table({"value": [b"refused"] * 10})
        metadata = await producer.send_arrow(topic, table, return_exceptions=True)
        assert {type(error) for error in metadata.failed.values()} == {CircuitOpenError}
        assert len(metadata.failed) == 10
        assert_accounts_balance(producer)
    assert await dev_cluster.log(topic) == [b"before"] * 10


async def test_a_circuit_is_its_topics_alone_or_the_producers(dev_cluster: DevCluster) -> None:
    topic, another = await dev_cluster.create_topic(), await dev_cluster.create_topic()
    controls = dev_cluster.broker.controls
    for scope in ("topic", "producer"):
        async with dev_cluster.producer(circuit_breaker=breaker(scope=scope)) as producer:
            controls.fail_next(ApiKey.PRODUCE, TopicAuthorizationFailedError, topic=topic, times=2)
            await fail(producer, topic, 2, TopicAuthorizationFailedError)
            is_ready, body = await readiness(producer, 5.0)
            (shown,) = body["open_circuits"]
            if scope == "topic":
                await producer.send(another, b"taken")
                assert is_ready
                assert (shown["topic"], shown["state"], shown["failures"]) == (topic, "open", 2)
            else:
                await fail(producer, another, 1, CircuitOpenError)
                assert not is_ready
                assert body["problem"] == shown["last_error"]
                assert shown["topic"] is None
            assert producer.statistics().circuit_openings == 1


async def test_a_fault_of_a_record_opens_nothing(dev_cluster: DevCluster) -> None:
    topic = await dev_cluster.create_topic(config={"max.message.bytes": "1000"})
    async with dev_cluster.producer(circuit_breaker=breaker()) as producer:
        for _ in range(5):
            with pytest.raises(RecordTooLargeError):
                await producer.send(topic, b"x" * 2_000)
        await producer.send(topic, b"taken")
        assert producer.statistics().circuits == ()


async def test_records_that_wait_when_it_opens_fail_with_it(dev_cluster: DevCluster) -> None:
    topic = await dev_cluster.create_topic()
    controls = dev_cluster.broker.controls
    async with dev_cluster.producer(
        circuit_breaker=breaker(failures=1), buffer_memory=2_000, max_request_size=1_500, max_block_ms=60_000
    ) as producer:
        await producer.send(topic, b"first")
        controls.fail_next(ApiKey.PRODUCE, TopicAuthorizationFailedError, topic=topic, times=1)
        sends = [asyncio.create_task(producer.send(topic, b"x" * 1_000, partition=0)) for _ in range(20)]
        outcomes = await asyncio.wait_for(asyncio.gather(*sends, return_exceptions=True), 20)
        kinds = {type(outcome) for outcome in outcomes}
        assert TopicAuthorizationFailedError in kinds
        assert CircuitOpenError in kinds
        assert BufferExhaustedError not in kinds
        assert_accounts_balance(producer, settled=True)


async def test_a_calls_own_time_counts(dev_cluster: DevCluster) -> None:
    topic = await dev_cluster.create_topic()
    async with dev_cluster.producer(circuit_breaker=breaker()) as producer:
        await producer.send(topic, b"before")
        dev_cluster.broker.controls.stall_connections(True)
        for _ in range(2):
            with pytest.raises(DeliveryTimeoutError):
                await producer.send(topic, b"late", delivery_timeout_ms=50)
        with pytest.raises(CircuitOpenError):
            await producer.send(topic, b"refused", delivery_timeout_ms=50)
        dev_cluster.broker.controls.stall_connections(False)
        await producer.flush(20)
        assert producer.statistics().circuits == ()  # a record in a request is delivered
        await producer.send(topic, b"taken")


async def test_a_topic_whose_metadata_never_comes_is_not_waited_for_again(dev_cluster: DevCluster) -> None:
    async with dev_cluster.producer(
        circuit_breaker=breaker(),
        max_block_ms=1_500,  # it is start()'s time too, on a machine with much else to do
        allow_auto_create_topics=False,
    ) as producer:
        await fail(producer, "no-such-topic", 2, MetadataTimeoutError)
        await fail(producer, "no-such-topic", 1, CircuitOpenError)


async def test_a_transaction_ends_with_the_refusal_and_a_later_one_is_the_probe(dev_cluster: DevCluster) -> None:
    topic = await dev_cluster.create_topic()
    controls = dev_cluster.broker.controls
    async with dev_cluster.producer(
        circuit_breaker=breaker(failures=1, open_ms=300), transactional_id="guarded"
    ) as producer:
        controls.fail_next(ApiKey.PRODUCE, TopicAuthorizationFailedError, topic=topic, times=1)
        with pytest.raises(TopicAuthorizationFailedError):
            async with producer.transaction():
                await producer.send(topic, b"lost")
        await producer.begin_transaction()
        with pytest.raises(CircuitOpenError):
            await producer.enqueue(topic, b"refused")
        with pytest.raises(CircuitOpenError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with asyncio.timeout(20):
            while producer.statistics().circuits:
                try:
                    async with producer.transaction():
                        await producer.send_many(topic, [b"taken"] * 3)
                except CircuitOpenError:
                    await asyncio.sleep(0.01)
