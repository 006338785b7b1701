"""Promise 8: metadata requests stay within outage / back-off + 1, for any number of records and partitions;
exponential back-off with jitter; about ten log lines a minute per broker; recovery within back-off + 1 round trip;
leader hints in Produce responses are used.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import logging
import re
import time
from collections import Counter
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.admin import TopicAdmin
from aiokafkapy.broker import DevBroker
from aiokafkapy.common import ExponentialBackoff, TopicPartition
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import encode_response
from aiokafkapy.reader.group_offsets import GroupOffsets
from aiokafkapy.testing.fault_proxy import Answer, Request
from tests.inside import coordinator_of, runtime_of
from tests.producers import SHORT, numbered, values
from tests.waiting import until

from .observing import assert_accounts_balance
from .proxied_clusters import ApacheCluster, Cluster, DevCluster

BACKOFF = 0.1
"""retry_backoff_ms, and its default."""


def lines_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The operator's view."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def outage(seconds: float) -> None:
    """The time that an outage takes."""
    await asyncio.sleep(seconds)


@pytest.mark.parametrize("error", [errors.NotLeaderOrFollowerError, errors.UnknownTopicOrPartitionError])
async def test_metadata_requests_do_not_grow_with_records_and_partitions(
    cluster: Cluster, error: type[errors.KafkaError]
) -> None:
    """Every Produce request of 24 partitions in 3 topics is refused for stale metadata, for two seconds."""
    topics = [await cluster.create_topic(partitions=8) for _ in range(3)]
    async with cluster.producer(retry_backoff_ms=100, retry_backoff_max_ms=100, linger_ms=0) as producer:
        for topic in topics:
            await producer.send(topic, b"first", partition=0)
        cluster.net.fail_produce(error, times=None)
        mark, started = cluster.net.mark(), time.monotonic()
        tasks = [
            asyncio.create_task(producer.send(topic, b"%d" % n, partition=n % 8))
            for topic in topics
            for n in range(1_000)
        ]
        await outage(2)
        seconds = time.monotonic() - started
        asked = cluster.net.request_count(ApiKey.METADATA, since=mark)
        produced = cluster.net.request_count(ApiKey.PRODUCE, since=mark)
        cluster.net.clear(ApiKey.PRODUCE)
        await asyncio.gather(*tasks)
    assert 1 <= asked <= seconds / BACKOFF + 1
    assert produced <= 24 * (seconds / (0.8 * BACKOFF) + 2), "retries back off too"


async def test_metadata_requests_back_off_while_there_is_no_leader(dev_cluster: DevCluster) -> None:
    """Exponentially, to a second. Dev broker only: Apache Kafka leaves no partition leaderless at a test's word."""
    topic = await dev_cluster.create_topic(partitions=30)
    async with dev_cluster.producer() as producer:
        await asyncio.gather(*(producer.send(topic, b"", partition=n) for n in range(30)))
        for n in range(30):
            dev_cluster.broker.controls.set_leader(topic, n, None)
        mark, started = dev_cluster.net.mark(), time.monotonic()
        tasks = [asyncio.create_task(producer.send(topic, b"", partition=n % 30)) for n in range(3_000)]
        await outage(2.5)
        seconds = time.monotonic() - started
        asked = dev_cluster.net.requests_of(ApiKey.METADATA, since=mark)
        for n in range(30):
            dev_cluster.broker.controls.set_leader(topic, n, 1)
        mark = dev_cluster.net.mark()
        await asyncio.gather(*tasks)
        assert dev_cluster.net.request_count(ApiKey.METADATA, since=mark) <= 2, "the next one finds them"
    assert 2 <= len(asked) <= seconds / BACKOFF + 1
    assert len(asked) <= 14, "it slows down"


async def test_metadata_requests_for_a_topic_that_is_not_there_stay_few(cluster3: Cluster) -> None:
    await cluster3.create_topic()
    async with cluster3.producer() as producer:
        mark, started = cluster3.net.mark(), time.monotonic()
        tasks = [
            asyncio.create_task(producer.send(f"promise-missing-{n % 20}", b"", partition=n % 7)) for n in range(2_000)
        ]
        await outage(1.5)
        asked = cluster3.net.request_count(ApiKey.METADATA, since=mark)
        assert 2 <= asked <= (time.monotonic() - started) / BACKOFF + 1
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_metadata_that_fails_is_asked_for_with_back_off(cluster: Cluster) -> None:
    """Answers to Metadata are lost, one connection after the other."""
    topic = await cluster.create_topic()
    async with cluster.producer(reconnect_backoff_ms=10, reconnect_backoff_max_ms=10) as producer:
        await producer.send(topic, b"")
        cluster.net.drop_next(ApiKey.METADATA, times=None)
        mark, started = cluster.net.mark(), time.monotonic()
        tasks = [asyncio.create_task(producer.send("promise-other", b"")) for _ in range(500)]
        await outage(1.5)
        seconds = time.monotonic() - started
        asked = cluster.net.request_count(ApiKey.METADATA, since=mark)
        cluster.net.clear(ApiKey.METADATA)
        await asyncio.gather(*tasks)
    assert 2 <= asked <= seconds / (0.8 * BACKOFF) + 1


