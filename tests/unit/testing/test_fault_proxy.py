"""The proxy's verbs, against a dev broker or a server of plain frames; nothing waits for time to pass, only for bytes,
ends and counts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey, response_class, schema_versions
from aiokafkapy.protocol.codec import decode_response, encode_request, encode_response
from aiokafkapy.protocol.messages import build_request, build_response
from aiokafkapy.testing import FaultProxy
from aiokafkapy.testing.fault_proxy import Answer, Hold, Request
from aiokafkapy.testing.fault_proxy.addresses import rewrite_addresses
from aiokafkapy.testing.fault_proxy.links import MAX_FRAME

METADATA_VERSION = 12
DEADLINE = 20
"""Seconds after which a test that waits has failed."""


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def plain_request(correlation_id: int, payload: bytes, api_key: int = 999) -> bytes:
    """A request of an API that nobody knows."""
    return framed(struct.pack(">hhih", api_key, 0, correlation_id, -1) + payload)


async def turns(count: int = 50) -> None:
    """Let the loop go round, so that whatever could happen has happened."""
    for _ in range(count):
        await asyncio.sleep(0)


class Client:
    """One connection, and Kafka's frames on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._last = 0

    def send(self, api_key: int, version: int, **fields: Any) -> int:
        """Send a request; returns its correlation id."""
        self._last += 1
        self.writer.write(encode_request(build_request(api_key, version, **fields), self._last, "test"))
        return self._last

    async def frame(self) -> bytes:
        """The next answer, without its size."""
        async with asyncio.timeout(DEADLINE):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """The body of the answer to a request."""
        sent = self.send(api_key, version, **fields)
        correlation_id, body = decode_response(api_key, version, await self.frame())
        assert correlation_id == sent
        return body

    async def echoed(self, payload: bytes) -> bytes:
        """What a ``Server`` makes of a payload."""
        self.writer.write(plain_request(7, payload))
        frame = await self.frame()
        assert frame[:4] == struct.pack(">i", 7)
        return frame[4:]

    async def rest(self) -> bytes:
        """All that comes until the connection ends in order."""
        async with asyncio.timeout(DEADLINE):
            return await self.reader.read(-1)

    async def is_reset(self) -> bool:
        """Wait for the connection's end; whether it was an RST."""
        try:
            await self.rest()
        except ConnectionResetError:
            return True
        return False


