"""The connector against listeners with and without TLS, on loopback."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.broker import Listener as Kind
from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.nodes.connection_states import NodeConnectionState
from aiokafkapy.client.transport.connection import BrokerConnection
from aiokafkapy.client.transport.connector import Connector
from aiokafkapy.client.transport.dialers import new_dialer
from aiokafkapy.client.transport.listener_probe import sasl_mechanisms, speaks_plaintext, speaks_tls
from aiokafkapy.errors import (
    AuthenticationFailedError,
    KafkaConnectionError,
    SaslAuthenticationFailedError,
    SslAuthenticationFailedError,
)
from aiokafkapy.security.tls import TlsContexts
from aiokafkapy.testing import TestCertificates
from tests.tcp_servers import tcp_server

AF_INET = 2


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> TestCertificates:
    return TestCertificates(tmp_path_factory.mktemp("certificates"))


def server_context(certificates: TestCertificates) -> ssl.SSLContext:
    options = ClientConfig(bootstrap_servers="h", **certificates.server_options())
    return TlsContexts(options, server_side=True).context()


class Listener:
    """Takes connections, with TLS or without; ``received`` are the received bytes."""

    def __init__(self) -> None:
        self.received = b""
        self.came = asyncio.Event()
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                self.received += data
                self.came.set()
        except OSError:
            pass  # the client aborts
        writer.close()


@asynccontextmanager
async def listening(context: ssl.SSLContext | None) -> AsyncIterator[Listener]:
    listener = Listener()
    async with tcp_server(listener.take, tls=context) as (_, listener.port):
        yield listener


class Owner:
    """Keeps the connections."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self.connection: BrokerConnection | None = None

    def make(self, label: str) -> asyncio.Protocol:
        self.connection = BrokerConnection(1, self, 0.0, label, max_response_size=1_000)
        return self.connection.protocol

    def on_connection_made(self, connection: BrokerConnection) -> None:
        """Awaited by the connector's caller."""

    def on_frames(self, connection: BrokerConnection, frames: list[bytes]) -> None:
        """Nothing is answered."""

    def on_malformed_data(self, connection: BrokerConnection, error: Exception) -> None:
        """Nothing is answered."""

    def on_writable(self, connection: BrokerConnection) -> None:
        """Nothing waits."""

    def on_connection_lost(self, connection: BrokerConnection, error: BaseException | None) -> None:
        self.lost.set_result(error)


def connector(**options: Any) -> Connector:
    return Connector(ClientConfig(bootstrap_servers="h", **options), asyncio.get_running_loop())


async def connect(connector: Connector, port: int, host: str = "127.0.0.1", **known: Any) -> Owner:
    owner = Owner()
    state = NodeConnectionState(host, port)
    state.setup_timeout = 10.0
    for name, value in known.items():
        setattr(state, name, value)
    await connector.connect(state, owner.make, lambda address, error: None)
    return owner


async def writable(connection: BrokerConnection) -> None:
    """Everything that was written has left: the next request may go."""
    async with asyncio.timeout(10):
        while not connection.is_writable:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_many_buffers_leave_in_order_as_few_tls_records(certificates: TestCertificates) -> None:
    async with listening(server_context(certificates)) as listener:
        owner = await connect(connector(**certificates.client_options()), listener.port)
        connection = owner.connection
        assert connection is not None
        buffers = [bytes([number % 256]) * 10 for number in range(1_000)]
        connection.write([*buffers, memoryview(b"end")])
        while not listener.received.endswith(b"end"):
            await asyncio.wait_for(listener.came.wait(), 10)
            listener.came.clear()
        assert listener.received == b"".join(buffers) + b"end"
        await writable(connection)
        for number in range(100):
            connection.write([bytes(20_000), bytes([number])])
            await writable(connection)
        connection.abort()
        assert await owner.lost is None


