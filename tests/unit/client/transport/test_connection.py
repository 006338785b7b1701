from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any

import pytest

from aiokafkapy.client.transport.connection import BrokerConnection
from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.security.tls_transport import connect_tls
from aiokafkapy.testing import TestCertificates
from tests.tcp_servers import tcp_server

MAX_RESPONSE_SIZE = 1_000_000


class Owner:
    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_connection_made(self, connection: BrokerConnection) -> None:
        self.events.append("made")

    def on_frames(self, connection: BrokerConnection, frames: list[bytes]) -> None:
        self.events.append(frames)

    def on_malformed_data(self, connection: BrokerConnection, error: MalformedFrameError) -> None:
        self.events.append(error)

    def on_writable(self, connection: BrokerConnection) -> None:
        self.events.append("writable")

    def on_connection_lost(self, connection: BrokerConnection, error: BaseException | None) -> None:
        self.events.append(("lost", error))


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.calls.append(("limits", high))

    def write(self, data: Any) -> None:
        self.calls.append(("write", data))

    def writelines(self, list_of_data: Any) -> None:
        self.calls.append(("writelines", list(list_of_data)))

    def abort(self) -> None:
        self.calls.append("abort")


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def connection(owner: Owner, transport: Transport) -> BrokerConnection:
    connection = BrokerConnection(1, owner, 10.0, "h:1", max_response_size=MAX_RESPONSE_SIZE)
    connection.connection_made(transport)
    return connection


def test_before_the_socket_is_there_nothing_can_be_written(owner: Owner) -> None:
    connection = BrokerConnection(1, owner, 10.0, max_response_size=MAX_RESPONSE_SIZE)
    assert not connection.is_writable
    connection.write([b"x"])
    connection.abort()
    assert owner.events == []


def test_the_high_water_mark_is_zero_so_that_writable_means_written(
    connection: BrokerConnection, transport: Transport
) -> None:
    assert transport.calls == [("limits", 0)]
    assert connection.is_writable


def test_pausing_and_resuming_is_writability(connection: BrokerConnection, owner: Owner) -> None:
    connection.pause_writing()
    while_paused = connection.is_writable
    connection.resume_writing()
    assert (while_paused, connection.is_writable) == (False, True)
    assert owner.events == ["made", "writable"]


def test_buffers_go_to_the_transport_as_they_are_in_one_call(
    connection: BrokerConnection, transport: Transport
) -> None:
    data = bytearray(b"batch")
    connection.write([b"head", memoryview(data)])
    connection.write([data])
    (name, written), single = transport.calls[1:]
    assert name == "writelines"
    assert written[1].obj is data
    assert single == ("write", data)
    assert single[1] is data


def test_frames_are_cut_from_any_fragments(connection: BrokerConnection, owner: Owner) -> None:
    stream = b"\0\0\0\2ab" + b"\0\0\0\0" + b"\0\0\0\3cde"
    for index in range(len(stream)):
        connection.data_received(stream[index : index + 1])
    assert owner.events[1:] == [[b"ab"], [b""], [b"cde"]]
    connection.data_received(stream)
    assert owner.events[-1] == [b"ab", b"", b"cde"]


@pytest.mark.parametrize("size", [-1, -(2**31), MAX_RESPONSE_SIZE + 1, 2**31 - 1])
def test_an_impossible_size_is_reported_and_nothing_is_kept_for_it(
    connection: BrokerConnection, owner: Owner, size: int
) -> None:
    connection.data_received(size.to_bytes(4, "big", signed=True))
    assert isinstance(owner.events[-1], MalformedFrameError)


def test_the_largest_answer_is_an_option_that_the_error_names(owner: Owner) -> None:
    connection = BrokerConnection(1, owner, 10.0, "h:1", max_response_size=3)
    connection.data_received(b"\0\0\0\3abc\0\0\0\4")
    message = "frame of 4 bytes announced; the limit is 3 (receive_message_max_bytes)"
    assert str(owner.events[-1]) == message


def test_losing_it_is_reported_with_the_reason(
    connection: BrokerConnection, owner: Owner, transport: Transport
) -> None:
    error = ConnectionResetError()
    connection.connection_lost(error)
    assert owner.events[-1] == ("lost", error)
    assert connection.is_closed
    assert not connection.is_writable
    connection.resume_writing()
    assert not connection.is_writable
    connection.abort()
    assert "abort" not in transport.calls


def test_abort_stops_writing_at_once(connection: BrokerConnection, transport: Transport) -> None:
    connection.abort()
    assert not connection.is_writable
    assert transport.calls[-1] == "abort"


def test_abort_after_the_loop_is_closed_is_harmless(connection: BrokerConnection, transport: Transport) -> None:
    def refuse() -> None:
        raise RuntimeError("Event loop is closed")

    transport.abort = refuse  # type: ignore[method-assign]
    connection.abort()


def test_last_active_is_the_later_of_writing_and_receiving(connection: BrokerConnection) -> None:
    connection.last_used, connection.last_received = 11.0, 12.0
    assert connection.last_active == 12.0
    connection.last_used = 13.0
    assert connection.last_active == 13.0


def test_a_piece_that_the_transport_cannot_write_ends_the_connection_with_that_reason(
    connection: BrokerConnection, owner: Owner, transport: Transport
) -> None:
    error = TypeError("not bytes")

    def refuse(data: Any) -> None:
        raise error

    transport.write = refuse  # type: ignore[method-assign]
    connection.write([b"x"])
    assert not connection.is_writable
    assert transport.calls[-1] == "abort"
    connection.connection_lost(None)
    assert owner.events[-1] == ("lost", error)


async def test_a_connection_with_tls_is_writable_when_everything_has_left() -> None:
    """It is writable at that moment, as without TLS, and not when all was encrypted."""
    woken = asyncio.Event()

    class Waking(Owner):
        def on_frames(self, connection: BrokerConnection, frames: list[bytes]) -> None:
            woken.set()

        def on_writable(self, connection: BrokerConnection) -> None:
            woken.set()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # the client aborts
            while data := await reader.read(65_536):
                writer.write(data)

    loop = asyncio.get_running_loop()
    with TestCertificates() as certificates:
        listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        listening.load_cert_chain(certificates.server_file)
        trusting = ssl.create_default_context(cafile=str(certificates.ca_file))
        async with tcp_server(echo, tls=listening) as address:
            connection = BrokerConnection(1, Waking(), now=0.0, max_response_size=MAX_RESPONSE_SIZE)
            sock = socket.create_connection(address)
            sock.setblocking(False)
            await connect_tls(
                loop,
                sock,
                lambda: connection.protocol,
                context=trusting,
                server_hostname="localhost",
                handshake_timeout=10,
            )
            frame = (100).to_bytes(4, "big") + bytes(100)
            for _ in range(9):
                assert connection.is_writable
                connection.write([frame[:4], frame[4:]])
                woken.clear()
                await asyncio.wait_for(woken.wait(), 10)
            # More than the system takes at once: later bytes have to wait.
            for _ in range(2):
                connection.write([frame * 100_000])
            waits = 0
            while not connection.is_writable:
                waits += 1
                woken.clear()
                await asyncio.wait_for(woken.wait(), 10)
            assert waits > 0
            connection.abort()
