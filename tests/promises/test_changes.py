"""Promises 4 and 8 while the cluster changes: topics that come, go and grow, nodes that move, and another cluster in
the place of ours. Each time the producer finds its way by itself, and no record goes where it does not belong.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import socket
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.admin import TopicAdmin
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import encode_response
from aiokafkapy.testing.fault_proxy import Answer, FaultProxy, Request
from tests.loops import is_on_uvloop

from .observing import assert_accounts_balance
from .proxied_clusters import Cluster, new_name

QUICK: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 20, "reconnect_backoff_ms": 10}
NAME = "kafka.promise.test"


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, end)]


async def test_a_topic_deleted_and_made_again_is_written_on_in_order(cluster: Cluster) -> None:
    """Our sequences begin again: the new partition knows nothing of us, and offsets start at 0."""
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK) as producer, TopicAdmin(cluster.direct_servers) as admin:
        for value in numbered(0, 20):
            await producer.send(topic, value)
        await admin.delete(topic)
        await admin.create(topic, partitions=1)
        results = await asyncio.gather(*(producer.send(topic, value) for value in numbered(20, 300)))
        assert [result.offset for result in results] == list(range(280))
        assert_accounts_balance(producer, settled=True)
    assert await cluster.log(topic) == numbered(20, 300)


async def test_a_topic_made_after_its_first_records_were_sent_gets_them_in_order(cluster3: Cluster) -> None:
    topic = new_name()
    async with cluster3.producer(**QUICK) as producer, TopicAdmin(cluster3.direct_servers) as admin:
        mark = cluster3.net.mark()
        tasks = [asyncio.create_task(producer.send(topic, value, partition=0)) for value in numbered(0, 500)]
        await cluster3.net.seen(ApiKey.METADATA, 2, since=mark)
        await admin.create(topic, partitions=1)
        results = await asyncio.gather(*tasks)
        assert [result.offset for result in results] == list(range(500))
    assert (await cluster3.log(topic)) == numbered(0, 500)


async def test_partitions_that_are_added_are_written_to_without_a_restart(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK, metadata_max_age_ms=200) as producer:
        await producer.send(topic, b"0", partition=0)
        async with TopicAdmin(cluster.direct_servers) as admin:
            await admin.create_partitions(topic, 4)
        # Nobody tells us: metadata is asked for again at its maximum age, and a record may wait for that.
        assert [(await producer.send(topic, b"new", partition=n)).partition for n in (3, 1, 2)] == [3, 1, 2]
        assert len(await producer.partitions_for(topic)) == 4
        used = {(await producer.send(topic, b"", key=b"%d" % n)).partition for n in range(40)}
        assert used == {0, 1, 2, 3}


async def test_a_node_at_a_new_address_is_followed_there(cluster: Cluster) -> None:
    """The same broker behind another port, as when its container was moved: Metadata says so, the old one is closed."""
    topic = await cluster.create_topic()
    async with FaultProxy(cluster.direct_servers) as elsewhere:
        (port,) = elsewhere.ports

        def at_its_new_address(request: Request, frame: bytes) -> bytes:
            answer = request.decode(frame)
            brokers = tuple(dataclasses.replace(broker, port=port) for broker in answer.brokers)
            return encode_response(dataclasses.replace(answer, brokers=brokers), request.correlation_id)

        async with cluster.producer(**QUICK, metadata_max_age_ms=200) as producer:
            await asyncio.gather(*(producer.send(topic, value) for value in numbered(0, 10)))
            cluster.net.on_request(ApiKey.METADATA, lambda _: Answer(replace=at_its_new_address))
            await cluster.net.seen(ApiKey.METADATA, since=cluster.net.mark())
            answered = cluster.net.answers_sent
            await cluster.net.until(lambda: cluster.net.answers_sent > answered)
            cluster.net.go_down()
            results = await asyncio.gather(*(producer.send(topic, value) for value in numbered(10, 20)))
            assert [result.offset for result in results] == list(range(10, 20))
            assert elsewhere.request_count(ApiKey.PRODUCE) >= 1
            assert [node.port for node in producer.statistics().nodes] == [port]
    assert await cluster.log(topic) == numbered(0, 20)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The addresses of names, to be changed by the test."""
    names: dict[str, str] = {}
    original = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        return original(names.get(host, host), *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return names


async def test_a_bootstrap_name_that_resolves_elsewhere_leads_to_the_new_brokers(
    cluster: Cluster, resolver: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """All brokers are replaced by a new cluster, where somebody else has the producer id that was ours, and has
    written under it the very sequences that come next: nothing of ours may be taken for theirs.
    """
    if is_on_uvloop():
        pytest.skip("uvloop asks the system by itself")
    topic = await cluster.create_topic()
    (port,) = cluster.net.ports
    resolver[NAME] = "127.0.0.1"
    options: dict[str, Any] = {"delivery_timeout_ms": 20_000, "request_timeout_ms": 10_000}
    async with KafkaProducer(f"{NAME}:{port}", **QUICK, **options) as producer:
        for value in numbered(0, 3):
            await producer.send(topic, value)
        async with DevBroker(host="127.0.0.2", port=port) as replacement:
            replacement.create_topic(topic, partitions=1)
            async with KafkaProducer(replacement.bootstrap_servers, linger_ms=0) as other:
                for n in range(6):
                    await other.send(topic, b"other %d" % n)
                if cluster.kind == "dev":
                    assert other.statistics().producer_id == producer.statistics().producer_id
            cluster.net.go_down()
            resolver[NAME] = "127.0.0.2"
            results = [await producer.send(topic, value) for value in numbered(3, 6)]
            assert [result.offset for result in results] == [6, 7, 8]
            written = [record.value for record in replacement.records(topic, 0)]
            assert_accounts_balance(producer, settled=True)
    assert written == [b"other %d" % n for n in range(6)] + numbered(3, 6)
    assert await cluster.log(topic) == numbered(0, 3)
    (line,) = [record.getMessage() for record in caplog.records if "producer.cluster_changed" in record.getMessage()]
    assert line.count("=") >= 2, "both clusters are named"


async def test_a_wrong_cluster_behind_a_nodes_address_gets_no_record(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """KIP-1242. An address was given to a broker of somebody else's cluster, which has a topic of the same name. The
    bootstrap addresses are still ours: they are gone back to, and nothing that the stranger says is believed.
    """
    caplog.set_level(logging.WARNING)
    topic = await cluster.create_topic()
    async with DevBroker() as stranger, cluster.producer(**QUICK, metadata_max_age_ms=300) as producer:
        stranger.create_topic(topic, partitions=1)
        await asyncio.gather(*(producer.send(topic, value) for value in numbered(0, 10)))
        there = stranger.nodes[0]
        misled = 0

        def stranger_answers(request: Request, frame: bytes) -> bytes:
            nonlocal misled
            misled += 1
            answer = request.decode(frame)
            brokers = tuple(dataclasses.replace(broker, port=there.port) for broker in answer.brokers)
            foreign = dataclasses.replace(answer, brokers=brokers, cluster_id="somebody-elses")
            return encode_response(foreign, request.correlation_id)

        cluster.net.answer_next(ApiKey.METADATA, Answer(replace=stranger_answers), times=1)
        await cluster.net.seen(ApiKey.METADATA, 2, since=cluster.net.mark())
        results = await asyncio.gather(*(producer.send(topic, value) for value in numbered(10, 20)))
        assert misled == 1
        assert [result.offset for result in results] == list(range(10, 20))
        assert stranger.records(topic, 0) == []
        assert producer.statistics().producer_epoch == 0
        assert_accounts_balance(producer, settled=True)
    assert await cluster.log(topic) == numbered(0, 20)
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if "metadata.rebootstrap" in line and "somebody-elses" in line]
    assert not [line for line in lines if "producer.cluster_changed" in line], "it is ours again"


async def test_metadata_of_an_older_epoch_does_not_lead_away_from_the_leader(cluster3: Cluster) -> None:
    """The leader refuses for a moment, FENCED_LEADER_EPOCH, and metadata names the leader of an older epoch."""
    topic = await cluster3.create_topic()
    leader = await cluster3.leader_of(topic)
    other = next(node_id for node_id in (1, 2, 3) if node_id != leader)
    cluster3.net.on_request(ApiKey.METADATA, lambda _: Answer(replace=of_epoch(5)))
    async with cluster3.producer(**QUICK) as producer:
        await producer.send(topic, b"0")
        cluster3.net.on_request(ApiKey.METADATA, lambda _: Answer(replace=of_epoch(4, other)))
        cluster3.net.fail_produce(errors.FencedLeaderEpochError, times=3)
        mark = cluster3.net.mark()
        assert (await producer.send(topic, b"1")).offset == 1
        asked = cluster3.net.requests_of(ApiKey.PRODUCE, since=mark)
        assert [request.node_id for request in asked] == [leader] * 4
        await cluster3.net.seen(ApiKey.METADATA, since=mark)
        assert producer.statistics().producer_epoch == 0
    assert await cluster3.log(topic) == [b"0", b"1"]


def of_epoch(epoch: int, leader: int | None = None) -> Callable[[Request, bytes], bytes]:
    """The answer to Metadata with this leader epoch for each partition, and another leader."""

    def replace(request: Request, frame: bytes) -> bytes:
        answer = request.decode(frame)
        changes = {"leader_epoch": epoch} | ({} if leader is None else {"leader_id": leader})
        topics = tuple(
            dataclasses.replace(
                each, partitions=tuple(dataclasses.replace(partition, **changes) for partition in each.partitions)
            )
            for each in answer.topics
        )
        return encode_response(dataclasses.replace(answer, topics=topics), request.correlation_id)

    return replace


async def test_a_leader_that_is_gone_for_good_is_succeeded_and_nothing_is_lost(cluster3: Cluster) -> None:
    topic = await cluster3.create_topic(partitions=3)
    values = numbered(0, 3_000)
    async with cluster3.producer(linger_ms=0, batch_size=2_000, delivery_timeout_ms=120_000) as producer:
        tasks = []
        for n, value in enumerate(values):
            tasks.append(asyncio.create_task(producer.send(topic, value, partition=n % 3)))
            if n % 50 == 0:
                await asyncio.sleep(0)
            if n == 1_500:
                await tasks[30]
                gone = await cluster3.leader_of(topic, 0)
                await cluster3.crash(gone)
        await asyncio.gather(*tasks)
        assert await cluster3.leader_of(topic, 0) != gone
        assert_accounts_balance(producer, settled=True)
    await cluster3.restart(gone)
    logs = await cluster3.values(topic)
    assert logs == {partition: values[partition::3] for partition in range(3)}
