"""TLS of the servers for tests: the options that they take, and a handshake that is done, fails, or is given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.testing import TestCertificates
from aiokafkapy.testing.tls import Handshake, ServerTls, cluster_contexts


class Noting(asyncio.Protocol):
    """Notes its connection, the data that came, and the end."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.data = bytearray()
        self.has_data = asyncio.Event()
        self.is_lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.has_data.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost.set()


async def test_both_halves_come_together_with_a_certificate_that_was_made() -> None:
    loop, server, client = asyncio.get_running_loop(), Noting(), Noting()
    tls = ServerTls(True)
    assert tls.certificates is not None
    accepted = tls.handshake(server)
    assert accepted is not None
    listening = await loop.create_server(lambda: accepted.protocol, "127.0.0.1", 0)
    address = listening.sockets[0].getsockname()
    calling = Handshake(cluster_contexts(tls.certificates.client_options()), client, "127.0.0.1")
    await loop.create_connection(lambda: calling.protocol, *address)
    await asyncio.gather(calling.wait(), accepted.wait())
    client.transport.write(b"hello")
    await server.has_data.wait()
    assert bytes(server.data) == b"hello"
    calling.abort()
    await server.is_lost.wait()
    listening.close()
    await listening.wait_closed()


async def test_a_handshake_that_is_given_up_never_makes_its_connection() -> None:
    loop, server, client = asyncio.get_running_loop(), Noting(), Noting()
    listening = await loop.create_server(lambda: server, "127.0.0.1", 0)  # answers nothing
    calling = Handshake(cluster_contexts({}), client, "127.0.0.1")
    await loop.create_connection(lambda: calling.protocol, *listening.sockets[0].getsockname())
    waiting = asyncio.create_task(calling.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert client.transport is None
    with pytest.raises(ConnectionAbortedError):
        await calling.wait()
    await server.is_lost.wait()
    listening.close()
    await listening.wait_closed()


def test_without_tls_there_is_no_handshake() -> None:
    tls = ServerTls(False)
    assert (tls.contexts, tls.certificates, tls.handshake(asyncio.Protocol())) == (None, None, None)


def test_options_that_are_of_no_use_are_refused_at_once() -> None:
    with TestCertificates() as certificates:
        ServerTls(certificates.server_options())
        cluster_contexts(certificates.client_options())
    for options in ({"linger_ms": 5}, {"ssl_truststore_location": "there-is-no-such.pem"}):
        with pytest.raises(ConfigurationError):
            cluster_contexts(options)
    with pytest.raises(ConfigurationError, match="there-is-no-such"):
        ServerTls({"ssl_keystore_location": "there-is-no-such.pem"})
