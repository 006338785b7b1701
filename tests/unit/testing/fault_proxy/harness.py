"""A client and a server of plain frames, on either side of a proxy."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable
from typing import Any

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_response, encode_request
from aiokafkapy.protocol.messages import build_request

METADATA_VERSION = 12
DEADLINE = 20
"""Seconds after which a test that waits has failed."""


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def plain_request(correlation_id: int, payload: bytes, api_key: int = 999) -> bytes:
    """A request of an API that nobody knows."""
    return framed(struct.pack(">hhih", api_key, 0, correlation_id, -1) + payload)


async def turns(count: int = 50) -> None:
    """Let the loop go round, so that all that could happen has happened."""
    for _ in range(count):
        await asyncio.sleep(0)


class Client:
    """One connection, and Kafka's frames on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._last = 0

    def send(self, api_key: int, version: int, **fields: Any) -> int:
        """Send a request; returns its correlation id."""
        self._last += 1
        self.writer.write(encode_request(build_request(api_key, version, **fields), self._last, "test"))
        return self._last

    async def frame(self) -> bytes:
        """The next answer, without its size."""
        async with asyncio.timeout(DEADLINE):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """The body of the answer to a request."""
        sent = self.send(api_key, version, **fields)
        correlation_id, body = decode_response(api_key, version, await self.frame())
        assert correlation_id == sent
        return body

    async def echoed(self, payload: bytes) -> bytes:
        """A ``Server``'s answer to a payload."""
        self.writer.write(plain_request(7, payload))
        frame = await self.frame()
        assert frame[:4] == struct.pack(">i", 7)
        return frame[4:]

    async def rest(self) -> bytes:
        """All that comes until the connection ends in order."""
        async with asyncio.timeout(DEADLINE):
            return await self.reader.read(-1)

    async def is_reset(self) -> bool:
        """Wait for the connection's end; whether it was an RST."""
        try:
            await self.rest()
        except ConnectionResetError:
            return True
        return False


class Server:
    """Answers a plain request with its payload; ``answer`` may be another function of the request's frame."""

    def __init__(self) -> None:
        self.port = 0
        self.received: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.ended = asyncio.Event()
        self.answer: Callable[[bytes], bytes] = lambda frame: framed(frame[4:8] + frame[10:])

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(OSError, EOFError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                self.received.append(await reader.readexactly(size))
                writer.write(self.answer(self.received[-1]))
        writer.close()
        self.ended.set()


Connect = Callable[..., Any]


def metadata_of(client: Client) -> Any:
    return client.ask(ApiKey.METADATA, METADATA_VERSION, topics=None)


async def is_answered(client: Client) -> bool:
    """Ask for metadata; whether an answer comes before the connection ends."""
    try:
        await metadata_of(client)
    except (EOFError, ConnectionResetError):
        return False
    return True
