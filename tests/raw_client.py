"""A raw connection to a broker: frames out, frames in, nothing retried and nothing hidden; and sockets that nobody
reads.

For tests of the dev broker that must see its exact answer to one request, or with bytes that are not a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from aiokafkapy.broker import DevBroker
from aiokafkapy.common import Node
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_response, encode_request
from aiokafkapy.protocol.messages import build_request

__all__ = ["RawClient", "connected", "write_while_served"]

METADATA_OF_ALL_TOPICS = struct.pack(">ihhihi", 14, ApiKey.METADATA, 1, 1, -1, -1)
ENDLESS = 1_000
"""Answers to clients that read none."""


class RawClient:
    """``async with RawClient(node) as client: body = await client.call(ApiKey.METADATA, 13, topics=None)``."""

    def __init__(self, node: Node, client_id: str = "raw", tls: ssl.SSLContext | None = None) -> None:
        self.node = node
        self._tls = tls
        self._client_id = client_id
        self._correlation_id = 0

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(self.node.host, self.node.port, ssl=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.transport.abort()
        try:
            await self.writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            pass

    async def call(self, api: int, version: int, **fields: Any) -> Any:
        """Send a request and return its response's body."""
        self.send(api, version, **fields)
        return await self.receive(api, version)

    def send(self, api: int, version: int, **fields: Any) -> None:
        """Send a request and do not wait."""
        self._correlation_id += 1
        self.writer.write(encode_request(build_request(api, version, **fields), self._correlation_id, self._client_id))

    async def receive(self, api: int, version: int) -> Any:
        """The next response's body; IncompleteReadError or ConnectionError when the connection is closed instead."""
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        _, body = decode_response(api, version, await self.reader.readexactly(size))
        return body

    async def is_closed_by_peer(self) -> bool:
        """Wait for the connection's end; True when it came without another byte."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


async def connected(broker: DevBroker, receive_buffer: int = 0) -> socket.socket:
    """A socket that nobody reads."""
    found = socket.socket()
    if receive_buffer:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    found.setblocking(False)
    await asyncio.get_running_loop().sock_connect(found, (broker.nodes[0].host, broker.nodes[0].port))
    return found


async def write_while_served(broker: DevBroker, deaf: Sequence[socket.socket]) -> int:
    """Send requests until the broker stops answering or has answered 1,000; how many requests the kernel accepted."""
    requests = METADATA_OF_ALL_TOPICS * 1_000
    sent = served = quiet = 0
    while quiet < 200 and served < ENDLESS:
        for each in deaf:
            with contextlib.suppress(BlockingIOError):
                sent += each.send(requests)
        await asyncio.sleep(0.001)
        before, served = served, broker.controls.request_count(ApiKey.METADATA)
        quiet = quiet + 1 if served == before else 0
    return sent // len(METADATA_OF_ALL_TOPICS)
