"""A broker's state and request handlers without a socket: bytes in, the Response that would be written out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafkapy.broker.context import BrokerState, ConnectionInfo
from aiokafkapy.broker.dev_broker import DevBroker
from aiokafkapy.broker.network.request_channel import Request, RequestChannel, Response
from aiokafkapy.broker.network.request_handler import KafkaRequestHandlerPool
from aiokafkapy.protocol.codec import decode_response, encode_request
from aiokafkapy.protocol.messages import build_request
from tests.inside import opened_without_sockets

__all__ = ["SocketlessNode", "codes", "socketless_node"]


class SocketlessNode:
    """Node 1 of a cluster, as its Processors see it; it is its own connection and Processor."""

    def __init__(self, broker: DevBroker, state: BrokerState) -> None:
        self.info = ConnectionInfo("127.0.0.1:1", "PLAINTEXT", "127.0.0.1")
        self.is_closed = False
        self.broker = broker
        self.state = state
        self.controls = broker.controls
        self.pool = KafkaRequestHandlerPool(1, state, RequestChannel(1))
        self.responses: list[Response] = []

    def handle(self, frame: bytes) -> Request:
        """Give the handlers a frame (without its size)."""
        request = Request(self, self, frame, received=0.0)
        self.pool.handle(request)
        return request

    def call(self, api: int, version: int, **fields: Any) -> Any:
        """The body of the response to a request; it must be there at once."""
        before = len(self.responses)
        self.handle(encode_request(build_request(api, version, **fields), 7, "me")[4:])
        assert len(self.responses) == before + 1
        correlation_id, body = decode_response(api, version, self.responses[-1].buffer[4:])
        assert correlation_id == 7
        return body

    # a Processor

    def enqueue_response(self, response: Response) -> None:
        self.responses.append(response)

    def resume_requests(self) -> None:
        raise AssertionError

    # a connection

    def send(self, response: Response) -> None:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError


@asynccontextmanager
async def socketless_node(nodes: int = 1, **config: Any) -> AsyncIterator[SocketlessNode]:
    """A node of a cluster whose nodes all "run"."""
    broker = DevBroker(nodes=nodes, **config)
    node = SocketlessNode(broker, await opened_without_sockets(broker))
    try:
        yield node
    finally:
        node.pool.stop()
        await broker.stop()
        await asyncio.sleep(0)


def codes(results: Any) -> list[int]:
    return [int(result.error_code) for result in results]
