"""The limits of topics are known (``topic_limits``): too large a record fails early with the topic's own number,
batches are made to fit, and a limit that was changed meanwhile is not held against anybody for long.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.errors import InvalidTimestampError, RecordTooLargeError, TopicAuthorizationFailedError
from aiokafkapy.protocol.api import ApiKey
from tests.waiting import until

from .observing import assert_accounts_balance
from .proxied_clusters import Cluster, DevCluster

LIMIT = 2_000
TOPIC_RESOURCE, SET = 2, 0


def limit_of(producer: KafkaProducer[Any, Any], topic: str) -> int | None:
    limits = producer.statistics().topic_limits.get(topic)
    return None if limits is None else limits.max_message_bytes


async def alter(producer: KafkaProducer[Any, Any], topic: str, **options: Any) -> None:
    configs = [
        {"name": name.replace("_", "."), "config_operation": SET, "value": str(value)}
        for name, value in options.items()
    ]
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": configs}
    body = {"resources": [resource], "validate_only": False}
    answer = await producer.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, body)
    assert not answer.responses[0].error_code


async def test_a_record_that_the_topic_cannot_take_fails_at_its_call_and_all_else_is_written(cluster: Cluster) -> None:
    topic = await cluster.create_topic(config={"max.message.bytes": str(LIMIT)})
    values = [b"%06d" % number * 20 for number in range(200)]
    async with cluster.producer(topic_limits=True, linger_ms=50) as producer:
        await producer.send(topic, b"first")
        await until(lambda: limit_of(producer, topic) == LIMIT)
        for call in (producer.send, producer.enqueue):
            with pytest.raises(RecordTooLargeError, match=f"max.message.bytes of the topic, {LIMIT}") as raised:
                await call(topic, b"x" * LIMIT)
            assert (raised.value.limit, raised.value.topic) == (LIMIT, topic)
            assert raised.value.size is not None
            assert raised.value.size > LIMIT
        with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
            producer.send_nowait(topic, b"x" * LIMIT)
        await producer.send_many(topic, values)
        await asyncio.gather(*(producer.send(topic, value, key=b"k") for value in values))
        assert producer.metrics()["batch-split-total"] == 0  # each batch was made to fit
        assert producer.metrics()["record-error-total"] == 0
        assert_accounts_balance(producer)
    assert await cluster.log(topic) == [b"first", *values, *values]


async def test_the_largest_record_that_fits_is_written(cluster: Cluster) -> None:
    topic = await cluster.create_topic(config={"max.message.bytes": str(LIMIT)})
    async with cluster.producer(topic_limits=True) as producer:
        await producer.send(topic, b"first")
        await until(lambda: limit_of(producer, topic) == LIMIT)
        size = LIMIT
        while True:  # down to the byte that fits
            try:
                metadata = await producer.send(topic, b"x" * size)
            except RecordTooLargeError as error:
                size -= (error.size or 0) - LIMIT
            else:
                break
        assert metadata.offset == 1
        with pytest.raises(RecordTooLargeError):
            producer.send_nowait(topic, b"x" * (size + 1))


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
async def test_a_row_that_compression_makes_fit_is_written(cluster: Cluster, codec: Any) -> None:
    topic = await cluster.create_topic(config={"max.message.bytes": str(LIMIT)})
    async with cluster.producer(topic_limits=True, compression_type=codec) as producer:
        await producer.send(topic, b"first")
        await until(lambda: limit_of(producer, topic) == LIMIT)
        await producer.send(topic, bytes(500_000))
        assert producer.metrics()["record-error-total"] == 0
    assert await cluster.log(topic) == [b"first", bytes(500_000)]


async def test_a_limit_that_was_raised_refuses_nothing_a_second_after_the_first_refusal(cluster: Cluster) -> None:
    topic = await cluster.create_topic(config={"max.message.bytes": str(LIMIT)})
    async with cluster.producer(topic_limits=True) as producer:
        await producer.send(topic, b"first")
        await until(lambda: limit_of(producer, topic) == LIMIT)
        await alter(producer, topic, max_message_bytes=100_000)
        with pytest.raises(RecordTooLargeError):
            await producer.send(topic, b"x" * 50_000)
        await until(lambda: limit_of(producer, topic) == 100_000)
        assert (await producer.send(topic, b"x" * 50_000)).offset == 1


async def test_a_limit_that_was_raised_is_read_again_with_the_metadata(cluster: Cluster) -> None:
    topic = await cluster.create_topic(config={"max.message.bytes": str(LIMIT)})
    async with cluster.producer(topic_limits=True, metadata_max_age_ms=1_000) as producer:
        await producer.send(topic, b"first")
        await until(lambda: limit_of(producer, topic) == LIMIT)
        await alter(producer, topic, max_message_bytes=100_000)
        await until(lambda: limit_of(producer, topic) == 100_000)
        assert (await producer.send(topic, b"x" * 50_000)).offset == 1


async def test_a_limit_that_was_lowered_is_learnt_from_the_first_batch_that_is_refused(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    values = [b"%06d" % number * 20 for number in range(200)]
    async with cluster.producer(topic_limits=True, linger_ms=50) as producer:
        await producer.send(topic, b"first")
        await until(lambda: limit_of(producer, topic) == 1_048_588)
        await alter(producer, topic, max_message_bytes=LIMIT)
        await producer.send_many(topic, values)
        await until(lambda: limit_of(producer, topic) == LIMIT)
        splits = producer.metrics()["batch-split-total"]
        assert splits > 0
        await producer.send_many(topic, values)
        assert producer.metrics()["batch-split-total"] == splits
    assert await cluster.log(topic) == [b"first", *values, *values]


async def test_a_time_that_the_topic_does_not_take_fails_at_its_call(cluster: Cluster) -> None:
    topic = await cluster.create_topic(
        config={"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "3600000"}
    )
    now_ms = int(time.time() * 1000)
    async with cluster.producer(topic_limits=True) as producer:
        await producer.send(topic, b"first")
        await until(lambda: limit_of(producer, topic) is not None)
        for days in (-1, 1):
            with pytest.raises(InvalidTimestampError, match=r"message\.timestamp\.\w+\.max\.ms of topic .* is 3600000"):
                await producer.send(topic, b"refused", timestamp_ms=now_ms + days * 86_400_000)
        await producer.send(topic, b"taken", timestamp_ms=now_ms - 3_000_000)
        assert producer.metrics()["record-error-total"] == 0
    assert await cluster.log(topic) == [b"first", b"taken"]


async def test_acks_that_wait_for_too_few_replicas_are_reported_once(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await cluster.create_topic(config={"min.insync.replicas": "2"})
    async with cluster.producer(topic_limits=True, acks=1, metadata_max_age_ms=1_000) as producer:
        with caplog.at_level(logging.WARNING):
            await producer.send(topic, b"first")
            await until(lambda: limit_of(producer, topic) is not None)
            first = producer.statistics().topic_limits[topic]
            await until(lambda: producer.statistics().topic_limits[topic] != first)
    told = [record for record in caplog.records if record.getMessage().startswith("topic_limits.acks_mismatch")]
    assert len(told) == 1
    assert "acks=1 does not wait for the 2 replicas" in told[0].getMessage()


async def test_the_first_record_is_not_delayed_and_an_idle_topic_is_not_asked_about(dev_cluster: DevCluster) -> None:
    topic = await dev_cluster.create_topic()
    controls = dev_cluster.broker.controls
    order: list[int] = []
    for api in (ApiKey.PRODUCE, ApiKey.DESCRIBE_CONFIGS):
        controls.on_request(api, lambda *_, api=api: order.append(api))
    async with dev_cluster.producer(topic_limits=True, enable_idempotence=False) as producer:
        await producer.warm_up(topic)  # and without a producer id to wait for: the record leaves at once
        await producer.send(topic, b"first")
        await until(lambda: limit_of(producer, topic) is not None)
        await producer.send(topic, b"second")
    assert order == [ApiKey.PRODUCE, ApiKey.DESCRIBE_CONFIGS, ApiKey.PRODUCE]


async def test_without_the_option_nothing_is_asked(dev_cluster: DevCluster) -> None:
    topic = await dev_cluster.create_topic()
    async with dev_cluster.producer() as producer:
        await producer.send(topic, b"first")
        assert producer.statistics().topic_limits == {}
    assert dev_cluster.broker.controls.request_count(ApiKey.DESCRIBE_CONFIGS) == 0


async def test_a_client_that_may_not_read_configurations_has_no_limits(dev_cluster: DevCluster) -> None:
    topic = await dev_cluster.create_topic(config={"max.message.bytes": str(LIMIT)})
    controls = dev_cluster.broker.controls
    controls.fail_next(ApiKey.DESCRIBE_CONFIGS, TopicAuthorizationFailedError, times=1)
    async with dev_cluster.producer(topic_limits=True, metadata_max_age_ms=1_000) as producer:
        await producer.send(topic, b"first")
        await until(lambda: controls.request_count(ApiKey.DESCRIBE_CONFIGS) == 1)
        with pytest.raises(RecordTooLargeError, match="the broker refused a record"):
            await producer.send(topic, b"x" * LIMIT)
        assert producer.statistics().topic_limits == {}
    assert controls.request_count(ApiKey.DESCRIBE_CONFIGS) == 1


async def test_a_transaction_with_a_record_that_was_refused_can_only_be_aborted(cluster: Cluster) -> None:
    topic = await cluster.create_topic(config={"max.message.bytes": str(LIMIT)})
    async with cluster.producer(topic_limits=True, transactional_id=f"limits-{topic}") as producer:
        async with producer.transaction():
            await producer.send(topic, b"first")
        await until(lambda: limit_of(producer, topic) == LIMIT)
        await producer.begin_transaction()
        with pytest.raises(RecordTooLargeError):
            await producer.enqueue(topic, b"x" * LIMIT)
        with pytest.raises(RecordTooLargeError):
            await producer.commit_transaction()
        await producer.abort_transaction()
