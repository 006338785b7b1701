"""Strangers' bytes where TLS is spoken: to a listener of the dev broker, and to a client of ours.

The first byte of an input says how far the stranger is honest (``Honest``); the rest are the bytes that it sends then.
Sockets and OpenSSL are real, so that the running code is judged. Java has no counterpart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import AsyncIterator, Iterator
from enum import IntEnum
from typing import Any, ClassVar, Final

from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.network_client import NetworkClient
from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import encode_request, encode_response
from aiokafkapy.security.tls import TlsContexts
from aiokafkapy.testing import TestCertificates
from tests.tcp_servers import tcp_server

from ..raw_client import RawClient
from .messages import request, response
from .target import MEBIBYTE, Target

__all__ = ["TLS_TARGETS"]

END: Final = 10.0
"""Seconds in which a connection has to end."""
TURNS: Final = 20
"""Turns of the loop, which the other side shares, before the stranger says that there is no more: the bytes that came
are acted upon.
"""
ALERT, CHANGE_CIPHER_SPEC, HANDSHAKE, DATA, HEARTBEAT = 21, 20, 22, 23, 24
HELLO_REQUEST: Final = b"\0\0\0\0"
"""RFC 5246's, for a renegotiation."""
FATAL: Final = b"\2\x28"
BLEED: Final = b"\1\x40\0"
"""A heartbeat that asks for 16 KiB and has none (CVE-2014-0160)."""


class Honest(IntEnum):
    """The last part of the exchange in which the stranger speaks proper TLS."""

    NOWHERE = 0
    FIRST_FLIGHT = 1
    HANDSHAKE = 2
    RECORDS = 3
    """All of TLS; its contents are damaged."""


