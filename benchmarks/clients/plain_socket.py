"""The floor of bulk: Produce requests that were encoded beforehand, written to a blocking socket.

Owns no client. The cost of such a row is the kernel's part, which no client can do without. The requests are those of
``send_many`` without idempotence, which a broker takes again and again; they are recorded between the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from struct import pack, unpack_from
from typing import BinaryIO, Final

from aiokafkapy import KafkaProducer
from aiokafkapy.protocol.framing import FrameDecoder
from benchmarks.measurement import Figures, Measurement, MeasurementError, Stopwatch, workload

__all__ = ["PlainSocketClient"]

RECORDED: Final = 200_000
"""Records whose requests are recorded: more than fit into a processor's caches."""
IN_FLIGHT: Final = 5
PRODUCE: Final = 0
COPY_SIZE: Final = 1024 * 1024
MAX_REQUEST: Final = 2 * 1024 * 1024


class PlainSocketClient:
    """Keeps the recorded requests, each with its length in front, and counts the written ones."""

    requests: list[bytes]
    written = 0

    async def open(self, bootstrap_servers: str, measurement: Measurement) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self.broker = host, int(port)
        self.requests = []

    async def flush(self) -> None:
        """Nothing is buffered."""

    async def close(self) -> None:
        """Nothing is open."""


@workload("encoded beforehand", "plain socket")
async def encoded_beforehand(client: PlainSocketClient, topic: str, measurement: Measurement) -> Figures:
    """The recorded requests again and again, with as many in flight as a producer has."""
    if not client.requests:
        client.requests = await _recorded_requests(client.broker, topic, measurement.size)
        client.written += RECORDED
    repeats = max(1, measurement.count // RECORDED)
    with socket.create_connection(client.broker) as connection, connection.makefile("rb") as responses:
        in_flight = 0
        with Stopwatch() as watch:
            for request in client.requests * repeats:
                if in_flight == IN_FLIGHT:
                    _read_response(responses)
                    in_flight -= 1
                connection.sendall(request)
                in_flight += 1
            for _ in range(in_flight):
                _read_response(responses)
    client.written += repeats * RECORDED
    return {**watch.figures, "messages": repeats * RECORDED, "written": client.written}


def _read_response(responses: BinaryIO) -> None:
    head = responses.read(4)
    if len(head) < 4 or not responses.read(unpack_from(">i", head)[0]):
        raise MeasurementError("the broker closed the connection")


async def _recorded_requests(broker: tuple[str, int], topic: str, size: int) -> list[bytes]:
    recorded: list[list[bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests: list[bytes] = []
        recorded.append(requests)
        from_broker, to_broker = await asyncio.open_connection(*broker)
        await asyncio.gather(_copy(reader, to_broker, requests), _copy(from_broker, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = server.sockets[0].getsockname()

        async def connect(host: str, port: int) -> socket.socket:
            connection = socket.create_connection(address)
            connection.setblocking(False)
            return connection

        async with KafkaProducer(
            f"{broker[0]}:{broker[1]}",
            connector=connect,
            enable_idempotence=False,
            linger_ms=None,
            send_buffer_bytes=-1,
        ) as producer:
            await producer.send_many(topic, [bytes(size)] * RECORDED)
    return [
        pack(">i", len(frame)) + frame
        for pieces in recorded
        for frame in FrameDecoder(MAX_REQUEST).feed(b"".join(pieces))
        if unpack_from(">h", frame)[0] == PRODUCE
    ]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, copied: list[bytes] | None = None) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(COPY_SIZE):
            if copied is not None:
                copied.append(data)
            writer.write(data)
            await writer.drain()
    writer.close()
