"""The race of addresses: its order, by hand; then real sockets, with a black hole and a refusing port on loopback."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.nodes.connection_states import Address, NodeConnectionState
from aiokafkapy.client.transport.connector import Connector
from aiokafkapy.client.transport.happy_eyeballs import CONNECTION_ATTEMPT_DELAY, Race, interleave_families
from aiokafkapy.errors import AuthenticationFailedError, KafkaConnectionError
from aiokafkapy.security.tls import TlsContexts
from aiokafkapy.testing import TestCertificates
from tests.tcp_servers import tcp_server

V4, V6 = socket.AF_INET, socket.AF_INET6
REFUSED = f"[Errno {errno.ECONNREFUSED}] {os.strerror(errno.ECONNREFUSED)}"


def address(number: int, family: int = V4) -> Address:
    return family, (f"10.0.0.{number}" if family == V4 else f"fd00::{number}", 9092)


def test_families_take_turns_and_keep_their_order() -> None:
    given = [address(1, V6), address(2, V6), address(3, V6), address(1), address(2)]
    assert interleave_families(given) == [address(1, V6), address(1), address(2, V6), address(2), address(3, V6)]
    assert interleave_families(reversed(given[:4])) == [address(1), address(3, V6), address(2, V6), address(1, V6)]
    assert interleave_families(given[:3]) == given[:3], "one family stays as the resolver gave it"
    assert interleave_families([]) == []


class Track:
    """A race whose attempts end when the test says."""

    def __init__(self, *addresses: Address) -> None:
        self.ends: dict[Address, asyncio.Future[socket.socket]] = {}
        self.began: asyncio.Queue[Address] = asyncio.Queue()
        self.failures: list[tuple[Address, str]] = []
        waiting = list(addresses)
        self.race = Race(
            self.open,
            lambda: waiting.pop(0) if waiting else None,
            lambda address, error: self.failures.append((address, str(error))),
        )

    async def open(self, address: Address) -> socket.socket:
        self.ends[address] = asyncio.get_running_loop().create_future()
        self.began.put_nowait(address)
        return await self.ends[address]


@pytest.fixture
def no_overtaking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next address begins only after a failure: an attempt that waits for the delay waits past the test's end."""
    monkeypatch.setattr("aiokafkapy.client.transport.happy_eyeballs.CONNECTION_ATTEMPT_DELAY", 3600.0)


@pytest.mark.usefixtures("no_overtaking")
async def test_after_a_failure_the_next_begins_at_once() -> None:
    track = Track(address(1), address(2))
    with socket.socket() as sock:
        running = asyncio.create_task(track.race.winner())
        assert await track.began.get() == address(1)
        track.ends[address(1)].set_exception(ConnectionRefusedError("refused"))
        assert await track.began.get() == address(2)
        track.ends[address(2)].set_result(sock)
        assert await running == (address(2), sock)
    assert track.failures == [(address(1), "refused")]


async def test_a_slow_address_still_has_its_chance() -> None:
    track = Track(address(1), address(2))
    with socket.socket() as sock:
        running = asyncio.create_task(track.race.winner())
        assert [await track.began.get() for _ in range(2)] == [address(1), address(2)]
        assert track.race.under_way == [address(1), address(2)]
        track.ends[address(2)].set_exception(ConnectionRefusedError("refused"))
        track.ends[address(1)].set_result(sock)
        assert await running == (address(1), sock)


async def test_all_fail() -> None:
    track = Track(address(1), address(2))
    running = asyncio.create_task(track.race.winner())
    for number in (1, 2):
        track.ends[await track.began.get()].set_exception(OSError(str(number)))
    assert await running is None
    assert track.failures == [(address(1), "1"), (address(2), "2")]
    assert await Track().race.winner() is None


async def test_the_first_of_two_that_connect_together_wins_and_the_other_is_closed() -> None:
    track = Track(address(1), address(2))
    with socket.socket() as first, socket.socket() as second:
        running = asyncio.create_task(track.race.winner())
        assert [await track.began.get() for _ in range(2)] == [address(1), address(2)]
        track.ends[address(2)].set_result(second)
        track.ends[address(1)].set_result(first)
        assert await running == (address(1), first)
        await asyncio.sleep(0)
        assert second.fileno() == -1
        assert first.fileno() != -1
        assert track.race.under_way == [address(2)]


