"""One connection against a transport that is only written down: muting, reading, and the end of it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.broker.context import ConnectionInfo
from aiokafkapy.broker.network.client_connection import MUTE_STATES, ClientConnection, MuteState
from aiokafkapy.broker.network.request_channel import Request, Response, ResponseAction
from aiokafkapy.errors import MalformedFrameError


class FakeTransport(asyncio.Transport):
    """Takes ``room`` bytes at once; the rest waits for ``drain``."""

    def __init__(self, protocol: ClientConnection, room: int = 1 << 30) -> None:
        self.protocol = protocol
        self.room = room
        self.written = b""
        self.is_aborted = False
        self._is_reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert (high, low) == (0, 0)

    def write(self, data: Any) -> None:
        self.written += bytes(data)
        if len(data) > self.room:
            self.protocol.pause_writing()

    def drain(self) -> None:
        self.protocol.resume_writing()

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        assert self._is_reading
        self._is_reading = False

    def resume_reading(self) -> None:
        assert not self._is_reading
        self._is_reading = True

    def abort(self) -> None:
        self.is_aborted = True


class FakeOwner:
    """Takes requests as long as it has room."""

    def __init__(self) -> None:
        self.may_read = True
        self.room = 1 << 30
        self.requests: deque[Request] = deque()
        self.sent: list[Response] = []
        self.ends: list[Exception | None] = []
        self.connected = 0

    def on_connected(self, connection: ClientConnection) -> None:
        self.connected += 1

    def on_request(self, connection: ClientConnection, buffer: bytes) -> Request | None:
        if len(self.requests) >= self.room:
            return None
        request = Request(cast(Any, self), connection, bytes(buffer), 0.0)
        self.requests.append(request)
        return request

    def on_sent(self, connection: ClientConnection, response: Response) -> None:
        self.sent.append(response)
        connection.unmute()

    def on_disconnected(self, connection: ClientConnection, error: Exception | None) -> None:
        self.ends.append(error)


def connect(owner: FakeOwner, room: int = 1 << 30) -> tuple[ClientConnection, FakeTransport]:
    connection = ClientConnection(owner, ConnectionInfo("a:1", "L", "a"), max_request_size=1000)
    transport = FakeTransport(connection, room)
    connection.connection_made(transport)
    return connection, transport


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def answer(connection: ClientConnection, request: Request, payload: bytes = b"answer") -> None:
    connection.send(Response(request, ResponseAction.SEND, payload))


async def test_requests_go_one_at_a_time_in_the_order_in_which_they_came() -> None:
    owner = FakeOwner()
    connection, transport = connect(owner)
    connection.data_received(frame(b"one") + frame(b"two") + frame(b"three"))
    assert [request.buffer for request in owner.requests] == [b"one"]
    assert not transport.is_reading()
    answer(connection, owner.requests[0])
    assert [request.buffer for request in owner.requests] == [b"one", b"two"]
    answer(connection, owner.requests[1])
    answer(connection, owner.requests[2])
    assert transport.is_reading()
    assert transport.written == b"answer" * 3
    assert connection.state is MuteState.NOT_MUTED


async def test_a_lone_request_costs_no_pause() -> None:
    owner = FakeOwner()
    connection, transport = connect(owner)
    connection.data_received(frame(b"one"))
    assert connection.state is MuteState.MUTED_AND_RESPONSE_PENDING
    assert transport.is_reading()


async def test_bytes_that_arrive_while_muted_stop_the_reading_even_if_they_are_not_a_whole_frame() -> None:
    owner = FakeOwner()
    connection, transport = connect(owner)
    connection.data_received(frame(b"one"))
    connection.data_received(frame(b"two")[:5])
    assert not transport.is_reading()
    answer(connection, owner.requests[0])
    assert transport.is_reading()
    connection.data_received(frame(b"two")[5:])
    assert owner.requests[1].buffer == b"two"


async def test_the_connection_stays_muted_until_the_response_has_left() -> None:
    owner = FakeOwner()
    connection, transport = connect(owner, room=3)
    connection.data_received(frame(b"one") + frame(b"two"))
    answer(connection, owner.requests[0])
    assert not owner.sent
    assert len(owner.requests) == 1
    transport.drain()
    assert len(owner.sent) == 1
    assert len(owner.requests) == 2


async def test_without_room_in_the_request_queue_the_frame_waits_and_nothing_is_read() -> None:
    owner = FakeOwner()
    owner.room = 0
    connection, transport = connect(owner)
    connection.data_received(frame(b"one"))
    assert connection.state is MuteState.MUTED
    assert not transport.is_reading()
    connection.offer_again()
    assert not owner.requests
    owner.room = 1
    connection.offer_again()
    connection.update_reading()
    assert owner.requests[0].buffer == b"one"
    assert transport.is_reading()


async def test_a_stalled_owner_stops_the_reading() -> None:
    owner = FakeOwner()
    connection, transport = connect(owner)
    owner.may_read = False
    connection.update_reading()
    assert not transport.is_reading()
    connection.data_received(frame(b"one"))  # was on its way
    assert not owner.requests
    owner.may_read = True
    connection.update_reading()
    assert [request.buffer for request in owner.requests] == [b"one"]
    assert transport.is_reading()


@pytest.mark.parametrize("size", [-1, 1001, 2**31 - 1, -(2**31)])
async def test_a_size_out_of_bounds_closes_the_connection(size: int) -> None:
    owner = FakeOwner()
    connection, transport = connect(owner)
    connection.data_received(size.to_bytes(4, "big", signed=True))
    assert transport.is_aborted
    assert connection.is_closed
    assert isinstance(owner.ends[0], MalformedFrameError)
    connection.data_received(frame(b"late"))
    assert not owner.requests


async def test_the_end_is_reported_once_and_cancels_a_parked_request() -> None:
    owner = FakeOwner()
    connection, transport = connect(owner)
    connection.data_received(frame(b"one") + frame(b"two"))
    parked: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    owner.requests[0].parked = parked
    connection.connection_lost(None)
    assert parked.cancelled()
    connection.close()
    connection.connection_lost(None)
    assert owner.ends == [None]
    answer(connection, owner.requests[0])  # too late: to nobody
    assert transport.written == b""


async def test_a_throttled_connection_is_muted_for_that_long() -> None:
    class Throttling(FakeOwner):
        def on_sent(self, connection: ClientConnection, response: Response) -> None:
            connection.throttle(0.001)

    owner = Throttling()
    connection, _ = connect(owner)
    connection.data_received(frame(b"one") + frame(b"two"))
    answer(connection, owner.requests[0])
    assert connection.state is MuteState.MUTED_AND_THROTTLED
    assert len(owner.requests) == 1
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.002, future.set_result, None)
    await future
    assert len(owner.requests) == 2
    connection.close()


@given(st.lists(st.binary(max_size=50), max_size=20), st.lists(st.integers(1, 30), min_size=1))
async def test_any_fragmentation_gives_the_same_requests(payloads: list[bytes], cuts: list[int]) -> None:
    owner = FakeOwner()
    connection, transport = connect(owner)
    stream = b"".join(map(frame, payloads))
    handled = position = turn = 0
    while position < len(stream) or handled < len(owner.requests):
        if position < len(stream) and transport.is_reading():
            size = cuts[turn % len(cuts)]
            connection.data_received(stream[position : position + size])
            position += size
            turn += 1
        else:
            answer(connection, owner.requests[handled], b"!")
            handled += 1
    assert [request.buffer for request in owner.requests] == payloads
    assert transport.written == b"!" * len(payloads)
    assert transport.is_reading()


async def test_the_table_has_one_end() -> None:
    assert [state for state in MuteState if MUTE_STATES.is_final(state)] == [MuteState.CLOSED]
