"""A Processor's queues, without sockets; the real ones are in tests/system."""

from __future__ import annotations

import socket
from typing import cast

import pytest

from aiokafkapy.broker.network.request_channel import Response, ResponseAction

from .connections import FakeSocket, connected, frame, info, server


async def test_a_processor_that_stops_closes_and_counts_out_its_connections() -> None:
    node = server(num_network_threads=1)
    processor = node.processors[0]
    connection, transport = connected(node)
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
    (first, _), (second, on_second), (third, on_third) = (connected(node, number) for number in range(3))
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


@pytest.mark.parametrize("action", list(ResponseAction))
async def test_each_action_does_its_work(action: ResponseAction) -> None:
    node = server(num_network_threads=1)
    processor = node.processors[0]
    connection, transport = connected(node)
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
    connection, _ = connected(node)
    connection.data_received(b"\xff\xff\xff\xff")
    connection.connection_lost(None)
    assert (node.metrics.invalid, node.metrics.disconnected, node.quotas.total) == (1, 1, 0)
    node.processors[0].stop()
