"""With ``compression_type="auto"`` each topic gets the codec that pays, and every record arrives as it was."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, TopicOptions, errors
from aiokafkapy.protocol.api import ApiKey
from tests.waiting import until

from .observing import assert_accounts_balance, assert_nothing_is_left
from .proxied_clusters import Cluster, DevCluster


def order(number: int) -> bytes:
    return json.dumps(
        {"order": number, "customer": f"customer {number % 100}", "items": ["tea", "coffee"] * 5}
    ).encode()


async def sampled(producer: KafkaProducer[Any, Any], topic: str) -> str:
    await until(lambda: topic in producer.statistics().codecs)
    return producer.statistics().codecs[topic].codec


async def test_text_is_compressed_and_noise_is_not(cluster: Cluster) -> None:
    text, noise = await cluster.create_topic(), await cluster.create_topic()
    orders, random = [order(number) for number in range(2_000)], [os.urandom(1_000) for _ in range(200)]
    async with cluster.producer(compression_type="auto") as producer:
        await producer.send_many(text, orders)
        assert await sampled(producer, text) in ("lz4", "zstd")
        await asyncio.sleep(0.15)  # the pause between two samples
        await producer.send_many(noise, random)
        assert await sampled(producer, noise) == "none"
        before = producer.metrics()["byte-total"]
        await producer.send_many(text, orders)
        assert producer.metrics()["byte-total"] - before < 0.6 * sum(map(len, orders))
        choice = producer.statistics().codecs[text]
        assert 0 < choice.ratio < 0.6
        assert "none 20.0" in choice.why
        assert_accounts_balance(producer, settled=True)
    assert await cluster.log(text) == orders * 2
    assert await cluster.log(noise) == random


async def test_a_codec_that_brokers_refuse_is_given_up_and_no_record_fails(dev_cluster: DevCluster) -> None:
    topic = await dev_cluster.create_topic()
    orders = [order(number) for number in range(500)]
    async with dev_cluster.producer(compression_type="auto") as producer:
        await producer.send_many(topic, orders)
        refused = await sampled(producer, topic)
        dev_cluster.broker.controls.fail_next(ApiKey.PRODUCE, errors.UnsupportedCompressionTypeError)
        await producer.send_many(topic, orders)
        assert producer.statistics().codecs[topic].codec != refused
        assert producer.metrics()["record-retry-total"] > 0
        assert_accounts_balance(producer, settled=True)
    assert await dev_cluster.log(topic) == orders * 2


async def test_a_codec_that_was_asked_for_is_refused_to_its_records(dev_cluster: DevCluster) -> None:
    topic, other = await dev_cluster.create_topic(), await dev_cluster.create_topic()
    topics = {other: TopicOptions(compression_type="auto")}
    async with dev_cluster.producer(compression_type="gzip", topics=topics) as producer:
        dev_cluster.broker.controls.fail_next(ApiKey.PRODUCE, errors.UnsupportedCompressionTypeError)
        with pytest.raises(errors.UnsupportedCompressionTypeError):
            await producer.send(topic, b"x" * 1_000)


async def test_it_may_be_one_topics_own(dev_cluster: DevCluster) -> None:
    mine, other = await dev_cluster.create_topic(), await dev_cluster.create_topic()
    topics = {mine: TopicOptions(compression_type="auto")}
    async with dev_cluster.producer(topics=topics) as producer:
        for topic in (other, mine):
            await producer.send_many(topic, [order(number) for number in range(500)])
        assert await sampled(producer, mine) in ("lz4", "zstd")
        assert set(producer.statistics().codecs) == {mine}


async def test_closing_while_a_sample_is_measured_leaves_nothing(dev_cluster: DevCluster) -> None:
    topic = await dev_cluster.create_topic()
    async with dev_cluster.producer(compression_type="auto") as producer:
        await producer.send_many(topic, [order(number) for number in range(500)])
    assert_nothing_is_left(dev_cluster.net.ports)


async def test_without_it_nothing_is_sampled(dev_cluster: DevCluster) -> None:
    topic = await dev_cluster.create_topic()
    async with dev_cluster.producer(compression_type="lz4") as producer:
        await producer.send_many(topic, [order(number) for number in range(500)])
        assert producer.statistics().codecs == {}