class Server:
    """Answers a plain request with its payload; ``answer`` may be another function of the request's frame."""

    def __init__(self) -> None:
        self.port = 0
        self.received: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.ended = asyncio.Event()
        self.answer: Callable[[bytes], bytes] = lambda frame: framed(frame[4:8] + frame[10:])

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(OSError, EOFError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                self.received.append(await reader.readexactly(size))
                writer.write(self.answer(self.received[-1]))
        writer.close()
        self.ended.set()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    yield server
    listening.close()
    for writer in server.writers:
        writer.transport.abort()
    await turns()


@pytest.fixture
async def plain(server: Server) -> AsyncIterator[FaultProxy]:
    """A proxy before the server of plain frames."""
    async with FaultProxy(f"127.0.0.1:{server.port}") as proxy:
        yield proxy
    assert proxy.connection_count() == 0


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("t", partitions=3)
        yield broker


@pytest.fixture
async def proxy(broker: DevBroker) -> AsyncIterator[FaultProxy]:
    """A proxy before a dev broker of three nodes, of which it is told of one."""
    async with FaultProxy(broker.bootstrap_servers.split(",")[0]) as proxy:
        yield proxy
    assert proxy.connection_count() == 0


Connect = Callable[..., Any]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """A function that connects to a proxy, or to one of its nodes."""
    clients: list[Client] = []

    async def connect(proxy: FaultProxy, node_id: int | None = None) -> Client:
        host, _, port = proxy.bootstrap_servers.partition(",")[0].partition(":")
        address = (host, int(port)) if node_id is None else proxy.address_of(node_id)
        clients.append(Client(*await asyncio.open_connection(*address)))
        return clients[-1]

    yield connect
    for client in clients:
        client.writer.transport.abort()
    await turns()


def metadata_of(client: Client) -> Any:
    return client.ask(ApiKey.METADATA, METADATA_VERSION, topics=None)


# addresses


def _with_address(api_key: int, version: int) -> Any:
    """An answer that names node 5 at broker:9092, and says nowhere where that can be said."""
    place = {"node_id": 5, "broker_id": 5, "host": "broker", "port": 9092}
    if api_key == ApiKey.FIND_COORDINATOR:
        nowhere = {"key": "lost", "node_id": -1, "host": "", "port": -1, "error_code": 15}
        fields: dict[str, Any] = {"coordinators": [place | {"key": "g"}, nowhere]} if version >= 4 else place
        fields.pop("broker_id", None)
        for each in fields.get("coordinators", ()):
            each.pop("broker_id", None)
        return build_response(api_key, version, **fields)
    place.pop("node_id" if api_key == ApiKey.DESCRIBE_CLUSTER else "broker_id")
    name = "brokers" if api_key in (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER) else "node_endpoints"
    return build_response(api_key, version, **{name: [place]})


WITH_ADDRESSES = [
    (api_key, version)
    for api_key, lowest in [
        (ApiKey.METADATA, 0),
        (ApiKey.FIND_COORDINATOR, 0),
        (ApiKey.DESCRIBE_CLUSTER, 0),
        (ApiKey.PRODUCE, 10),
        (ApiKey.FETCH, 16),
        (78, 1),
        (79, 1),
    ]
    for version in range(max(lowest, schema_versions(api_key)[0]), schema_versions(api_key)[1] + 1)
]


@pytest.mark.parametrize(("api_key", "version"), WITH_ADDRESSES)
def test_the_addresses_in_an_answer_of_any_version_are_ours(api_key: int, version: int) -> None:
    asked: list[tuple[int, str, int]] = []

    def rename(node_id: int, host: str, port: int) -> tuple[str, int]:
        asked.append((node_id, host, port))
        return "127.0.0.1", 4711

    before = encode_response(_with_address(api_key, version), 33)
    after = rewrite_addresses(api_key, version, before[4:], rename)
    assert asked == [(5, "broker", 9092)]
    assert struct.unpack(">ii", after[:8]) == (len(after) - 4, 33)
    said = repr(decode_response(api_key, version, after[4:])[1])
    assert said == repr(decode_response(api_key, version, before[4:])[1]).replace("'broker'", "'127.0.0.1'").replace(
        "9092", "4711"
    )


def test_every_message_with_an_address_for_clients_is_among_these() -> None:
    known = {api_key for api_key, _ in WITH_ADDRESSES}
    for api_key in ApiKey:
        for version in range(schema_versions(api_key)[0], schema_versions(api_key)[1] + 1):
            fields = response_class(api_key, version).__dataclass_fields__
            if {"brokers", "node_endpoints", "coordinators", "host"} & set(fields):
                assert (api_key, version) in WITH_ADDRESSES
    assert known == {0, 1, 3, 10, 60, 78, 79}


@pytest.mark.parametrize("version", [0, 12, 13, 99, -1])
def test_an_answer_that_cannot_be_decoded_stays_as_it_is(version: int) -> None:
    for frame in (b"", b"ab", b"\0\0\0\1" + b"\xff" * 40):
        assert rewrite_addresses(ApiKey.METADATA, version, frame, lambda *_: ("x", 1)) == framed(frame)


def test_clients_are_offered_no_version_whose_addresses_could_not_be_read() -> None:
    _, newest = schema_versions(ApiKey.METADATA)
    offered = [
        {"api_key": ApiKey.METADATA, "min_version": 0, "max_version": newest + 3},
        {"api_key": ApiKey.HEARTBEAT, "min_version": 0, "max_version": 99},
        {"api_key": ApiKey.FETCH, "min_version": 4, "max_version": 5},
    ]
    frame = encode_response(build_response(ApiKey.API_VERSIONS, 4, api_keys=offered), 1)[4:]
    _, body = decode_response(ApiKey.API_VERSIONS, 4, rewrite_addresses(ApiKey.API_VERSIONS, 4, frame, None)[4:])  # type: ignore[arg-type]
    assert [each.max_version for each in body.api_keys] == [newest, 99, 5]


async def test_every_broker_has_a_port_of_its_own_and_clients_learn_no_other(
    broker: DevBroker, proxy: FaultProxy, connect: Connect
) -> None:
    assert len(proxy.ports) == 1
    assert proxy.node_ids == []
    client = await connect(proxy)
    body = await metadata_of(client)
    assert {(each.node_id, (each.host, each.port)) for each in body.brokers} == {
        (node_id, proxy.address_of(node_id)) for node_id in (1, 2, 3)
    }
    assert len(proxy.ports) == 3
    assert not proxy.ports & {node.port for node in broker.nodes}
    assert proxy.node_ids == [1, 2, 3]
    for node_id in (1, 2, 3):
        assert (await metadata_of(await connect(proxy, node_id))).brokers == body.brokers
        assert proxy.requests[-1].node_id == node_id
        assert broker.controls.request_count(ApiKey.METADATA, node_id) == 1 + (node_id == 1)
    coordinator = await client.ask(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["a", "b", "c"])
    assert {each.port for each in coordinator.coordinators} <= proxy.ports
    cluster = await client.ask(ApiKey.DESCRIBE_CLUSTER, 0)
    assert {each.port for each in cluster.brokers} == proxy.ports
    with pytest.raises(KeyError, match="node 9"):
        proxy.address_of(9)


async def test_a_broker_that_advertises_the_proxy_itself_is_left_alone(
    server: Server, plain: FaultProxy, connect: Connect
) -> None:
    ((port,),) = [plain.ports]
    server.answer = lambda frame: encode_response(
        build_response(ApiKey.METADATA, METADATA_VERSION, brokers=[{"node_id": 1, "host": "127.0.0.1", "port": port}]),
        int.from_bytes(frame[4:8], "big"),
    )
    body = await metadata_of(await connect(plain))
    assert [(each.host, each.port) for each in body.brokers] == [("127.0.0.1", port)]
    assert plain.ports == {port}


async def test_bytes_that_are_no_kafka_are_passed_on(server: Server, plain: FaultProxy, connect: Connect) -> None:
    server.answer = framed
    client = await connect(plain)
    for frame in (b"", b"x", b"\0\x03\x7f\x7fabc", b"\0\0\0\x0dabcd\xff\xff\0yz"):
        client.writer.write(framed(frame))
        assert await client.frame() == frame
    assert [request.api_key for request in plain.requests] == [-1, -1, -1, ApiKey.PRODUCE]


async def test_large_frames_pass_in_both_directions(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    payload = bytes(range(256)) * 4096 * 30
    assert await client.echoed(payload) == payload


@pytest.mark.parametrize("size", [-1, MAX_FRAME + 1, 2**31 - 1])
async def test_a_frame_too_large_or_negative_ends_the_link(
    server: Server, plain: FaultProxy, connect: Connect, size: int
) -> None:
    client = await connect(plain)
    client.writer.write(struct.pack(">i", size) + b"x" * 100)
    await client.is_reset()
    server.answer = lambda _: struct.pack(">i", size) + b"x" * 100
    client = await connect(plain)
    client.writer.write(plain_request(1, b""))
    await client.is_reset()
    await plain.until(lambda: plain.connection_count() == 0, DEADLINE)


# what is seen


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


# connections


async def test_cut_resets_connections_and_welcomes_new_ones(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    await client.echoed(b"x")
    assert plain.cut() == 1
    assert await client.is_reset()
    assert await (await connect(plain)).echoed(b"again") == b"again"


async def test_an_orderly_cut_is_an_end_of_file(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    await client.echoed(b"x")
    plain.cut(reset=False)
    assert not await client.is_reset()


async def test_refuse_refuses_new_connections_only(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    before = plain.bootstrap_servers
    plain.refuse()
    with pytest.raises(ConnectionRefusedError):
        await connect(plain)
    assert await client.echoed(b"still here") == b"still here"
    await plain.accept()
    assert plain.bootstrap_servers == before
    assert await (await connect(plain)).echoed(b"back") == b"back"


async def test_stall_moves_nothing_until_resume(server: Server, plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    await client.echoed(b"x")
    plain.stall()
    client.writer.write(plain_request(1, b"waiting"))
    late = await connect(plain)
    late.writer.write(plain_request(1, b"late"))
    await turns()
    assert len(server.received) == len(plain.requests) == 1
    plain.resume()
    assert await client.frame() == b"\0\0\0\1waiting"
    assert await late.frame() == b"\0\0\0\1late"


async def test_what_came_in_one_piece_is_stalled_in_the_middle(plain: FaultProxy, connect: Connect) -> None:
    """A verb holds when it returns, also for the next frame of the same read."""
    client = await connect(plain)
    plain.on_request(999, lambda request: plain.stall())
    client.writer.write(plain_request(1, b"") + plain_request(2, b"") + plain_request(3, b""))
    await plain.seen(999)
    await turns()
    assert len(plain.requests) == 1
    plain.clear(999)
    plain.resume()
    assert [await client.frame() for _ in range(3)] == [struct.pack(">i", n) for n in (1, 2, 3)]


@pytest.mark.parametrize("reason", ["stalled", "the target does not read"])
async def test_a_writer_meets_a_full_pipe_in_the_end(
    server: Server, plain: FaultProxy, connect: Connect, reason: str
) -> None:
    client = await connect(plain)
    await client.echoed(b"x")
    target: Any = server.writers[0].transport
    if reason == "stalled":
        plain.stall()
    else:
        target.pause_reading()
        server.answer = lambda _: b""
    frame = plain_request(1, bytes(64 * 1024))
    for _ in range(1_000):  # more than the system's buffers take
        client.writer.write(frame)
    await turns(500)
    drained = asyncio.ensure_future(client.writer.drain())
    await turns()
    assert not drained.done()
    assert len(plain.requests) < 750
    if reason == "stalled":
        plain.resume()
    else:
        target.resume_reading()
    await asyncio.wait_for(drained, DEADLINE)
    await plain.seen(999, 1_001, timeout=DEADLINE)


async def test_a_client_that_reads_nothing_stops_the_broker_and_not_the_memory(
    server: Server, plain: FaultProxy, connect: Connect
) -> None:
    client = await connect(plain)
    await client.echoed(b"x")
    client.writer.transport.pause_reading()
    big = framed(b"\0\0\0\1" + bytes(256 * 1024))
    server.answer = lambda _: big
    for _ in range(250):
        client.writer.write(plain_request(1, b""))
    await plain.seen(999, 251)
    await turns(500)
    assert plain.answers_received < 190
    client.writer.transport.resume_reading()
    for _ in range(250):
        assert len(await client.frame()) == len(big) - 4


async def test_half_open_swallows_and_resume_cuts(server: Server, plain: FaultProxy, connect: Connect) -> None:
    client, unharmed = await connect(plain), await connect(plain)
    await client.echoed(b"x")
    await unharmed.echoed(b"x")
    plain.half_open()
    client.writer.write(plain_request(1, b"into the void"))
    late = await connect(plain)
    late.writer.write(plain_request(1, b"too"))
    server.writers[0].write(framed(b"\0\0\0\1unasked"))
    await turns()
    assert len(server.received) == len(plain.requests) == 2
    plain.resume()
    assert await client.is_reset()
    assert await late.is_reset()
    assert await unharmed.echoed(b"y") == b"y"


async def test_slow_lets_bytes_through_piece_by_piece_and_in_order(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    payload = bytes(range(250)) * 400
    plain.slow(2_000)
    client.writer.write(plain_request(1, b"abcde"))
    assert await client.frame() == b"\0\0\0\1abcde"
    plain.on_request(999, lambda _: Answer(forward=False, replace=lambda *_: framed(b"\0\0\0\1" + payload)))
    client.writer.write(plain_request(1, b""))
    async with asyncio.timeout(DEADLINE):
        first = await client.reader.readexactly(8)
        some = await client.reader.read(len(payload))
    assert first == struct.pack(">ii", len(payload) + 4, 1)
    assert 0 < len(some) < len(payload), "all of it takes 50 s"
    plain.slow(None)
    async with asyncio.timeout(DEADLINE):
        assert some + await client.reader.readexactly(len(payload) - len(some)) == payload
    with pytest.raises(ValueError, match="stall"):
        plain.slow(0)


async def test_a_verb_may_be_for_one_node(broker: DevBroker, proxy: FaultProxy, connect: Connect) -> None:
    """Also before that node is known."""
    proxy.refuse(node_id=3)
    bootstrap = await connect(proxy)
    await metadata_of(bootstrap)
    with pytest.raises(ConnectionRefusedError):
        await connect(proxy, 3)
    await proxy.accept(node_id=3)
    one, two, three = [await connect(proxy, node_id) for node_id in (1, 2, 3)]
    for client in (one, two, three):
        await metadata_of(client)
    proxy.stall(node_id=2)
    proxy.half_open(node_id=3)
    for client in (two, three):
        client.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    await metadata_of(one)
    await turns()
    assert proxy.request_count(ApiKey.METADATA, 2) == proxy.request_count(ApiKey.METADATA, 3) == 1
    proxy.resume(node_id=2)
    await two.frame()
    assert proxy.request_count(ApiKey.METADATA, 3) == 1
    proxy.resume(node_id=3)
    assert await three.is_reset()
    assert proxy.cut(node_id=2) == 1
    assert await two.is_reset()
    await metadata_of(one)
    proxy.drop_next(ApiKey.METADATA, node_id=2)
    await metadata_of(one)
    assert not await _answered(await connect(proxy, 2))


async def _answered(client: Client) -> bool:
    try:
        await metadata_of(client)
    except (EOFError, ConnectionResetError):
        return False
    return True


async def test_a_setting_for_all_nodes_replaces_that_of_each(proxy: FaultProxy, connect: Connect) -> None:
    await metadata_of(await connect(proxy))
    proxy.stall(node_id=2)
    proxy.stall()
    proxy.resume(node_id=1)
    assert await _answered(await connect(proxy, 1))
    proxy.resume()
    assert await _answered(await connect(proxy, 2))


# how links end


async def test_the_brokers_end_reaches_the_client_after_what_it_said(
    server: Server, plain: FaultProxy, connect: Connect
) -> None:
    client = await connect(plain)
    await client.echoed(b"x")
    client.writer.write(plain_request(2, b"bye"))
    assert await client.frame() == b"\0\0\0\2bye"
    server.writers[0].write(framed(b"\0\0\0\3unasked"))
    server.writers[0].close()
    assert await client.rest() == framed(b"\0\0\0\3unasked")


async def test_the_brokers_end_is_not_kept_back_by_answers_that_are(
    server: Server, plain: FaultProxy, connect: Connect
) -> None:
    client = await connect(plain)
    plain.hold(999)
    client.writer.write(plain_request(1, b"held"))
    await plain.until(lambda: plain.answers_received == 1)
    server.writers[0].close()
    assert await client.rest() == b""


async def test_the_clients_end_reaches_the_broker_after_what_it_said(server: Server, plain: FaultProxy) -> None:
    (port,) = plain.ports
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(plain_request(1, b"last words") + plain_request(2, b"really"))
    await asyncio.wait_for(server.ended.wait(), DEADLINE)
    assert [frame[10:] for frame in server.received] == [b"last words", b"really"]


async def test_a_target_that_refuses_resets_the_client(connect: Connect) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        async with FaultProxy(f"127.0.0.1:{nobody.getsockname()[1]}") as proxy:
            assert await (await connect(proxy)).is_reset()


def sockets() -> int:
    """How many sockets this process has."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(entry.readlink()).startswith("socket:")
    return found


@pytest.mark.parametrize("round_trips", range(8))
async def test_leaving_while_connections_are_accepted_leaves_nothing(server: Server, round_trips: int) -> None:
    before, tasks = sockets(), asyncio.all_tasks()
    clients = [socket.socket() for _ in range(40)]
    async with FaultProxy(f"127.0.0.1:{server.port}") as proxy:
        (port,) = proxy.ports
        for client in clients:
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(("127.0.0.1", port))
        await turns(round_trips)
    assert proxy.connection_count() == 0
    assert [task for task in asyncio.all_tasks() - tasks if "testing/fault_proxy/" in repr(task)] == []
    for client in clients:
        client.close()
    async with asyncio.timeout(DEADLINE):
        while sockets() != before:  # the server's ends go too
            await turns(1)


async def test_leaving_ends_whatever_holds_connections_up(server: Server, connect: Connect) -> None:
    async with FaultProxy(f"127.0.0.1:{server.port}") as proxy:
        stalled, delayed, held = [await connect(proxy) for _ in range(3)]
        proxy.delay(1, 3_600)
        proxy.hold(2)
        delayed.writer.write(plain_request(1, b"", 1))
        held.writer.write(plain_request(1, b"", 2))
        await proxy.until(lambda: proxy.answers_received == 2)
        proxy.stall()
        stalled.writer.write(plain_request(1, b""))
    for client in (stalled, delayed, held):
        await client.is_reset()
    assert all(handle.cancelled() for handle in getattr(asyncio.get_running_loop(), "_scheduled", ()))


# requests


async def test_a_function_decides_on_requests(broker: DevBroker, proxy: FaultProxy, connect: Connect) -> None:
    asked: list[Request] = []

    def decide(request: Request) -> Answer | None:
        asked.append(request)
        if len(asked) == 1:
            return None
        return Answer(forward=False, replace=lambda request, nothing: nothing + request.respond(controller_id=77))

    proxy.on_request(ApiKey.METADATA, decide)
    client = await connect(proxy)
    assert (await metadata_of(client)).controller_id == 1
    assert (await metadata_of(client)).controller_id == 77
    assert len(asked) == 2
    assert broker.controls.request_count(ApiKey.METADATA) == 1
    proxy.on_request(ApiKey.METADATA, None)
    assert (await metadata_of(client)).controller_id == 1


async def test_a_function_may_change_the_request(server: Server, plain: FaultProxy, connect: Connect) -> None:
    def change(request: Request) -> None:
        request.frame += b"!"

    plain.on_request(None, change)
    assert await (await connect(plain)).echoed(b"hello") == b"hello!"


async def test_a_function_that_fails_ends_the_connection_and_is_told(plain: FaultProxy, connect: Connect) -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    def fail(_: Request) -> None:
        raise ArithmeticError("wrong")

    plain.on_request(999, fail)
    client = await connect(plain)
    client.writer.write(plain_request(1, b""))
    await client.is_reset()
    assert [type(error) for error in told] == [ArithmeticError]


async def test_answers_keep_the_order_of_requests_whatever_becomes_of_each(plain: FaultProxy, connect: Connect) -> None:
    hold = Hold()

    def decide(request: Request) -> Answer | None:
        if request.correlation_id == 1:
            return Answer(hold=hold)
        if request.correlation_id == 2:
            return Answer(forward=False, replace=lambda *_: framed(b"\0\0\0\2made up"))
        return Answer(delay=0.01) if request.correlation_id == 3 else None

    plain.on_request(999, decide)
    client = await connect(plain)
    for n in range(1, 6):
        client.writer.write(plain_request(n, b"real"))
    await plain.until(lambda: plain.answers_received == 4)
    await turns()
    assert plain.answers_sent == 0
    hold.release()
    answers = [await client.frame() for _ in range(5)]
    assert [int.from_bytes(answer[:4], "big") for answer in answers] == [1, 2, 3, 4, 5]
    assert [answer[4:] for answer in answers] == [b"real", b"made up", b"real", b"real", b"real"]


async def test_delayed_answers_wait_side_by_side(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    plain.delay(999, 0.2)
    started = time.monotonic()
    for n in range(100):
        client.writer.write(plain_request(n, b""))
    for _ in range(100):
        await client.frame()
    assert 0.15 < time.monotonic() - started < 19, "one after the other would be 20 s"
    plain.delay(999, 3_600)
    client.writer.write(plain_request(1, b""))
    await plain.until(lambda: plain.answers_received == 101)
    await turns()
    assert plain.answers_sent == 100
    plain.delay(999, 0)
    assert await (await connect(plain)).echoed(b"x") == b"x"


async def test_held_answers_wait_until_they_are_released(
    broker: DevBroker, proxy: FaultProxy, connect: Connect
) -> None:
    client = await connect(proxy)
    hold = proxy.hold(ApiKey.METADATA)
    client.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    await proxy.until(lambda: proxy.answers_received == 1)
    assert broker.controls.request_count(ApiKey.METADATA) == 1
    assert proxy.answers_sent == 0
    hold.release()
    await client.frame()
    await metadata_of(client)


@pytest.mark.parametrize("after", [True, False])
async def test_drop_next_ends_the_connection_instead_of_answering(
    broker: DevBroker, proxy: FaultProxy, connect: Connect, after: bool
) -> None:
    proxy.drop_next(ApiKey.METADATA, after=after, times=2)
    for _ in range(2):
        assert not await _answered(await connect(proxy))
    assert await _answered(await connect(proxy))
    assert broker.controls.request_count(ApiKey.METADATA) == (3 if after else 1)


async def test_a_fault_of_another_api_is_not_used_up(proxy: FaultProxy, connect: Connect) -> None:
    proxy.drop_next(ApiKey.FIND_COORDINATOR)
    client = await connect(proxy)
    await metadata_of(client)
    client.send(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["g"])
    assert await client.rest() == b""


@pytest.mark.parametrize("after", [True, False])
async def test_swallow_next_leaves_its_connection_half_open_and_no_other(
    broker: DevBroker, proxy: FaultProxy, connect: Connect, after: bool
) -> None:
    silent, other = await connect(proxy), await connect(proxy)
    await metadata_of(silent)
    proxy.swallow_next(ApiKey.METADATA, after=after)
    silent.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    await proxy.seen(ApiKey.METADATA, 2)
    silent.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    if after:
        await proxy.until(lambda: proxy.answers_received == 2)
    silent.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    await metadata_of(other)
    await turns()
    assert proxy.request_count(ApiKey.METADATA) == 3
    assert broker.controls.request_count(ApiKey.METADATA) == (3 if after else 2)
    assert proxy.connection_count() == 2
    proxy.resume()
    assert await silent.is_reset()
    await metadata_of(other)


async def test_truncate_lets_the_start_of_an_answer_arrive(proxy: FaultProxy, connect: Connect) -> None:
    client = await connect(proxy)
    proxy.truncate(ApiKey.METADATA, after_bytes=7)
    sent = client.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    got = await client.rest()
    assert len(got) == 7
    assert struct.pack(">i", sent).startswith(got[4:])
    assert await _answered(await connect(proxy))


async def test_corrupt_garbles_answers(proxy: FaultProxy, connect: Connect) -> None:
    client = await connect(proxy)
    proxy.corrupt(ApiKey.METADATA)
    sent = client.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    frame = await client.frame()
    assert int.from_bytes(frame[:4], "big") == sent
    with pytest.raises(errors.MalformedFrameError):
        decode_response(ApiKey.METADATA, METADATA_VERSION, frame)
    await metadata_of(client)


async def test_corrupt_garbles_requests(server: Server, plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    plain.corrupt(999, request=True)
    assert await client.echoed(b"\0\xff\x10") == b"\xff\0\xef"
    assert await client.echoed(b"\0\xff\x10") == b"\0\xff\x10"


async def test_faults_are_used_in_the_order_they_were_given(proxy: FaultProxy, connect: Connect) -> None:
    proxy.truncate(ApiKey.METADATA, after_bytes=5)
    proxy.drop_next(ApiKey.METADATA)
    got = []
    for _ in range(2):
        client = await connect(proxy)
        client.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
        got.append(len(await client.rest()))
    assert got == [5, 0]
    with pytest.raises(ValueError, match="times=0"):
        proxy.drop_next(ApiKey.METADATA, times=0)


async def test_produce_without_acks_is_not_expected_to_be_answered(
    broker: DevBroker, proxy: FaultProxy, connect: Connect
) -> None:
    proxy.truncate(ApiKey.METADATA, after_bytes=10**6)
    async with KafkaProducer(proxy.bootstrap_servers, acks=0, enable_idempotence=False) as producer:
        for n in range(5):
            await producer.send("t", b"%d" % n, partition=0)
        # A send with acks=0 is done when it is written: the kernel may not have given it to the proxy yet.
        await proxy.seen(ApiKey.PRODUCE, 5)
        proxy.drop_next(ApiKey.PRODUCE)
        await producer.send("t", b"written, and the connection ends", partition=0)
        await proxy.seen(ApiKey.PRODUCE, 6)
    produced = proxy.requests_of(ApiKey.PRODUCE)
    assert not any(request.expects_answer for request in produced)
    assert {request.version for request in produced} == {13}
    client = await connect(proxy)
    for version in range(3, 14):
        for transactional_id in (None, "tx", "\0\0"):
            for acks in (0, 1, -1):
                body = build_request(ApiKey.PRODUCE, version, transactional_id=transactional_id, acks=acks)
                request = Request.read(1, encode_request(body, 1, "x")[4:], 1)
                assert request.expects_answer == (acks != 0)
    await metadata_of(client)


@pytest.mark.parametrize("after_append", [False, True])
async def test_fail_produce_answers_with_an_error(broker: DevBroker, proxy: FaultProxy, after_append: bool) -> None:
    async with KafkaProducer(proxy.bootstrap_servers, retries=0, enable_idempotence=False) as producer:
        await producer.send("t", b"first", partition=0)
        proxy.fail_produce(errors.InvalidRecordError, after_append=after_append, error_message="so it is")
        with pytest.raises(errors.InvalidRecordError, match="so it is"):
            await producer.send("t", b"failed", partition=0)
        await producer.send("t", b"last", partition=0)
    wanted = [b"first", b"failed", b"last"] if after_append else [b"first", b"last"]
    assert [record.value for record in broker.records("t", 0)] == wanted
    with pytest.raises(ValueError, match="no code"):
        proxy.fail_produce(errors.KafkaTimeoutError)


async def test_clear_forgets_everything(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    hold = plain.hold(999, times=1)
    plain.drop_next(999, times=None)
    plain.delay(None, 3_600)
    client.writer.write(plain_request(1, b"held"))
    await plain.until(lambda: plain.answers_received == 1)
    plain.delay(None, 0)
    plain.stall()
    plain.clear()
    assert hold.is_released
    assert plain.requests == []
    assert await (await connect(plain)).echoed(b"x") == b"x"


async def test_clear_of_one_api_leaves_the_others(plain: FaultProxy, connect: Connect) -> None:
    plain.drop_next(999, times=None)
    plain.on_request(998, lambda _: Answer(lose=True, cut=True))
    plain.clear(999)
    client = await connect(plain)
    assert await client.echoed(b"x") == b"x"
    client.writer.write(plain_request(1, b"", 998))
    assert await client.rest() == b""
