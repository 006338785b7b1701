"""The Acceptor's turn-taking and a Processor's queues, without sockets; the real ones are in tests/system."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.context import ConnectionInfo
from aiokafkapy.broker.listeners import Listeners, endpoints_of
from aiokafkapy.broker.network.client_connection import ClientConnection
from aiokafkapy.broker.network.request_channel import RequestChannel, Response, ResponseAction
from aiokafkapy.broker.network.socket_server import CONNECTION_QUEUE_SIZE, Acceptor, Processor, SocketServer


class FakeSocket:
    """Counts how it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class FakeTransport(asyncio.Transport):
    """Takes everything at once."""

    def __init__(self) -> None:
        self.written = b""
        self.is_aborted = False
        self._is_reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        self.written += data

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True

    def abort(self) -> None:
        self.is_aborted = True


def info(number: int = 1) -> ConnectionInfo:
    return ConnectionInfo(f"a:{number}", "PLAINTEXT", "a", number)


def server(listeners: Listeners | None = None, **config: Any) -> SocketServer:
    settings = BrokerConfig.of(**config)
    endpoints = endpoints_of(listeners or {"PLAINTEXT": "127.0.0.1:0"}, settings, nodes=1)
    return SocketServer(settings, RequestChannel(settings.queued_max_requests), list(endpoints.values()))


def connected(processor: Processor, number: int = 1) -> tuple[ClientConnection, FakeTransport]:
    processor._server.quotas.increase("PLAINTEXT", "a", now=0.0)
    connection = ClientConnection(processor, info(number), max_request_size=100)
    transport = FakeTransport()
    connection.connection_made(transport)
    return connection, transport


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


async def test_connections_are_dealt_out_in_turn_and_past_full_processors() -> None:
    node = server(num_network_threads=3)
    (endpoint,) = endpoints_of({"PLAINTEXT": "127.0.0.1:0"}, BrokerConfig(), nodes=1).values()
    acceptor = Acceptor(
        cast(socket.socket, FakeSocket()), node.processors, node.quotas, node.metrics, endpoint, lambda listener: None
    )
    for number in range(6):
        acceptor.assign_new_connection(cast(socket.socket, FakeSocket()), info(number))
    assert [len(processor._new_connections) for processor in node.processors] == [2, 2, 2]
    while node.processors[1].has_room:
        node.processors[1].accept(cast(socket.socket, FakeSocket()), info())
    for number in range(4):
        acceptor.assign_new_connection(cast(socket.socket, FakeSocket()), info(number))
    assert [len(processor._new_connections) for processor in node.processors] == [4, CONNECTION_QUEUE_SIZE, 4]


async def test_a_processor_that_stops_closes_and_counts_out_its_connections() -> None:
    node = server(num_network_threads=1)
    processor = node.processors[0]
    connection, transport = connected(processor)
    waiting = FakeSocket()
    node.quotas.increase("PLAINTEXT", "a", now=0.0)
    processor.accept(cast(socket.socket, waiting), info(2))
    processor.stop()
    assert connection.is_closed
    assert transport.is_aborted
    assert waiting.closed == 1
    assert (node.quotas.total, node.metrics.disconnected) == (0, 2)


async def test_when_the_request_queue_is_full_all_of_a_processors_connections_stop_reading() -> None:
    node = server(num_network_threads=1, queued_max_requests=1)
    processor = node.processors[0]
    (first, _), (second, on_second), (third, on_third) = (connected(processor, number) for number in range(3))
    first.data_received(frame(b"first"))
    second.data_received(frame(b"second"))
    assert not processor.may_read
    assert not on_second.is_reading()
    assert not on_third.is_reading()
    third.data_received(frame(b"third"))  # was on its way
    assert (await node.request_channel.receive_request()).buffer == b"first"
    assert (await node.request_channel.receive_request()).buffer == b"second"
    assert (await node.request_channel.receive_request()).buffer == b"third"
    assert on_second.is_reading()
    assert on_third.is_reading()
    processor.stop()


async def test_responses_are_written_by_the_task_and_a_stall_holds_them_back() -> None:
    node = server(num_network_threads=1)
    processor = node.processors[0]
    connection, transport = connected(processor)
    task = asyncio.create_task(processor.run())
    connection.data_received(frame(b"one"))
    request = await node.request_channel.receive_request()
    node.stall(True)
    processor.enqueue_response(Response(request, ResponseAction.SEND, b"answer"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert transport.written == b""
    assert not transport.is_reading()
    node.stall(False)
    for _ in range(5):
        await asyncio.sleep(0)
    assert transport.written == b"answer"
    assert transport.is_reading()
    processor.stop()
    await task


@pytest.mark.parametrize("action", list(ResponseAction))
async def test_each_action_does_its_work(action: ResponseAction) -> None:
    node = server(num_network_threads=1)
    processor = node.processors[0]
    connection, transport = connected(processor)
    connection.data_received(frame(b"one") + frame(b"two"))
    request = await node.request_channel.receive_request()
    buffer = b"answer" if action in (ResponseAction.SEND, ResponseAction.SEND_AND_CLOSE) else b""
    closes = action in (ResponseAction.CLOSE, ResponseAction.SEND_AND_CLOSE)
    processor.enqueue_response(Response(request, action, buffer))
    processor._process_new_responses()
    assert transport.written == buffer
    assert connection.is_closed == closes
    assert len(node.request_channel) == (0 if closes else 1)
    processor.stop()


async def test_an_impossible_frame_is_counted_as_invalid() -> None:
    node = server(num_network_threads=1)
    connection, _ = connected(node.processors[0])
    connection.data_received(b"\xff\xff\xff\xff")
    connection.connection_lost(None)
    assert (node.metrics.invalid, node.metrics.disconnected, node.quotas.total) == (1, 1, 0)
    node.processors[0].stop()