class Side:
    """One side of TLS, without a socket of its own."""

    def __init__(self, context: ssl.SSLContext, server_hostname: str | None = None) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_server = server_hostname is None
        self.object = context.wrap_bio(
            self.incoming, self.outgoing, server_side=is_server, server_hostname=server_hostname
        )

    def advance(self) -> bool:
        """True when the handshake is done."""
        try:
            self.object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    async def shake_hands(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Shake hands to the end; raises OpenSSL's errors."""
        while not self.advance():
            writer.write(self.outgoing.read())
            self.incoming.write(await reader.read(65_536) or b"")
        writer.write(self.outgoing.read())


async def misbehave(side: Side, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> None:
    """Be honest as far as the first byte of ``data`` says, send the rest, and see the other end of it."""
    honest, rest = Honest(data[0] % len(Honest)), data[1:]
    try:
        if honest is Honest.FIRST_FLIGHT:
            if side.object.server_side:
                side.incoming.write(await reader.read(65_536))
            side.advance()
            writer.write(side.outgoing.read())
        elif honest is not Honest.NOWHERE:
            await side.shake_hands(reader, writer)
        if honest is Honest.RECORDS and rest:
            side.object.write(rest)
            rest = side.outgoing.read()
        writer.write(rest)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        writer.write_eof()
        while await reader.read(65_536):
            pass
    except (OSError, ssl.SSLError):
        pass  # the other side has ended it
    finally:
        writer.close()


class TlsTarget(Target):
    """The common part of both sides: certificates, a loop that must have nothing to complain of, and the form of an
    input.
    """

    most_bytes: ClassVar[int] = 4 * MEBIBYTE

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        package = logging.getLogger("aiokafkapy")
        before = package.level
        package.setLevel(logging.CRITICAL)  # each input is a line of a log
        try:
            with TestCertificates() as self.certificates, asyncio.Runner() as self._runner:
                self._told: list[dict[str, Any]] = []
                self._runner.get_loop().set_exception_handler(lambda _, context: self._told.append(context))
                opened = contextlib.AsyncExitStack()
                self._runner.run(opened.enter_async_context(self.standing()))
                try:
                    yield
                finally:
                    self._runner.run(opened.aclose())
        finally:
            package.setLevel(before)

    def run(self, data: bytes) -> None:
        if data:
            self._runner.run(asyncio.wait_for(self.exchange(data), 2 * END))
        assert self._told == []

    @contextlib.asynccontextmanager
    async def standing(self) -> AsyncIterator[None]:
        """The fixtures of all inputs."""
        yield

    async def exchange(self, data: bytes) -> None:
        """One input."""
        raise NotImplementedError

    def contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """A client's and a server's."""
        client = ClientConfig(bootstrap_servers="h", **self.certificates.client_options())
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(self.certificates.server_file)
        return TlsContexts(client).context(), server

    def valid(self, chance: random.Random) -> bytes:
        honest = chance.choice(list(Honest))
        if honest is Honest.RECORDS:
            return bytes((honest,)) + self.message(chance)
        records = [
            self.first_flight(),
            record(ALERT, FATAL),
            record(CHANGE_CIPHER_SPEC, b"\1"),
            record(HANDSHAKE, HELLO_REQUEST),
            record(DATA, chance.randbytes(chance.choice((0, 1, 100, 4_000)))),
            record(HEARTBEAT, BLEED),
            self.message(chance),
        ]
        return bytes((honest,)) + b"".join(chance.sample(records, chance.randrange(1, 4)))

    def first_flight(self) -> bytes:
        """The first bytes of an honest peer."""
        raise NotImplementedError

    def message(self, chance: random.Random) -> bytes:
        """The TLS input."""
        raise NotImplementedError


class TlsListener(TlsTarget):
    """A listener of the dev broker: the stranger's connection ends, and that of another client goes on."""

    name = "tls_server"

    @contextlib.asynccontextmanager
    async def standing(self) -> AsyncIterator[None]:
        self._context, _ = self.contexts()
        listener = Listener(**self.certificates.server_options())
        async with (
            DevBroker(listeners={"SSL": listener}, num_network_threads=1) as broker,
            RawClient(broker.nodes[0], tls=self._context) as self._neighbour,
        ):
            self._node = broker.nodes[0]
            yield

    async def exchange(self, data: bytes) -> None:
        reader, writer = await asyncio.open_connection(self._node.host, self._node.port)
        side = Side(self._context, "localhost")
        await asyncio.wait_for(misbehave(side, reader, writer, data), END)
        answer = await asyncio.wait_for(self._neighbour.call(ApiKey.API_VERSIONS, 0), END)
        assert answer.error_code == 0

    def first_flight(self) -> bytes:
        side = Side(self._context, "localhost")
        side.advance()
        return side.outgoing.read()

    def message(self, chance: random.Random) -> bytes:
        return encode_request(request(ApiKey.API_VERSIONS, chance.randrange(4), chance), 7, "me")


class TlsClient(TlsTarget):
    """A client of ours: its attempt ends, and it can be closed."""

    name = "tls_client"

    @contextlib.asynccontextmanager
    async def standing(self) -> AsyncIterator[None]:
        self._clients, self._servers = self.contexts()
        async with tcp_server(self._accept) as (_, self._port):
            yield

    async def exchange(self, data: bytes) -> None:
        self._data: bytes | None = data
        self._ended = asyncio.get_running_loop().create_future()
        config = ClientConfig(bootstrap_servers=f"127.0.0.1:{self._port}", **self.certificates.client_options())
        metadata = Metadata(retry_backoff_ms=100, retry_backoff_max_ms=1_000, metadata_max_age_ms=300_000)
        metadata.bootstrap(config.bootstrap_addresses)
        client = NetworkClient(config, metadata, loop=asyncio.get_running_loop())
        try:
            client.ready(metadata.cluster.nodes[0], asyncio.get_running_loop().time())
            await asyncio.wait_for(self._ended, END)
        finally:
            await asyncio.wait_for(client.close(), END)

    def first_flight(self) -> bytes:
        client, server = Side(self._clients, "localhost"), Side(self._servers)
        client.advance()
        server.incoming.write(client.outgoing.read())
        server.advance()
        return server.outgoing.read()

    def message(self, chance: random.Random) -> bytes:
        return encode_response(response(ApiKey.API_VERSIONS, 0, chance), 0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data, self._data = self._data, None
        if data is None:
            writer.close()  # it asks in the other language, or tries again
            return
        await misbehave(Side(self._servers), reader, writer, data)
        self._ended.set_result(None)


def record(kind: int, payload: bytes) -> bytes:
    """A record of TLS 1.2."""
    return bytes((kind, 3, 3)) + len(payload).to_bytes(2, "big") + payload


TLS_TARGETS: Final[tuple[type[Target], ...]] = (TlsListener, TlsClient)
