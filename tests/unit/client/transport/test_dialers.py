"""Proxies and the user's own connector on the way to a broker, and the options of sockets."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.nodes.connection_states import Address
from aiokafkapy.client.transport.dialers import new_dialer
from aiokafkapy.errors import ConfigurationError, KafkaConnectionError
from tests.blocked_threads import blocked_default_executor
from tests.tcp_servers import tcp_server

HTTP = b"HTTP/1.1 "


def dialer(**options: Any) -> Any:
    return new_dialer(ClientConfig(bootstrap_servers="h", **options), asyncio.get_running_loop())


@pytest.mark.parametrize("options", [{}, {"proxy_url": "socks5://h:1"}])
@pytest.mark.parametrize("port", [-1, 0, 65_536])
async def test_a_closed_port_is_the_systems_error(options: dict[str, Any], port: int) -> None:
    with pytest.raises(OSError, match=f"port {port} is not between 1 and 65535"):
        await dialer(**options).addresses("127.0.0.1", port)


@pytest.mark.parametrize("options", [{}, {"proxy_url": "socks5://h:1"}, {"connector": print}])
@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("kafka.example.com.", "kafka.example.com"),
        ("kafka.example.com", "kafka.example.com"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
async def test_a_broker_proves_its_name_as_certificates_have_it(options: dict[str, Any], host: str, name: str) -> None:
    assert await dialer(**options).peer_name(host, (socket.AF_INET, ("127.0.0.1", 9092))) == name


class Proxy:
    """An HTTP and a SOCKS5 proxy in one, which itself echoes the bytes, in place of the requested target."""

    def __init__(self, password: str | None = None, refuses: bool = False) -> None:
        self.password = password
        self.refuses = refuses
        self.port = 0
        self.asked: list[tuple[str, int]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await reader.readexactly(1)
            await (self._socks(reader, writer) if first == b"\5" else self._http(reader, writer))
            if not self.refuses:
                writer.write(await reader.readexactly(5))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        host, _, port = lines[0].split()[1].rpartition(":")
        self.asked.append((host, int(port)))
        wanted = None if self.password is None else base64.b64encode(f"u:{self.password}".encode()).decode()
        if wanted is not None and not any(line.endswith(f"Basic {wanted}") for line in lines):
            writer.write(HTTP + b"407 Proxy Authentication Required\r\n\r\n")
            self.refuses = True
        elif self.refuses:
            writer.write(HTTP + b"403 Forbidden\r\n\r\n")
        else:
            writer.write(HTTP + b"200 OK\r\n\r\n")

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        if self.password is not None:
            assert 2 in methods
            writer.write(b"\5\2")
            await reader.readexactly(1)
            user, password = [await reader.readexactly((await reader.readexactly(1))[0]) for _ in range(2)]
            writer.write(b"\1\0" if (user, password) == (b"u", self.password.encode()) else b"\1\1")
        else:
            writer.write(b"\5\0")
        _, _, _, kind = await reader.readexactly(4)
        assert kind == 3, "the name is left to the proxy"
        host = await reader.readexactly((await reader.readexactly(1))[0])
        self.asked.append((host.decode(), int.from_bytes(await reader.readexactly(2), "big")))
        code = b"\2" if self.refuses else b"\0"
        writer.write(b"\5" + code + b"\0\1\0\0\0\0\0\0")


@asynccontextmanager
async def serving(proxy: Proxy) -> AsyncIterator[Proxy]:
    async with tcp_server(proxy.serve) as (_, proxy.port):
        yield proxy


async def open_one(dialer: Any, host: str = "broker.internal", port: int = 9092) -> socket.socket:
    (address,) = await dialer.addresses(host, port)
    sock: socket.socket = await dialer.open(address)
    return sock


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("password", [None, "hush"])
async def test_a_proxy_is_asked_by_name(scheme: str, password: str | None) -> None:
    async with serving(Proxy(password)) as proxy:
        login = "" if password is None else f"u:{password}@"
        through = dialer(proxy_url=f"{scheme}://{login}127.0.0.1:{proxy.port}")
        loop = asyncio.get_running_loop()
        with await open_one(through) as sock:
            await loop.sock_sendall(sock, b"hello")
            assert await loop.sock_recv(sock, 5) == b"hello"
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert not sock.getblocking()
        assert proxy.asked == [("broker.internal", 9092)]


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_refusal_is_the_proxys(scheme: str) -> None:
    async with serving(Proxy(refuses=True)) as proxy:
        words = f"the proxy at 127.0.0.1:{proxy.port} does not connect to broker.internal:9092: "
        with pytest.raises(KafkaConnectionError, match=words):
            await open_one(dialer(proxy_url=f"{scheme}://127.0.0.1:{proxy.port}"))


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_wrong_password_is_not_shown(scheme: str) -> None:
    async with serving(Proxy("right")) as proxy:
        with pytest.raises(KafkaConnectionError) as raised:
            await open_one(dialer(proxy_url=f"{scheme}://u:hunter2@127.0.0.1:{proxy.port}"))
        assert "hunter2" not in str(raised.value)


async def test_a_proxy_that_is_not_there(unused_tcp_port: int) -> None:
    with pytest.raises(KafkaConnectionError, match="the proxy at 127"):
        await open_one(dialer(proxy_url=f"http://127.0.0.1:{unused_tcp_port}"))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://alice:s3cr%E2%82%AC@h:1", "Latin-1"),
        ("http://alice%3A:s3cr@h:1", "colon"),
        ("socks5://alice:s3cr%C3%A9@h:1", "ASCII"),
        ("socks5h://alice:" + 256 * "s3cr" + "@h:1", "255"),
    ],
)
def test_credentials_that_cannot_be_sent_to_a_proxy_are_refused_without_being_shown(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=f"proxy_url: .*{words}") as raised:
        ClientConfig(bootstrap_servers="h", proxy_url=url)
    assert "alice" not in str(raised.value)
    assert "s3cr" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["ftp://u:hunter2@h:1", "h:1", "socks5://u:hunter2@h", "http://:0", "http://u:hunter2@h:x"]
)
def test_a_url_that_is_not_a_proxys_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="proxy_url") as raised:
        ClientConfig(bootstrap_servers="h", proxy_url=url)
    assert "hunter2" not in str(raised.value)
    assert "hunter2" not in repr(ClientConfig(bootstrap_servers="h", proxy_url="http://u:hunter2@h:1"))


class TestConnector:
    async def test_it_may_give_a_socket_of_any_kind(self) -> None:
        ours, theirs = socket.socketpair()
        asked: list[tuple[str, int]] = []

        async def connector(host: str, port: int) -> socket.socket:
            asked.append((host, port))
            return ours

        with theirs:
            theirs.send(b"hello")
            with await open_one(dialer(connector=connector)) as sock:
                assert await asyncio.get_running_loop().sock_recv(sock, 5) == b"hello"
        assert asked == [("broker.internal", 9092)]

    async def test_it_may_be_a_plain_function(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs, await open_one(dialer(connector=lambda host, port: ours)) as sock:
            assert sock is ours

    async def test_its_exception_is_a_failure_to_connect(self) -> None:
        def connector(host: str, port: int) -> socket.socket:
            raise LookupError("no tunnel")

        with pytest.raises(KafkaConnectionError, match="the connector failed: LookupError: no tunnel"):
            await open_one(dialer(connector=connector))

    async def test_it_must_give_a_socket(self) -> None:
        with pytest.raises(KafkaConnectionError, match="the connector gave a str, not a connected socket"):
            await open_one(dialer(connector=lambda host, port: "socket"))

    def test_it_must_be_a_function_and_the_only_way(self) -> None:
        with pytest.raises(ConfigurationError, match="connector='x': write a function of a host and a port"):
            ClientConfig(bootstrap_servers="h", connector="x")
        with pytest.raises(ConfigurationError, match="two ways to a broker"):
            ClientConfig(bootstrap_servers="h", connector=print, proxy_url="http://h:1")


class TestSockets:
    async def test_more_options_are_set(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            options = [(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 7)]
            address: Address = (socket.AF_INET, server.getsockname())
            with await dialer(socket_options=options).open(address) as sock:
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 7

    async def test_one_that_cannot_be_set_is_named(self) -> None:
        with pytest.raises(OSError, match=r"socket_options: \(6, 9999, 1\) cannot be set: "):
            await dialer(socket_options=[(6, 9999, 1)]).open((socket.AF_INET, ("127.0.0.1", 9)))

    @pytest.mark.parametrize(("family", "found"), [("v4", {socket.AF_INET}), ("v6", {socket.AF_INET6})])
    async def test_the_family_of_addresses(self, family: Any, found: set[int]) -> None:
        loop: Any = Resolver()
        config = ClientConfig(bootstrap_servers="h", broker_address_family=family)
        await new_dialer(config, loop).addresses("broker", 9092)
        assert loop.families == found


@pytest.mark.parametrize("lookup", ["getaddrinfo", "getnameinfo"])
async def test_a_lookup_does_not_wait_for_the_loops_own_threads(lookup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"}
    ours = dialer(**options)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [(socket.AF_INET, None, 6, "", ("127.0.0.1", 9092))])
    monkeypatch.setattr(socket, "getnameinfo", lambda *_: ("b1.example.com", "9092"))
    address = (socket.AF_INET, ("127.0.0.1", 9092))
    async with blocked_default_executor():
        if lookup == "getaddrinfo":
            assert await ours.addresses("broker", 9092) == [address]
        else:
            assert await ours.peer_name("h", address) == "b1.example.com"


class Resolver:
    """Resolves names, and notes the questions."""

    def __init__(self) -> None:
        self.families: set[int] = set()

    async def getaddrinfo(self, host: str, port: int, *, family: int, type: int) -> list[Any]:  # noqa: A002
        self.families.add(family)
        return [(socket.AF_INET, type, 6, "", ("127.0.0.1", port))]

    async def getnameinfo(self, address: Any, flags: int) -> tuple[str, str]:
        if address[0] == "127.0.0.9":
            raise socket.gaierror(-2, "Name or service not known")
        return "b1.example.com", "9092"


class TestCanonicalNames:
    LOOKUP = "resolve_canonical_bootstrap_servers_only"

    @pytest.mark.parametrize(
        ("options", "host", "address", "name"),
        [
            ({}, "h", "127.0.0.1", "h"),
            ({"client_dns_lookup": LOOKUP}, "h", "127.0.0.1", "b1.example.com"),
            ({"client_dns_lookup": LOOKUP}, "h", "127.0.0.9", "h"),
            ({"client_dns_lookup": LOOKUP}, "advertised", "127.0.0.1", "advertised"),
        ],
    )
    async def test_a_bootstrap_server_has_to_prove_its_canonical_name(
        self, options: dict[str, Any], host: str, address: str, name: str
    ) -> None:
        loop: Any = Resolver()
        found = new_dialer(ClientConfig(bootstrap_servers="h:9092", **options), loop)
        assert await found.peer_name(host, (socket.AF_INET, (address, 9092))) == name