async def test_an_exception_that_is_not_a_failure_to_connect_ends_the_race() -> None:
    track = Track(address(1), address(2))
    running = asyncio.create_task(track.race.winner())
    track.ends[await track.began.get()].set_exception(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await running


# real sockets


class DualStack:
    """The running loop, but that each name has these addresses, and that all connecting sockets are remembered."""

    def __init__(self, *addresses: Address) -> None:
        self._loop: Any = asyncio.get_running_loop()
        self.addresses = addresses
        self.sockets: list[socket.socket] = []

    async def getaddrinfo(self, host: str, port: int, *, family: int, **_: Any) -> Any:
        return [(each, socket.SOCK_STREAM, 6, "", at) for each, at in self.addresses if family in (0, each)]

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        self.sockets.append(sock)
        await self._loop.sock_connect(sock, address)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


@contextmanager
def black_hole(family: int) -> Iterator[Address]:
    """A port whose SYNs are dropped: its backlog is full."""
    with ExitStack() as opened:
        listener = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
        listener.bind(("::1" if family == V6 else "127.0.0.1", 0))
        listener.listen(0)
        at = listener.getsockname()
        for _ in range(4):
            filler = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
            filler.setblocking(False)
            filler.connect_ex(at)
        yield family, at


@contextmanager
def refusing(family: int) -> Iterator[Address]:
    """A port that is bound, and at which nobody listens."""
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.bind((_loopback(family), 0))
        yield family, sock.getsockname()


@pytest.fixture(params=[V4, V6], ids=["v4", "v6"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[Address]:
    """A port that accepts."""
    async with tcp_server(close, _loopback(request.param)) as address:
        yield request.param, address


def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def _loopback(family: int) -> str:
    return "::1" if family == V6 else "127.0.0.1"


def other(family: int) -> int:
    return V6 if family == V4 else V4


class Peer(asyncio.Protocol):
    def __init__(self, label: str) -> None:
        self.label = label

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.lost = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.set_result(None)


class Client:
    """A connector on a loop of that kind; it is to leave no socket behind."""

    def __init__(self, loop: DualStack, **options: Any) -> None:
        self.loop = loop
        self.failures: list[tuple[str, str]] = []
        self.state = NodeConnectionState("localhost", 9092)
        self.state.setup_timeout = 10.0
        self.connector = Connector(ClientConfig(bootstrap_servers="h", **options), loop)  # type: ignore[arg-type]
        self.peers: list[Peer] = []

    def make(self, label: str) -> Peer:
        self.peers.append(Peer(label))
        return self.peers[-1]

    async def connect(self) -> Peer:
        await self.connector.connect(self.state, self.make, lambda at, error: self.failures.append((at, str(error))))
        return self.peers[-1]

    async def close(self) -> None:
        for peer in self.peers:
            peer.transport.abort()  # type: ignore[attr-defined]
            await peer.lost
        await asyncio.sleep(0)

    def check_nothing_is_left(self) -> None:
        assert all(sock.fileno() == -1 for sock in self.loop.sockets)


def shown(at: Address) -> str:
    host, port = at[1][:2]
    return f"localhost:9092 ([{host}]:{port})" if at[0] == V6 else f"localhost:9092 ({host}:{port})"


async def test_a_family_that_is_a_black_hole_costs_the_attempt_delay(broker: Address) -> None:
    with black_hole(other(broker[0])) as hole:
        client = Client(DualStack(hole, broker))
        began = time.monotonic()
        peer = await client.connect()
        assert time.monotonic() - began >= CONNECTION_ATTEMPT_DELAY * 0.9
        assert peer.label == shown(broker)
        assert client.failures == [], "the loser has not failed"
        await client.close()
        assert len(client.loop.sockets) == 2
        client.check_nothing_is_left()


@pytest.mark.usefixtures("no_overtaking")
async def test_a_family_that_refuses_costs_nothing(broker: Address) -> None:
    with refusing(other(broker[0])) as closed:
        client = Client(DualStack(closed, broker))
        assert (await client.connect()).label == shown(broker)
        assert client.failures == [(shown(closed), REFUSED)]
        await client.close()


async def test_many_addresses_of_a_dead_family_do_not_come_before_the_other(broker: Address) -> None:
    with black_hole(other(broker[0])) as hole:
        family, at = hole
        # Each is another address of the same black hole: on Linux all of 127/8 would do, but ::1/128 is a single
        # address.
        more: list[Address] = [(family, (*at[:3], scope)) if family == V6 else hole for scope in range(1, 5)]
        client = Client(DualStack(hole, *more, broker))
        assert (await client.connect()).label == shown(broker)
        assert [sock.family for sock in client.loop.sockets][:2] == [hole[0], broker[0]]
        await client.close()


@pytest.mark.usefixtures("no_overtaking")
async def test_one_family_alone_is_tried_where_the_option_says_so(broker: Address) -> None:
    with black_hole(other(broker[0])) as hole:
        client = Client(DualStack(hole, broker), broker_address_family="v4" if broker[0] == V4 else "v6")
        assert (await client.connect()).label == shown(broker)
        assert len(client.loop.sockets) == 1
        await client.close()


async def test_a_cancelled_race_closes_every_socket_and_names_every_address() -> None:
    with black_hole(V6) as one, black_hole(V4) as two:
        client = Client(DualStack(one, two))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3 * CONNECTION_ATTEMPT_DELAY):
                await client.connect()
        await asyncio.sleep(0)
        assert len(client.loop.sockets) == 2
        client.check_nothing_is_left()
        late = "the connection was not set up in time"
        assert client.failures == [(shown(one), late), (shown(two), late)]
        assert client.state.needs_resolution


async def test_both_families_refuse() -> None:
    with refusing(V6) as one, refusing(V4) as two:
        client = Client(DualStack(one, two))
        with pytest.raises(KafkaConnectionError, match="cannot connect to localhost:9092"):
            await client.connect()
        client.check_nothing_is_left()


async def test_when_the_winners_certificate_is_refused_the_overtaken_address_is_tried(tmp_path: Any) -> None:
    """The winner is an impostor; the right broker's backlog was full when it was asked first."""
    right, wrong = TestCertificates(tmp_path / "right"), TestCertificates(tmp_path / "wrong")
    with refusing(V6) as late:
        async with tcp_server(close, tls=_server_context(wrong)) as address:
            impostor: Address = (V4, address)
            loop = DualStack(late, impostor)
            asked = 0
            real_connect = loop.sock_connect

            async def connect(sock: socket.socket, address: Any) -> None:
                nonlocal asked
                asked += address == late[1]
                if address == late[1] and asked == 1:
                    await asyncio.get_running_loop().create_future()
                await real_connect(sock, address)

            loop.sock_connect = connect  # type: ignore[method-assign]
            client = Client(loop, **right.client_options())
            with pytest.raises(AuthenticationFailedError):
                await client.connect()
            assert asked == 2
            assert [at for at, _ in client.failures] == [shown(impostor), shown(late)]


def _server_context(certificates: TestCertificates) -> Any:
    options = ClientConfig(bootstrap_servers="h", **certificates.server_options())
    return TlsContexts(options, server_side=True).context()
