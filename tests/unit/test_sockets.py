"""Sockets that become transports: each number of a file has one owner, on asyncio and on uvloop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest
import uvloop

from aiokafkapy.sockets import connections_of, current_network, hand_over, network_of, new_socket, use_network
from aiokafkapy.testing.simulation.simulated_network import SimulatedNetwork, SimulatedSocket

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
NewLoop = Callable[[], asyncio.AbstractEventLoop]


class AbortsAtOnce(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[socket.socket]:
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        sock = socket.socket()
        sock.setblocking(False)
        await loop.sock_connect(sock, server.getsockname())
        yield sock


def assert_is_nobodys(sock: socket.socket, number: int) -> None:
    """The object has given up its number: a file that gets the number next keeps it when the object is closed."""
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]
    try:
        assert number in files
        sock.close()
        os.fstat(number)
    finally:
        for each in files:
            os.close(each)


@LOOPS
def test_a_transport_that_ends_at_once_leaves_no_number_behind(new_loop: NewLoop) -> None:
    async def run() -> None:
        async with connected() as sock:
            number = sock.fileno()
            await hand_over(sock, asyncio.get_running_loop().create_connection(AbortsAtOnce, sock=sock))
            for _ in range(3):
                await asyncio.sleep(0)
            assert_is_nobodys(sock, number)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())


@LOOPS
@pytest.mark.parametrize("protocol", [asyncio.Protocol, AbortsAtOnce])
def test_a_transport_whose_call_is_cancelled_leaves_no_number_behind_either(
    protocol: type[asyncio.Protocol], new_loop: NewLoop
) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with connected() as sock:
            number = sock.fileno()
            task = loop.create_task(hand_over(sock, loop.create_connection(protocol, sock=sock)))
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert task.cancelled()
            for _ in range(3):
                await asyncio.sleep(0)
            assert_is_nobodys(sock, number)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())


@LOOPS
def test_a_socket_that_the_loop_refuses_stays_the_caller_s(new_loop: NewLoop) -> None:
    async def run() -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as sock:
            with pytest.raises(ValueError, match="Stream"):
                await hand_over(sock, asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=sock))
            assert sock.fileno() >= 0

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())


async def test_a_loop_s_connections_are_the_system_s_until_it_has_a_network() -> None:
    loop = asyncio.get_running_loop()
    assert connections_of(loop) is loop
    with new_socket(socket.AF_INET) as real:
        assert isinstance(real, socket.socket)
    network = SimulatedNetwork(loop, random.Random(0), lambda *_: None)
    use_network(loop, network)
    try:
        assert current_network() is network_of(loop) is network
        sock = new_socket(socket.AF_INET)
        assert isinstance(cast(object, sock), SimulatedSocket)
        with pytest.raises(ConnectionRefusedError):
            await connections_of(loop).sock_connect(sock, ("127.0.0.1", 1))
        sock.close()
        assert connections_of(loop).time() >= 0
    finally:
        use_network(loop, None)
    assert current_network() is None
    assert connections_of(loop) is loop


def test_another_loop_is_not_touched() -> None:
    loop, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        use_network(loop, SimulatedNetwork(loop, random.Random(0), lambda *_: None))
        assert network_of(other) is None
        assert connections_of(other) is other
        assert current_network() is None  # no loop runs
    finally:
        use_network(loop, None)
        loop.close()
        other.close()


def test_a_simulated_socket_that_is_not_closed_is_reported() -> None:
    sock = SimulatedSocket(socket.AF_INET)
    with pytest.warns(ResourceWarning, match="unclosed"):
        sock.__del__()
    sock.close()
    assert sock.fileno() == -1