async def test_reconnects_back_off_exponentially_with_jitter(cluster: Cluster) -> None:
    """50 ms, doubling to 400 ms at most, and 20 % more or less; seen where connections are accepted and cut."""
    topic = await cluster.create_topic()
    options: dict[str, Any] = {"reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 400}
    async with cluster.producer(**options) as producer:
        await producer.send(topic, b"")
        cluster.net.drop_next(ApiKey.API_VERSIONS, after=False, times=None)
        cluster.net.cut()
        before = len(cluster.net.connected_at())
        task = asyncio.create_task(producer.send(topic, b""))
        await cluster.net.until(lambda: len(cluster.net.connected_at()) >= before + 14)
        cluster.net.clear(ApiKey.API_VERSIONS)
        await task
    # The leader's connection and the bootstrap one are tried side by side: each has its own back-off.
    tried = cluster.net.connected_at()[before:]
    gaps = [after - at for at, after in zip(tried, tried[2:], strict=False)]
    assert min(gaps[-5:]) < 0.4 * 1.2 + 0.1, "and no further: 0.64 s would be the least"
    assert min(gaps) >= 0.05 * 0.8 * 0.9
    assert min(gaps[-5:]) > 0.15, "it grows"
    # Only growing delays: the last ones may all be cut to the maximum. One node's are not compared with the other's:
    # where the machine stands still, both are tried in the same turn of the loop.
    assert max(abs(gap - base) for gap, base in zip(gaps, (0.1, 0.1, 0.2, 0.2), strict=False)) > 0.002, "jitter"


async def test_recovery_comes_within_the_back_off(cluster: Cluster) -> None:
    topic = await cluster.create_topic(partitions=3)
    options: dict[str, Any] = {"reconnect_backoff_max_ms": 300, "retry_backoff_max_ms": 300}
    async with cluster.producer(**options) as producer:
        await producer.send(topic, b"")
        for seconds in (0.7, 1.4, 2.0):
            cluster.net.go_down()
            tasks = [asyncio.create_task(producer.send(topic, b"", partition=n % 3)) for n in range(100)]
            await outage(seconds)
            assert not any(task.done() for task in tasks)
            await cluster.net.come_back()
            back = time.monotonic()
            await asyncio.gather(*tasks)
            assert time.monotonic() - back < 8, "the next longer wait is a request's time-out, of ten seconds"


async def test_a_leader_hint_is_used_without_asking_for_metadata(cluster3: Cluster) -> None:
    """KIP-951. No answer to a Metadata request comes; the record is delivered all the same, at once."""
    topic = await cluster3.create_topic(partitions=1)
    await _prepare_to_move_the_leader(cluster3, topic)
    # Without a producer id: a broker that is asked for its first one wants to be asked again, after the back-off.
    back_off = {"retry_backoff_ms": 40_000, "retry_backoff_max_ms": 40_000, "delivery_timeout_ms": 80_000}
    async with cluster3.producer(linger_ms=0, enable_idempotence=False, **back_off) as producer:
        await producer.send(topic, b"first")
        old = await cluster3.leader_of(topic)
        await _move_the_leader(cluster3, topic)
        new = await cluster3.leader_of(topic)
        assert new != old
        hold = cluster3.net.hold(ApiKey.METADATA)
        mark = cluster3.net.mark()
        # In less than the back-off: neither that nor metadata was waited for.
        assert (await asyncio.wait_for(producer.send(topic, b"moved"), 30)).offset == 1
        assert [request.node_id for request in cluster3.net.requests_of(ApiKey.PRODUCE, since=mark)] == [old, new]
        hold.release()
    assert await cluster3.log(topic) == [b"first", b"moved"]


async def _prepare_to_move_the_leader(cluster: Cluster, topic: str) -> None:
    """On Apache Kafka, let a node lead that is not the preferred one, so that an election changes the leader."""
    if isinstance(cluster, ApacheCluster):
        preferred = await cluster.leader_of(topic)
        await cluster.kafka.stop(preferred)
        await cluster.kafka.start(preferred)
        admin = cluster.kafka.admin
        await asyncio.to_thread(
            admin.wait_until, lambda: preferred in admin.partitions(topic)[0].in_sync_replicas, 20, "it is not in sync"
        )


async def _move_the_leader(cluster: Cluster, topic: str) -> None:
    """Another node leads the partition, and nobody tells the producer."""
    if isinstance(cluster, DevCluster):
        leader = await cluster.leader_of(topic)
        cluster.broker.controls.set_leader(topic, 0, 1 + leader % 3)
        return
    assert isinstance(cluster, ApacheCluster)
    assert await cluster.kafka.elect_leaders(topic) == [0]
    await cluster.log(topic)  # it answers as the leader


async def test_a_connection_that_died_silently_costs_one_request_timeout(cluster: Cluster) -> None:
    """A load balancer forgot it while it was idle: bytes go nowhere, nobody says so. A new one works."""
    topic = await cluster.create_topic()
    async with cluster.producer(request_timeout_ms=6_000, linger_ms=0) as producer:
        await producer.send(topic, b"first")
        links = cluster.net.requests[-1].connection
        cluster.net.on_request(
            ApiKey.PRODUCE,
            lambda request: Answer(forward=False, lose=True) if request.connection <= links else None,
        )
        cluster.net.on_request(
            ApiKey.METADATA,
            lambda request: Answer(forward=False, lose=True) if request.connection <= links else None,
        )
        started = time.monotonic()
        assert (await producer.send(topic, b"second")).offset == 1
        assert time.monotonic() - started < 2 * 6, "a second time-out"
    assert await cluster.log(topic) == [b"first", b"second"]


@pytest.mark.parametrize("trouble", ["down", "cut at once", "errors"])
async def test_an_outage_fills_no_log(cluster: Cluster, caplog: pytest.LogCaptureFixture, trouble: str) -> None:
    """Back-offs of 10 ms make in three seconds as many failures as the defaults in minutes."""
    caplog.set_level(logging.INFO)
    topic = await cluster.create_topic(partitions=5)
    quick = dict.fromkeys(
        ("retry_backoff_ms", "retry_backoff_max_ms", "reconnect_backoff_ms", "reconnect_backoff_max_ms"), 10
    )
    async with cluster.producer(**quick, linger_ms=0) as producer:
        await producer.send(topic, b"")
        if trouble == "down":
            cluster.net.go_down()
        elif trouble == "cut at once":
            cluster.net.drop_next(ApiKey.API_VERSIONS, after=False, times=None)
            cluster.net.cut()
        else:
            cluster.net.fail_produce(errors.NotLeaderOrFollowerError, times=None)
        tasks = [asyncio.create_task(producer.send(topic, b"", partition=n % 5)) for n in range(1_000)]
        await outage(3)
        before = lines_in(caplog)
        await cluster.net.come_back()
        cluster.net.clear(ApiKey.API_VERSIONS)
        cluster.net.clear(ApiKey.PRODUCE)
        await asyncio.gather(*tasks)
    by_event = Counter(line.split()[0] for line in before)
    assert before, "an outage is told"
    assert len(before) <= 16, by_event
    assert all(count <= 8 for count in by_event.values()), by_event
    infos = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    if trouble != "errors":
        assert any(re.search(r"connection\.ready.*suppressed=\d\d", line) for line in infos), (
            "its end is told, and how much was not"
        )


async def test_ordinary_life_is_silent(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    topic = await cluster.create_topic(partitions=3)
    caplog.set_level(logging.DEBUG)
    async with cluster.producer() as producer:
        await asyncio.gather(*(producer.send(topic, b"", partition=n % 3) for n in range(2_000)))
        await producer.flush()
    assert lines_in(caplog) == []
    assert len([record for record in caplog.records if record.name.startswith("aiokafkapy")]) < 30, (
        "per connection at most"
    )


async def test_brokers_that_all_vanish_are_found_again_through_the_bootstrap_addresses(cluster: Cluster) -> None:
    """Metadata names a node that is not there any more; the bootstrap address still answers."""
    topic = await cluster.create_topic()
    async with cluster.producer(metadata_recovery_rebootstrap_trigger_ms=500, reconnect_backoff_max_ms=100) as producer:
        await producer.send(topic, b"first")

        def elsewhere(request: Request, _: bytes) -> bytes:
            brokers = [{"node_id": 77, "host": "127.0.0.1", "port": 1}]
            return request.respond(brokers=brokers, topics=[], controller_id=77)

        cluster.net.answer_next(ApiKey.METADATA, Answer(forward=False, replace=elsewhere))
        await producer.partitions_for(await cluster.create_topic())
        assert (await producer.send(topic, b"second")).offset == 1


async def test_records_of_a_quiet_partition_survive_its_brokers_restart(cluster: Cluster) -> None:
    """The broker is gone and back while nobody sends."""
    topic = await cluster.create_topic()
    async with cluster.producer() as producer:
        await producer.send(topic, b"before")
        await cluster.crash(1)
        await cluster.restart(1)
        assert (await producer.send(topic, b"after")).offset == 1
        assert_accounts_balance(producer, settled=True)
    assert await cluster.log(topic) == [b"before", b"after"]


async def test_throttling_is_obeyed_by_the_client(cluster: Cluster) -> None:
    """A broker that says so is left alone for as long; others would not be."""
    topic = await cluster.create_topic()
    async with cluster.producer(linger_ms=0) as producer:
        await producer.send(topic, b"")

        def throttled(request: Request, frame: bytes) -> bytes:
            return _with_throttle_time(request, frame, 700)

        cluster.net.answer_next(ApiKey.PRODUCE, Answer(replace=throttled))
        await producer.send(topic, b"")
        mark, started = cluster.net.mark(), time.monotonic()
        await producer.send(topic, b"")
        assert cluster.net.requests_of(ApiKey.PRODUCE, since=mark)[0].at - started > 0.6
        assert time.monotonic() - started < 9, "a request's time-out is ten"


def _with_throttle_time(request: Request, frame: bytes, ms: int) -> bytes:
    body = dataclasses.replace(request.decode(frame), throttle_time=datetime.timedelta(milliseconds=ms))
    return encode_response(body, request.correlation_id)


async def test_a_hundred_thousand_records_of_a_thousand_partitions_request_metadata_no_more_often(
    cluster: Cluster,
) -> None:
    """All of them wait through an outage in which every Produce request is refused for stale metadata."""
    topic = await cluster.create_topic(partitions=1_000)
    async with cluster.producer(retry_backoff_ms=100, retry_backoff_max_ms=100, delivery_timeout_ms=60_000) as producer:
        await producer.send(topic, b"first", partition=0)
        cluster.net.fail_produce(errors.NotLeaderOrFollowerError, times=None)
        mark, started = cluster.net.mark(), time.monotonic()
        deliveries = [await producer.enqueue(topic, b"%d" % n, partition=n % 1_000) for n in range(100_000)]
        await outage(1)
        await cluster.net.seen(ApiKey.METADATA, 3, since=mark)
        seconds = time.monotonic() - started
        asked = cluster.net.request_count(ApiKey.METADATA, since=mark)
        assert not any(delivery.done() for delivery in deliveries)
        cluster.net.clear(ApiKey.PRODUCE)
        await asyncio.gather(*deliveries)
        assert_accounts_balance(producer, settled=True)
    assert 3 <= asked <= seconds / BACKOFF + 1
    logs = await cluster.values(topic)
    assert all(log == [b"first"] * (n == 0) + [b"%d" % m for m in range(n, 100_000, 1_000)] for n, log in logs.items())


async def test_an_admins_change_goes_to_the_next_controller_when_one_is_lost() -> None:
    """The admin waited for the old controller until its time was over, while it knew the next one."""
    async with DevBroker(nodes=3) as broker, TopicAdmin(broker.bootstrap_servers) as admin:
        await admin.create("first")
        controller = admin.metadata.cluster.controller
        assert controller is not None
        broker.controls.stop_node(controller.node_id)
        await admin.create("second", partitions=1)


async def test_offsets_are_committed_at_the_next_coordinator_when_one_is_lost() -> None:
    async with DevBroker(nodes=3) as broker, KafkaProducer(broker.bootstrap_servers) as producer:
        broker.create_topic("t")
        runtime = runtime_of(producer)
        client = runtime.client
        offsets = GroupOffsets(client, ExponentialBackoff(0.05, 0.1))
        await offsets.commit("g", {TopicPartition("t", 0): 1}, 10)
        coordinator = coordinator_of(offsets, "g")
        broker.controls.stop_node(coordinator.node_id)
        while not client.nodes.connection_failed(coordinator):
            await client.wait_for_change()
        await offsets.commit("g", {TopicPartition("t", 0): 2}, 10)


async def test_an_outage_of_all_brokers_is_survived_and_the_log_stays_short(
    broker: DevBroker, caplog: pytest.LogCaptureFixture
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
async def test_a_broker_without_an_address_is_waited_for(host: str, port: int) -> None:
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


async def test_a_topic_made_soon_after_the_first_send_is_found_by_the_next_request() -> None:
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
