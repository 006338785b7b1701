"""``linger_ms="auto"``: a lone record waits for nothing, a flood makes large batches, and quiet costs nothing."""

from __future__ import annotations

import asyncio

from aiokafkapy.protocol.api import ApiKey

from .observing import assert_accounts_balance
from .proxied_clusters import Cluster, DevCluster


async def test_a_flood_is_written_in_order_in_few_requests(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    values = [b"%06d" % number for number in range(20_000)]
    async with cluster.producer(linger_ms="auto") as producer:
        await producer.send(topic, b"first")
        deliveries = [await producer.enqueue(topic, value) for value in values]
        await asyncio.gather(*deliveries)
        assert producer.metrics()["produce-request-total"] < len(values) / 20
        assert_accounts_balance(producer, settled=True)
    assert await cluster.log(topic) == [b"first", *values]


async def test_tasks_that_each_await_are_all_served(cluster: Cluster) -> None:
    topic = await cluster.create_topic(partitions=3)
    async with cluster.producer(linger_ms="auto") as producer:

        async def user(number: int) -> None:
            for turn in range(20):
                await producer.send(topic, b"%d %d" % (number, turn), key=b"%d" % number)

        await asyncio.gather(*(user(number) for number in range(200)))
        assert_accounts_balance(producer, settled=True)
    values = await cluster.values(topic)
    assert sum(map(len, values.values())) == 4_000


async def test_quiet_costs_no_wake_up(dev_cluster: DevCluster) -> None:
    topic = await dev_cluster.create_topic()
    async with dev_cluster.producer(linger_ms="auto") as producer:
        await producer.send_many(topic, [b"value"] * 20_000)
        await asyncio.sleep(0.05)  # the last looks
        settled = producer.statistics().wake_ups
        await asyncio.sleep(0.2)
        assert producer.statistics().wake_ups == settled
        requests = dev_cluster.broker.controls.request_count(ApiKey.PRODUCE)
        await producer.send(topic, b"alone")
        assert dev_cluster.broker.controls.request_count(ApiKey.PRODUCE) == requests + 1
