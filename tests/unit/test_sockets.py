"""Sockets that become transports: each number of a file has one owner, on asyncio and on uvloop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest
import uvloop

from aiokafkapy.sockets import hand_over

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
def test_one_whose_call_is_cancelled_leaves_none_either(new_loop: NewLoop) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with connected() as sock:
            number = sock.fileno()
            task = loop.create_task(hand_over(sock, loop.create_connection(asyncio.Protocol, sock=sock)))
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
