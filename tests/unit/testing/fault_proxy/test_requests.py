"""The requests that went through are counted and kept."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import FaultProxy

from .harness import METADATA_VERSION, Connect, metadata_of


async def test_requests_are_counted_and_kept(proxy: FaultProxy, connect: Connect) -> None:
    client = await connect(proxy)
    assert proxy.connection_count() == 1
    mark = proxy.mark()
    waiting = asyncio.ensure_future(proxy.seen(ApiKey.METADATA, 2, since=mark))
    await metadata_of(client)
    assert not waiting.done()
    await metadata_of(client)
    request = await waiting
    assert request is proxy.requests[-1]
    assert (request.version, request.header.client_id, request.connection) == (METADATA_VERSION, "test", 1)
    assert request.body.topics is None
    assert proxy.request_count(ApiKey.METADATA) == proxy.request_count(3) == 2
    # The bootstrap address was nobody's until its first answer.
    assert [request.node_id for request in proxy.requests] == [None, 1]
    assert proxy.request_count(ApiKey.METADATA, 1) == 1
    assert proxy.request_count(ApiKey.METADATA, 2) == 0
    assert (proxy.answers_received, proxy.answers_sent) == (2, 2)
    with pytest.raises(TimeoutError):
        await proxy.seen(ApiKey.METADATA, 3, timeout=0.01)
    with pytest.raises(ValueError, match="count=0: write 1 or more"):
        await proxy.seen(ApiKey.METADATA, 0)


async def test_the_batches_of_a_producer_are_seen(proxy: FaultProxy) -> None:
    async with KafkaProducer(proxy.bootstrap_servers) as producer:
        await producer.send("t", b"a", partition=1)
        await asyncio.gather(*(producer.send("t", b"b", partition=1) for _ in range(3)))
    first, *others = proxy.batches()
    assert (first.partition, first.base_sequence, first.record_count) == (1, 0, 1)
    assert sum(each.record_count for each in others) == 3


async def test_old_requests_lose_their_bytes_and_stay_counted(
    plain: FaultProxy, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiokafkapy.testing.fault_proxy.proxy._KEPT_BYTES", 1_000)
    client = await connect(plain)
    for _ in range(10):
        await client.echoed(bytes(300))
    assert plain.request_count(999) == 10
    assert [bool(request.frame) for request in plain.requests] == [False] * 7 + [True] * 3
