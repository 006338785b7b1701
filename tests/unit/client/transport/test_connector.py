"""The connector on loopback sockets; names are resolved by a table."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.nodes.connection_states import NodeConnectionState
from aiokafkapy.client.transport.connector import Connector
from aiokafkapy.errors import KafkaConnectionError
from tests.tcp_servers import closed_port, tcp_server


class Peer(asyncio.Protocol):
    def __init__(self, label: str) -> None:
        self.label = label
        self.transport: Any = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.set_result(None)


class Attempts:
    """A connector with its callbacks."""

    def __init__(self, **options: Any) -> None:
        self.failures: list[tuple[str, str]] = []
        self.peers: list[Peer] = []
        self.config = ClientConfig(bootstrap_servers="h", **options)
        self.connector = Connector(self.config, asyncio.get_running_loop())

    def use(self, loop: Any) -> None:
        self.loop = loop
        self.connector = Connector(self.config, loop)

    def make(self, label: str) -> Peer:
        self.peers.append(Peer(label))
        return self.peers[-1]

    async def connect(self, state: NodeConnectionState) -> Peer:
        await self.connector.connect(
            state, self.make, lambda address, error: self.failures.append((address, str(error)))
        )
        return self.peers[-1]

    async def close(self) -> None:
        for peer in self.peers:
            if peer.transport is not None:
                peer.transport.abort()
                await peer.lost


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with tcp_server(lambda reader, writer: writer.close()) as (_, port):
        yield port


@pytest.fixture
def refusing_port() -> Iterator[int]:
    with closed_port() as port:
        yield port


@pytest.fixture
async def attempts() -> AsyncIterator[Attempts]:
    made = Attempts()
    yield made
    await made.close()


class Loop:
    """The running loop, but that names are resolved by a list, and that some addresses never answer."""

    def __init__(self, *addresses: tuple[str, int]) -> None:
        self.addresses = addresses
        self.calls = 0
        self.hanging: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.create_connection = asyncio.get_running_loop().create_connection
        self.run_in_executor = asyncio.get_running_loop().run_in_executor

    async def getaddrinfo(self, host: str, port: int, **_: Any) -> Any:
        self.calls += 1
        if not self.addresses:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in self.addresses]

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        if address[0] == "127.0.0.9":
            self.hanging.set_result(None)
            await asyncio.get_running_loop().create_future()
        await asyncio.get_running_loop().sock_connect(sock, address)


async def test_a_numeric_address_is_not_resolved(attempts: Attempts, port: int) -> None:
    attempts.use(Loop())
    peer = await attempts.connect(NodeConnectionState("127.0.0.1", port))
    assert peer.label == f"127.0.0.1:{port}"
    assert attempts.loop.calls == 0


async def test_the_options_of_the_socket(port: int) -> None:
    attempts = Attempts(send_buffer_bytes=50_000, receive_buffer_bytes=40_000, tcp_user_timeout_ms=5_000)
    peer = await attempts.connect(NodeConnectionState("127.0.0.1", port))
    sock = peer.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= 50_000
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 40_000
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 5_000
    await attempts.close()


async def test_minus_one_leaves_the_buffers_to_the_system(port: int) -> None:
    attempts = Attempts(send_buffer_bytes=-1, receive_buffer_bytes=-1)
    peer = await attempts.connect(NodeConnectionState("127.0.0.1", port))
    with socket.socket() as plain:
        expected = plain.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert peer.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= expected
    await attempts.close()


async def test_addresses_that_refuse_are_passed_over_in_one_attempt(
    attempts: Attempts, port: int, refusing_port: int
) -> None:
    attempts.use(Loop(("127.0.0.1", refusing_port), ("127.0.0.2", refusing_port), ("127.0.0.1", port)))
    state = NodeConnectionState("broker", 9092)
    peer = await attempts.connect(state)
    assert peer.label == f"broker:9092 (127.0.0.1:{port})"
    assert [address for address, _ in attempts.failures] == [
        f"broker:9092 (127.0.0.1:{refusing_port})",
        f"broker:9092 (127.0.0.2:{refusing_port})",
    ]
    assert state.needs_resolution


async def test_when_all_refuse_the_error_names_the_host_and_the_name_is_resolved_again(
    attempts: Attempts, refusing_port: int
) -> None:
    attempts.use(Loop(("127.0.0.1", refusing_port), ("127.0.0.1", refusing_port)))
    state = NodeConnectionState("broker", 9092)
    for number in (1, 2):
        with pytest.raises(KafkaConnectionError, match="cannot connect to broker:9092"):
            await attempts.connect(state)
        assert attempts.loop.calls == number
        assert len(attempts.failures) == number, "an address given twice is tried once"


async def test_an_attempt_cut_short_is_continued_at_the_next_address(attempts: Attempts, port: int) -> None:
    attempts.use(Loop(("127.0.0.9", port), ("127.0.0.1", port)))
    state = NodeConnectionState("broker", 9092)
    task = asyncio.ensure_future(attempts.connect(state))
    await attempts.loop.hanging
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert attempts.failures == [(f"broker:9092 (127.0.0.9:{port})", "the connection was not set up in time")]
    assert (await attempts.connect(state)).label == f"broker:9092 (127.0.0.1:{port})"
    assert attempts.loop.calls == 1


async def test_a_name_that_is_not_known(attempts: Attempts) -> None:
    attempts.use(Loop())
    with pytest.raises(KafkaConnectionError, match=r"cannot resolve nowhere:1: .*Name or service not known"):
        await attempts.connect(NodeConnectionState("nowhere", 1))
    assert attempts.failures[0][0] == "nowhere:1"


@pytest.mark.parametrize("host", ["x" * 70 + ".example", "no\0host"])
async def test_a_name_that_cannot_be_a_name(attempts: Attempts, host: str) -> None:
    with pytest.raises(KafkaConnectionError, match="cannot resolve"):
        await attempts.connect(NodeConnectionState(host, 1))


async def test_a_context_that_is_not_there_in_time_is_told_and_no_socket_is_opened() -> None:
    may_go_on = threading.Event()

    def give() -> ssl.SSLContext:
        may_go_on.wait(10)
        return ssl.create_default_context()

    attempts = Attempts(security_protocol="SSL", ssl_context=give)
    attempts.use(Loop())
    task = asyncio.ensure_future(attempts.connect(NodeConnectionState("broker", 9093)))
    while not task.done():
        await asyncio.sleep(0)
        task.cancel()
    may_go_on.set()
    assert attempts.failures == [("broker:9093", "the TLS context was not there in time (ssl_context)")]
    assert attempts.loop.calls == 0


async def test_the_error_of_a_function_that_gives_contexts_is_that_of_the_address() -> None:
    def give() -> ssl.SSLContext:
        raise ConnectionError("the vault is sealed")

    attempts = Attempts(security_protocol="SSL", ssl_context=give)
    with pytest.raises(KafkaConnectionError, match="the vault is sealed"):
        await attempts.connect(NodeConnectionState("broker", 9093))
    words = "the function ssl_context failed: ConnectionError: the vault is sealed"
    assert attempts.failures == [("broker:9093", words)]
