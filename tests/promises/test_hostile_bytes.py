"""Promise 9: a wrong length, correlation id, CRC or garbage drops that connection and retries; no unbounded allocation;
the dev broker too.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.fault_proxy import Answer, Request
from tests.tcp_servers import Serve, tcp_server

from ..fuzz.mutator import mutate
from ..fuzz.targets import Requests
from .observing import assert_accounts_balance, assert_nothing_is_left, frugal, outcomes
from .proxied_clusters import Cluster, DevCluster

MEBIBYTE = 1 << 20
QUICK: dict[str, Any] = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50, "retry_backoff_ms": 10}


def size_of(value: int) -> Callable[[Request, bytes], bytes]:
    """The answer with another size in front."""
    return lambda _, frame: struct.pack(">i", value) + frame[4:]


def wrong_correlation_id(_: Request, frame: bytes) -> bytes:
    return frame[:4] + struct.pack(">i", 123_456_789) + frame[8:]


def cut_short(_: Request, frame: bytes) -> bytes:
    body = frame[4 : len(frame) // 2]
    return struct.pack(">i", len(body)) + body


def hostile_array_length(request: Request, frame: bytes) -> bytes:
    """Everything after the correlation id claims to be the longest array there is."""
    body = frame[4:8] + b"\x00" + b"\xff\xff\xff\xff\x07" * 3
    return struct.pack(">i", len(body)) + body


def bytes_left_over(_: Request, frame: bytes) -> bytes:
    return struct.pack(">i", len(frame) - 4 + 9) + frame[4:] + b"leftovers"


HOSTILE: dict[str, Callable[[Request, bytes], bytes]] = {
    "garbage": lambda *_: random.Random(1).randbytes(300),
    "HTTP": lambda *_: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "huge size": size_of(2**31 - 1),
    "size over the limit": size_of(200 * MEBIBYTE),
    "negative size": size_of(-5),
    "empty frame": lambda *_: struct.pack(">i", 0),
    "tiny frame": lambda *_: struct.pack(">i", 2) + b"ab",
    "wrong correlation id": wrong_correlation_id,
    "an answer to nothing": lambda _, frame: frame + frame,
    "cut short": cut_short,
    "hostile array length": hostile_array_length,
    "bytes left over": bytes_left_over,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID])
async def test_an_invalid_response_closes_only_its_connection(cluster: Cluster, api: ApiKey, name: str) -> None:
    """The broker has served the request. The client asks again for any answer that did not arrive."""
    topic = await cluster.create_topic()
    cluster.net.answer_next(api, Answer(replace=HOSTILE[name]), times=2)
    with frugal(32 * MEBIBYTE):
        async with cluster.producer(**QUICK, request_timeout_ms=3_000) as producer:
            results = await asyncio.gather(*(producer.send(topic, b"%d" % n) for n in range(20)))
            assert_accounts_balance(producer, settled=True)
    if name != "an answer to nothing":  # there the first of both is a good one
        assert len(cluster.net.connected_at()) >= 2, "it was dropped"
    assert [result.offset for result in results] == list(range(20))
    assert await cluster.log(topic) == [b"%d" % n for n in range(20)]
    assert_nothing_is_left(cluster.net.ports)


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_server_that_is_not_a_broker_is_an_error_in_time(cluster: Cluster, name: str) -> None:
    for api in ApiKey:
        cluster.net.on_request(api, lambda _: Answer(forward=False, replace=HOSTILE[name]))
    with frugal(32 * MEBIBYTE):
        producer = cluster.producer(**QUICK, max_block_ms=500)
        with pytest.raises(errors.KafkaTimeoutError) as raised:
            await producer.start()
    assert cluster.bootstrap_servers in str(raised.value)
    assert_nothing_is_left(cluster.net.ports)


@pytest.mark.parametrize("seed", range(6))
async def test_flipped_bytes_end_in_an_outcome_for_each_record(
    cluster: Cluster, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flipped byte may be undetectable, and mean another error or offset. It never means a crash, or no outcome.

    Two things are left out, for they must be believed: Metadata, where a leader epoch of two thousand million means
    that nothing newer ever comes, and throttling, where a month of it is possible.
    """
    monkeypatch.setattr("aiokafkapy.client.network_client.throttle_seconds", lambda *_: 0.0)
    chance = random.Random(seed)
    topic = await cluster.create_topic(partitions=3)
    flipped = 0

    def flip(request: Request, frame: bytes) -> bytes:
        nonlocal flipped
        flipped += 1
        altered = bytearray(frame)
        for _ in range(chance.choice([1, 1, 2, 5])):
            altered[chance.randrange(len(altered))] ^= 1 << chance.randrange(8)
        return bytes(altered)

    options = QUICK | {"request_timeout_ms": 500, "delivery_timeout_ms": 10_000, "max_block_ms": 10_000}
    async with cluster.producer(**options, metadata_max_age_ms=50) as producer:
        await producer.send(topic, b"first", partition=0)
        for api in (ApiKey.PRODUCE, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID):
            cluster.net.on_request(api, lambda _: Answer(replace=flip) if chance.random() < 0.5 else None)
        tasks = []
        for n in range(300):
            tasks.append(asyncio.create_task(producer.send(topic, b"%d" % n, partition=n % 3)))
            await asyncio.sleep(0.003)  # the records' own distance
        for api in ApiKey:
            cluster.net.clear(api)
        cluster.net.cut()  # a broker's versions are kept while its connection lives
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
        outcomes(results)
        assert flipped > 0
        assert producer.state.value == "running"
        # The flips decide how many arrived (one in ApiVersions may take PRODUCE away); later answers must arrive.
        await asyncio.gather(*(producer.send(topic, b"last", partition=n % 3) for n in range(30)))
        assert_accounts_balance(producer, settled=True)


