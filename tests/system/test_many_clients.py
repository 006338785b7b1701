"""The dev broker with clients that are too many, too fast, too slow, or deaf: their cost is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import struct
import time
from collections.abc import Iterator

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.raw_client import RawClient, connected, write_while_served
from tests.waiting import until

from ..promises.observing import frugal

KIBIBYTE = 1 << 10
MEBIBYTE = 1 << 20


@pytest.fixture
def enough_descriptors() -> Iterator[None]:
    """Room for both ends of 2,000 connections in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 5_000:
        pytest.skip(f"this system lets a process have {hard} descriptors only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 5_000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("enough_descriptors")
async def test_two_thousand_connections_are_all_served_and_cost_little() -> None:
    async with DevBroker() as broker:
        clients = [RawClient(broker.nodes[0]) for _ in range(2_000)]
        try:
            with frugal(2_000 * 100 * KIBIBYTE):  # both ends, and the client's stream objects
                for start in range(0, 2_000, 100):
                    await asyncio.gather(*(client.__aenter__() for client in clients[start : start + 100]))
                    # More than the kernel's backlog holds would come a second later.
                    await until(lambda: broker.metrics()["connections"] == start + 100, 60)  # noqa: B023
                answers = await asyncio.gather(*(client.call(ApiKey.API_VERSIONS, 0) for client in clients))
            assert {answer.error_code for answer in answers} == {0}
            assert broker.metrics()["connections"] == 2_000
            async with KafkaProducer(broker.bootstrap_servers) as producer:
                assert (await producer.send("t", b"one more")).offset == 0
        finally:
            opened = [client for client in clients if hasattr(client, "writer")]
            await asyncio.gather(*(client.__aexit__(None, None, None) for client in opened))
        await until(lambda: broker.metrics()["connections"] == 0, 60)


async def test_connections_made_too_fast_wait_and_are_served_at_the_rate() -> None:
    """Ten a second, averaged over a second: of 31 the last is accepted two seconds after the first at the earliest."""
    async with DevBroker(max_connection_creation_rate=10, quota_window_num=2) as broker:
        clients = [RawClient(broker.nodes[0]) for _ in range(31)]
        began = time.monotonic()
        await asyncio.gather(*(client.__aenter__() for client in clients))
        async with asyncio.timeout(30):
            await asyncio.gather(*(client.call(ApiKey.API_VERSIONS, 0) for client in clients))
        assert time.monotonic() - began > 1.5
        assert broker.metrics()["connections"] == 31
        assert broker.metrics()["connections_refused"] == 0
        await asyncio.gather(*(client.__aexit__(None, None, None) for client in clients))


async def test_clients_that_never_read_cost_one_answer_each() -> None:
    """The clients ask for hundreds of megabytes. The broker holds only the part of one answer that the kernel did not
    take.
    """
    async with DevBroker(socket_send_buffer_bytes=4096) as broker:
        for number in range(100):
            broker.create_topic(f"a-topic-with-quite-a-long-name-{number}", partitions=10)
        async with RawClient(broker.nodes[0]) as other:
            other.send(ApiKey.METADATA, 1, topics=None)
            size = int.from_bytes(await other.reader.readexactly(4), "big")
            await other.reader.readexactly(size)
            broker.controls.clear()
            deaf = [await connected(broker, receive_buffer=4096) for _ in range(30)]
            # A read of 256 KiB at most is cut into requests of 18 bytes, which as objects are some four times that.
            with frugal(30 * (2 * size + MEBIBYTE)):
                asked = await write_while_served(broker, deaf)
                assert asked * size > 200 * MEBIBYTE
                assert broker.controls.request_count(ApiKey.METADATA) < 30 * 20
                assert (await other.call(ApiKey.API_VERSIONS, 0)).error_code == 0
        for each in deaf:
            each.close()
        await until(lambda: broker.metrics()["connections"] == 0)


async def test_clients_that_drip_cost_no_more_than_the_bytes_they_sent() -> None:
    """Slow-loris: each announces the largest request there may be, and sends it byte by byte."""
    async with DevBroker() as broker:
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as sockets, frugal(MEBIBYTE + 200 * 20 * KIBIBYTE):
            slow = [sockets.enter_context(await connected(broker)) for _ in range(200)]
            for each in slow:
                await loop.sock_sendall(each, struct.pack(">i", 100 * MEBIBYTE))
            async with KafkaProducer(broker.bootstrap_servers, linger_ms=0) as producer:
                for n in range(50):
                    for each in slow:
                        await loop.sock_sendall(each, b"\0")
                    assert (await producer.send("t", b"%d" % n)).offset == n
                assert broker.metrics()["connections"] >= 200
        await until(lambda: broker.metrics()["connections"] == 0, 30)


async def test_clients_that_send_drop_by_drop_still_count_as_idle() -> None:
    """Only whole requests keep a connection."""
    async with DevBroker(connections_max_idle_ms=300) as broker:
        slow = [await connected(broker) for _ in range(20)]
        for each in slow:
            each.send(struct.pack(">i", 100 * MEBIBYTE))

        def drip() -> bool:
            for each in slow:
                with contextlib.suppress(ConnectionError):
                    each.send(b"\0")
            return broker.metrics()["connections_expired"] == 20

        await until(drip, 60)
        for each in slow:
            each.close()
