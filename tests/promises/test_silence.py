"""Promises 2 and 8 where a connection is open and says nothing, or ends at the moment it is written to: that costs one
time-out, only for requests to that broker, and is never an error while there is time to try again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.fault_proxy import Answer, Hold, Request

from .observing import assert_accounts_balance
from .proxied_clusters import Cluster

QUICK: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 20, "reconnect_backoff_ms": 10}
# Longer than a healthy broker takes for an answer on a busy machine: only a silent broker may be timed out.
ONE_TIMEOUT: dict[str, Any] = QUICK | {"request_timeout_ms": 4_000, "socket_connection_setup_timeout_ms": 4_000}


class Mute:
    """Lets one node never answer an API: the one named, or else the first that is asked. As answers keep their order,
    nothing that comes after on the same connection is answered either.
    """

    def __init__(self, cluster: Cluster, api: ApiKey, node_id: int | None = None) -> None:
        self.node_id = node_id
        self.links: list[int] = []
        cluster.net.on_request(api, self._rule)

    def _rule(self, request: Request) -> Answer | None:
        if self.node_id is None:
            self.node_id = request.node_id
        if request.node_id != self.node_id:
            return None
        self.links.append(request.connection)
        return Answer(forward=False, hold=Hold())


async def three_leaders(cluster: Cluster) -> tuple[str, dict[int, int]]:
    """A topic with a partition on each node, and a proxy that has heard which node is behind which address."""
    topic = await cluster.create_topic(partitions=3)
    async with cluster.producer() as first:
        await first.partitions_for(topic)
    leaders = {partition: await cluster.leader_of(topic, partition) for partition in range(3)}
    assert len(set(leaders.values())) == 3
    return topic, leaders


@pytest.mark.parametrize("api", [ApiKey.API_VERSIONS, ApiKey.PRODUCE])
async def test_a_leader_that_never_answers_costs_its_own_partitions_one_time_out(
    cluster3: Cluster, api: ApiKey
) -> None:
    topic, leaders = await three_leaders(cluster3)
    mute = Mute(cluster3, api, leaders[0])
    async with cluster3.producer(**ONE_TIMEOUT) as producer:
        started = time.monotonic()
        waiting = asyncio.create_task(producer.send(topic, b"0", partition=0))
        await cluster3.net.until(lambda: bool(mute.links))
        for n in range(20):
            await asyncio.gather(*(producer.send(topic, b"%d" % n, partition=other) for other in (1, 2)))
        assert not waiting.done(), "the others were served while it waited"
        cluster3.net.clear(api)
        unanswered = len(mute.links)
        # The bootstrap address is a connection of its own, so ApiVersions may be waited for on two connections at a
        # time.
        at_a_time = 2 if api == ApiKey.API_VERSIONS else 1
        timed_out = int((time.monotonic() - started) / (ONE_TIMEOUT["request_timeout_ms"] / 1_000))
        assert unanswered == len(set(mute.links)) <= at_a_time * (timed_out + 1)
        assert (await waiting).offset == 0
        assert len(mute.links) == unanswered, "no time-out after the broker answers again"
        assert_accounts_balance(producer, settled=True)
    others = [b"%d" % n for n in range(20)]
    assert await cluster3.values(topic) == {0: [b"0"], 1: others, 2: others}


@pytest.mark.parametrize("api", [ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID])
async def test_a_broker_that_never_answers_a_request_for_any_broker_is_not_asked_again(
    cluster3: Cluster, api: ApiKey
) -> None:
    """After one time-out another broker is asked, although the first goes on accepting connections. While the first is
    known by its bootstrap address, it may be asked a second time by its id: nobody knows then that both are one.
    """
    topic, leaders = await three_leaders(cluster3)
    later = await cluster3.create_topic()
    mute = Mute(cluster3, api)
    async with cluster3.producer(**ONE_TIMEOUT) as producer:
        results = await asyncio.gather(*(producer.send(topic, b"", partition=n % 3) for n in range(30)))
        assert len(results) == 30
        assert 1 <= len(mute.links) <= 2
        if api == ApiKey.METADATA:
            mute = Mute(cluster3, api)
            unknown = asyncio.create_task(producer.send(later, b""))
            await cluster3.net.until(lambda: bool(mute.links))
            others = [partition for partition, leader in leaders.items() if leader != mute.node_id]
            await asyncio.gather(*(producer.send(topic, b"", partition=others[n % 2]) for n in range(30)))
            assert not unknown.done(), "a known topic needs no metadata"
            assert (await unknown).offset == 0
            assert len(mute.links) == 1
        assert_accounts_balance(producer, settled=True)


async def test_a_broker_that_closes_during_a_write_causes_no_visible_error(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker's own idle close while a request is on its way: it never sees the request."""
    caplog.set_level(logging.ERROR)
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK) as producer:
        for n in range(0, 30, 3):
            assert (await producer.send(topic, b"%d" % n)).offset == n
            cluster.net.answer_next(ApiKey.PRODUCE, Answer(forward=False, lose=True, cut=True))
            assert (await producer.send(topic, b"%d" % (n + 1))).offset == n + 1
            cluster.net.cut()  # in the same turn of the loop as the write
            assert (await producer.send(topic, b"%d" % (n + 2))).offset == n + 2
        assert producer.statistics().producer_epoch == 0
        assert_accounts_balance(producer, settled=True)
    assert await cluster.log(topic) == [b"%d" % n for n in range(30)]
    assert caplog.records == []


async def test_our_own_idle_close_racing_with_a_write_surfaces_no_error(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Connections are idle after a millisecond: each write meets one that was closed just now, or is about to be."""
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK, connections_max_idle_ms=1) as producer:
        assert (await producer.send(topic, b"0")).offset == 0
        caplog.clear()  # a broker that has just started says so
        for n in range(1, 150):
            assert (await producer.send(topic, b"%d" % n)).offset == n
            for _ in range(n % 30):
                await asyncio.sleep(0)
            if n % 30 == 29:
                await cluster.net.until(lambda: not cluster.net.connection_count())
        assert_accounts_balance(producer, settled=True)
    assert len(cluster.net.connected_at()) > 5, "connections were closed"
    assert await cluster.log(topic) == [b"%d" % n for n in range(150)]
    assert caplog.records == []