async def test_a_batch_that_was_damaged_on_its_way_is_sent_again(cluster: Cluster) -> None:
    """The broker checks the CRC, and says CORRUPT_MESSAGE."""
    topic = await cluster.create_topic()
    async with cluster.producer(**QUICK, linger_ms=20) as producer:
        await producer.send(topic, b"first")
        damaged = 0

        def damage(request: Request) -> None:
            nonlocal damaged
            if damaged < 2:
                damaged += 1
                place = request.frame.index(b"precious")
                request.frame = request.frame[:place] + b"PRECIOUS" + request.frame[place + 8 :]

        cluster.net.on_request(ApiKey.PRODUCE, damage)
        results = await asyncio.gather(*(producer.send(topic, b"precious %d" % n) for n in range(5)))
        assert damaged == 2
    assert [result.offset for result in results] == [1, 2, 3, 4, 5]
    assert await cluster.log(topic) == [b"first", *(b"precious %d" % n for n in range(5))]


async def test_answers_in_crumbs_are_put_together(cluster: Cluster) -> None:
    """One byte at a time, for every answer there is."""
    topic = await cluster.create_topic()
    # The bootstrap answers come in crumbs; those of the leader, which Metadata names, do not.
    async with tcp_server(_crumbling_proxy(cluster)) as (_, port), KafkaProducer(f"127.0.0.1:{port}") as producer:
        assert (await producer.send(topic, b"")).offset == 0


def _crumbling_proxy(cluster: Cluster) -> Serve:
    """Passes bytes to the cluster, and gives them back one by one."""
    (port,) = cluster.net.ports

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", port)

        async def there() -> None:
            while data := await reader.read(1 << 16):
                broker_writer.write(data)

        async def back() -> None:
            while data := await broker_reader.read(1 << 16):
                for n in range(len(data)):
                    writer.write(data[n : n + 1])
                    await writer.drain()
                    await asyncio.sleep(0)

        try:
            done, pending = await asyncio.wait(
                [asyncio.ensure_future(there()), asyncio.ensure_future(back())], return_when=asyncio.FIRST_COMPLETED
            )
            for task in pending:
                task.cancel()
            await asyncio.gather(*done, *pending, return_exceptions=True)
        finally:
            writer.close()
            broker_writer.close()

    return serve


