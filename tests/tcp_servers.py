"""``tcp_server``: a TCP server of a test's own, and ``closed_port``, a port that surely has none.

asyncio's ``Server.wait_closed`` waits for no connection before Python 3.12. A connection that ends after its loop is a
ResourceWarning, in any test in which the garbage is collected.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

__all__ = ["Serve", "closed_port", "tcp_server"]

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None] | None]
"""Serves one connection."""


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port of the loopback address that refuses connections until the end of the block: it is bound, so that no other
    program can listen on it meanwhile.
    """
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextlib.asynccontextmanager
async def tcp_server(
    serve: Serve, host: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Any, ...]]:
    """A server at a free port, with TLS where there is a context; gives its address.

    After the block the connections that it took have ended, and so has all that serves them: it reads the end of the
    data where the test left a connection open. Raises the error of the serving, but for the end of a connection.
    """
    serving: list[asyncio.Task[Any]] = []
    writers: list[asyncio.StreamWriter] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.append(task)
        writers.append(writer)
        ended = serve(reader, writer)
        if ended is not None:
            await ended

    server = await asyncio.start_server(take, host, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()
        for writer in writers:
            with contextlib.suppress(AttributeError):  # Python 3.11.2, TLS: it is closed already
                writer.transport.abort()
        ended = await asyncio.gather(*serving, return_exceptions=True)
        for writer in writers:
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        await server.wait_closed()
    for outcome in ended:
        if isinstance(outcome, BaseException) and not isinstance(outcome, OSError | EOFError):
            raise outcome