async def test_a_certificate_of_another_authority_is_refused_at_once(
    certificates: TestCertificates, tmp_path: Path
) -> None:
    strangers = TestCertificates(tmp_path)
    async with listening(server_context(certificates)) as listener:
        with pytest.raises(SslAuthenticationFailedError, match="CA that is not trusted here") as raised:
            await connect(connector(**strangers.client_options()), listener.port)
        assert isinstance(raised.value, AuthenticationFailedError)


async def test_tls_to_a_plaintext_listener_of_kafka_is_named(certificates: TestCertificates) -> None:
    async with DevBroker() as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with pytest.raises(SslAuthenticationFailedError, match="does not speak TLS: write the port of a TLS listener"):
            await connect(connector(**certificates.client_options()), int(port), host)


async def test_a_listener_that_only_closes_may_be_tried_again(certificates: TestCertificates) -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.close()

    async with tcp_server(close) as (_, port):
        with pytest.raises(KafkaConnectionError) as raised:
            await connect(connector(**certificates.client_options()), port)
        assert not isinstance(raised.value, AuthenticationFailedError)
        assert "closed before TLS was set up" in str(raised.value)


async def test_plaintext_to_a_tls_listener_is_named_when_it_closed_the_last_connection(
    certificates: TestCertificates,
) -> None:
    async with listening(server_context(certificates)) as listener:
        with pytest.raises(SslAuthenticationFailedError, match="speaks TLS: write security_protocol='SSL'"):
            await connect(connector(), listener.port, was_closed_unanswered=True)


async def test_a_plaintext_listener_is_connected_to_also_after_it_closed_the_last_connection() -> None:
    async with listening(None) as listener:
        owner = await connect(connector(), listener.port, was_closed_unanswered=True)
        assert owner.connection is not None
        owner.connection.abort()
        await owner.lost


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL_PLAINTEXT"])
async def test_after_a_connection_that_ended_when_it_was_used_the_listener_is_asked_for_sasl(listener: str) -> None:
    """A broker that merely crashed at that moment does not want SASL."""
    listeners = {"PLAINTEXT": Kind("PLAINTEXT"), "SASL_PLAINTEXT": Kind("SASL_PLAINTEXT")}
    async with DevBroker(
        listeners=listeners, sasl_users={"alice": "word"}, sasl_enabled_mechanisms=["PLAIN"]
    ) as broker:
        host, _, port = broker.bootstrap_servers_of(listener).rpartition(":")
        if listener == "PLAINTEXT":
            owner = await connect(connector(), int(port), host, was_closed_at_request=True)
            assert owner.connection is not None
            owner.connection.abort()
            await owner.lost
        else:
            with pytest.raises(SaslAuthenticationFailedError, match=f"{port} wants credentials: .*it has: PLAIN"):
                await connect(connector(), int(port), host, was_closed_at_request=True)


async def test_settings_without_sense_have_no_sasl() -> None:
    async def garble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"\0\0\0\x06nonsense")
        writer.close()

    dialer = new_dialer(ClientConfig(bootstrap_servers="h"), asyncio.get_running_loop())
    async with tcp_server(garble) as address:
        at: Any = (AF_INET, address)
        assert await sasl_mechanisms(dialer, at, None, "h") is None
    assert await sasl_mechanisms(dialer, at, None, "h") is None, "nobody is there"


async def test_the_two_questions(certificates: TestCertificates) -> None:
    loop = asyncio.get_running_loop()
    dialer = new_dialer(ClientConfig(bootstrap_servers="h"), loop)
    async with DevBroker() as broker, listening(server_context(certificates)) as listener:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        plaintext, tls = (AF_INET, (host, int(port))), (AF_INET, ("127.0.0.1", listener.port))
        assert await speaks_plaintext(loop, dialer, plaintext)
        assert not await speaks_tls(loop, dialer, plaintext)
        assert await speaks_tls(loop, dialer, tls)
        assert not await speaks_plaintext(loop, dialer, tls)
    assert not await speaks_tls(loop, dialer, tls), "nobody is there"
