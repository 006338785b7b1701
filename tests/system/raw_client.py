"""A client that is no client: one connection, frames out, frames in, nothing retried and nothing hidden.

For tests of the dev broker that must see exactly what it does with one request, or with bytes that are no request.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

from aiokafkapy.common import Node
from aiokafkapy.protocol.codec import decode_response, encode_request
from aiokafkapy.protocol.messages import build_request

__all__ = ["RawClient"]


class RawClient:
    """`async with RawClient(node) as client: body = await client.call(ApiKey.METADATA, 13, topics=None)`."""

    def __init__(self, node: Node, client_id: str = "raw") -> None:
        self._node = node
        self._client_id = client_id
        self._correlation_id = 0

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(self._node.host, self._node.port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.transport.abort()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
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