# the dev broker by raw sockets


async def hostile_exchange(cluster: DevCluster, data: bytes) -> bytes:
    """Send bytes to the broker itself; the bytes until it closes the connection, which it must. Dev broker only: Apache
    Kafka's own defence is not ours to test.
    """
    host, _, port = cluster.direct_servers.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        async with asyncio.timeout(5):
            try:
                return await reader.read(-1)
            except ConnectionResetError:
                return b""
    finally:
        writer.transport.abort()


def framed(body: bytes, size: int | None = None) -> bytes:
    return struct.pack(">i", len(body) if size is None else size) + body


BROKER_HOSTILE = {
    "negative size": framed(b"", -1),
    "huge size": framed(b"x" * 100, 2**31 - 1),
    "no header": framed(b"ab"),
    "unknown api": framed(struct.pack(">hhih", 999, 0, 1, 0)),
    "unknown version": framed(struct.pack(">hhih", 3, 999, 1, 0)),
    "hostile client id": framed(struct.pack(">hhih", 3, 1, 1, 32_767)),
    "hostile array": framed(struct.pack(">hhih", 3, 1, 1, 0) + struct.pack(">i", 2**31 - 1)),
    "hostile compact array": framed(struct.pack(">hhih", 3, 12, 1, 0) + b"\x00" + b"\xff\xff\xff\xff\x07"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("160301020001") + random.Random(2).randbytes(600),
}


@pytest.mark.parametrize("name", BROKER_HOSTILE)
async def test_the_dev_broker_drops_hostile_clients_and_serves_the_others(dev_cluster: DevCluster, name: str) -> None:
    topic = await dev_cluster.create_topic()
    async with dev_cluster.producer() as producer:
        await producer.send(topic, b"before")
        with frugal(8 * MEBIBYTE):
            for _ in range(20):
                await hostile_exchange(dev_cluster, BROKER_HOSTILE[name])
        await producer.send(topic, b"after")
    assert await dev_cluster.log(topic) == [b"before", b"after"]


async def test_the_dev_broker_refuses_a_batch_with_a_wrong_crc_and_stores_nothing(dev_cluster: DevCluster) -> None:
    topic = await dev_cluster.create_topic()
    async with dev_cluster.producer(retries=0, enable_idempotence=False) as producer:
        await producer.partitions_for(topic)

        def damage(request: Request) -> None:
            place = request.frame.index(b"precious")
            request.frame = request.frame[:place] + b"PRECIOUS" + request.frame[place + 8 :]

        dev_cluster.net.on_request(ApiKey.PRODUCE, damage)
        with pytest.raises(errors.CorruptMessageError):
            await producer.send(topic, b"precious")
    assert await dev_cluster.log(topic) == []


@pytest.mark.parametrize("seed", range(3))
async def test_the_dev_broker_survives_mutated_requests(dev_cluster: DevCluster, seed: int) -> None:
    """Over sockets; tests/fuzz has the same without them, thousands of times as often."""
    chance = random.Random(seed)
    topic = await dev_cluster.create_topic()
    requests = Requests()
    host, _, port = dev_cluster.direct_servers.partition(":")
    async with dev_cluster.producer() as producer:
        for _ in range(100):
            good = requests.valid(chance)
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(framed(mutate(good, good, chance)))
            writer.write_eof()
            async with asyncio.timeout(10):
                try:
                    await reader.read(-1)
                except ConnectionResetError:
                    pass
            writer.transport.abort()
        await producer.send(topic, b"alive")
    assert await dev_cluster.log(topic) == [b"alive"]
