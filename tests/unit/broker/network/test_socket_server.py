"""A stalled server, without sockets; the real ones are in tests/system."""

from __future__ import annotations

import asyncio

from aiokafkapy.broker.network.request_channel import Response, ResponseAction

from .connections import connected, frame, server


async def test_responses_are_written_by_the_task_and_a_stall_holds_them_back() -> None:
    node = server(num_network_threads=1)
    processor = node.processors[0]
    connection, transport = connected(node)
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
