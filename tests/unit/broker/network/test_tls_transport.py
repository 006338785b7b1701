"""The server's half of TLS without sockets: the handshake, its alerts, records, and the end of a connection."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from aiokafkapy.broker.network.tls_transport import TlsTransport
from aiokafkapy.testing import TestCertificates


class Socket(asyncio.Transport):
    """The bytes that the client would get."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.end = ""

    def write(self, data: Any) -> None:
        assert not self.end
        self.written += data

    def is_closing(self) -> bool:
        return bool(self.end)

    def close(self) -> None:
        self.end = self.end or "closed"

    def abort(self) -> None:
        self.end = "aborted"


class Connection(asyncio.Protocol):
    """Notes its calls."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        self.told.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")


class Pair:
    """The transport, and a client's half that is no code of ours."""

    def __init__(self, certificates: TestCertificates, *, server_wants_certificate: bool = False) -> None:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificates.server_file)
        server.load_verify_locations(certificates.ca_file)
        server.verify_mode = ssl.CERT_REQUIRED if server_wants_certificate else ssl.CERT_NONE
        self.connection = Connection()
        self.failures: list[OSError] = []
        self.socket = Socket()
        self.transport = TlsTransport(server, self.connection, 60.0, self.failures.append)
        self.transport.connection_made(self.socket)
        self._to_client, self._to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = ssl.create_default_context(cafile=str(certificates.ca_file))
        self.client = client.wrap_bio(self._to_client, self._to_server, server_hostname="localhost")

    def carry_to_client(self) -> None:
        self._to_client.write(self.socket.written)
        self.socket.written = b""

    def carry_to_server(self) -> None:
        self.transport.data_received(self._to_server.read())

    def shake_hands(self, and_write: bytes = b"") -> None:
        """All of it; ``and_write`` goes in one with the client's last flight."""
        with pytest.raises(ssl.SSLWantReadError):
            self.client.do_handshake()
        self.carry_to_server()
        self.carry_to_client()
        self.client.do_handshake()
        if and_write:
            self.client.write(and_write)
        self.carry_to_server()
        self.carry_to_client()


@pytest.fixture(scope="module")
def certificates() -> Iterator[TestCertificates]:
    with TestCertificates() as made:
        yield made


async def test_the_connection_is_made_when_the_handshake_is_done_and_gets_the_bytes_that_came_with_it(
    certificates: TestCertificates,
) -> None:
    pair = Pair(certificates)
    pair.shake_hands(and_write=b"request")
    assert pair.connection.told == ["made", b"request"]
    pair.transport.write(b"response")
    pair.carry_to_client()
    assert pair.client.read(100) == b"response"
    pair.transport.connection_lost(None)
    assert pair.connection.told[2:] == ["lost"]
    assert pair.failures == []


async def test_a_refused_client_gets_the_alert_before_the_end_and_the_connection_is_never_made(
    certificates: TestCertificates,
) -> None:
    pair = Pair(certificates, server_wants_certificate=True)
    pair.shake_hands(and_write=b"request")
    with pytest.raises(ssl.SSLError) as raised:
        pair.client.read(1)
    assert raised.value.reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    assert pair.socket.end == "closed"
    pair.transport.connection_lost(None)
    assert pair.connection.told == []
    assert [type(error) for error in pair.failures] == [ssl.SSLError]


async def test_a_client_that_goes_away_in_the_handshake_is_a_failure_once(certificates: TestCertificates) -> None:
    pair = Pair(certificates)
    pair.transport.connection_lost(None)
    assert [type(error) for error in pair.failures] == [ConnectionResetError]
    assert pair.connection.told == []


async def test_an_abort_in_the_handshake_tells_nobody(certificates: TestCertificates) -> None:
    pair = Pair(certificates)
    pair.transport.abort()
    pair.transport.connection_lost(None)
    assert (pair.socket.end, pair.failures, pair.connection.told) == ("aborted", [], [])


async def test_a_client_that_ends_tls_is_heard_to_the_end_and_closed(certificates: TestCertificates) -> None:
    pair = Pair(certificates)
    pair.shake_hands()
    pair.client.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.unwrap()
    pair.carry_to_server()
    assert pair.connection.told == ["made", b"last"]
    assert pair.socket.end == "closed"


async def test_bytes_that_are_no_tls_end_the_connection_with_an_alert(certificates: TestCertificates) -> None:
    pair = Pair(certificates)
    pair.shake_hands()
    pair.transport.data_received(b"\x17\x03\x03\x00\x20" + b"x" * 32)
    assert pair.socket.end == "closed"
    pair.carry_to_client()
    with pytest.raises(ssl.SSLError, match=r"(?i)alert bad record mac"):
        pair.client.read(1)
    assert pair.failures == []
