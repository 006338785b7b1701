"""Load that goes on while sessions end and are renewed (KIP-368), for tests on any broker.

A network of 15 ms each way lies between producer and broker, so that requests are always in flight, five of them once
a renewal has held them up, and cost little. It counts connections, since a session that is not renewed in time costs
one: a broker ends the connection at the next request, which is sent again.

Clients renew a session at 85 to 95 % of its life. Of the 65 ms that may be left the network takes 30, so on a machine
that is busy with other tests some renewals come too late. They must cost no record either, and are not the rule:
without any renewal there would be as many connections as sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final, Self

from aiokafkapy import Delivery, KafkaProducer

__all__ = ["SESSION_MS", "SlowNetwork", "send_over_sessions"]

SESSION_MS: Final = 1300
"""A broker refuses a client that renews a session within a second of the last time, and clients do so from 85 % of it
on.
"""
IN_FLIGHT: Final = 5
FIRST_CONNECTIONS: Final = 2
"""The connections to the bootstrap server, and to the leader of the partition."""


class SlowNetwork:
    """The place that a producer's ``connector`` connects through: every byte is some time on its way, and none is
    lost.
    """

    def __init__(self, delay: float = 0.015) -> None:
        self.connections = 0
        """The number of connections that were made."""
        self._delay = delay
        self._carriers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        for carrier in self._carriers:
            carrier.cancel()
        await asyncio.gather(*self._carriers, return_exceptions=True)

    async def connect(self, host: str, port: int) -> socket.socket:
        """The option ``connector``."""
        broker = await asyncio.open_connection(host, port)
        ours, theirs = socket.socketpair()
        try:
            client = await asyncio.open_connection(sock=theirs)
        except BaseException:
            ours.close()
            theirs.close()
            broker[1].close()
            raise
        self.connections += 1
        for (reader, _), (_, writer) in ((client, broker), (broker, client)):
            carrier = asyncio.create_task(self._carry(reader, writer))
            self._carriers.add(carrier)
            carrier.add_done_callback(self._carriers.discard)
        return ours

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        try:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(65_536):
                    loop.call_later(self._delay, _write, writer, data)
                await asyncio.sleep(self._delay)
        finally:
            writer.close()


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():  # uvloop raises for one that was closed meanwhile
        writer.write(data)


async def send_over_sessions(
    make_producer: Callable[..., KafkaProducer], topic: str, seconds: float, session_ms: int = SESSION_MS
) -> list[bytes]:
    """Send for so long, a batch every 12 ms to the topic's one partition; returns the values in their order.

    ``make_producer`` takes options. Checked here: no record failed, offsets are in the order of sending, five requests
    were in flight, and most sessions were renewed, and not begun on another connection.
    """
    options: dict[str, Any] = {"max_in_flight_requests_per_connection": IN_FLIGHT, "linger_ms": 0, "batch_size": 200}
    loop = asyncio.get_running_loop()
    values: list[bytes] = []
    deliveries: list[Delivery] = []
    most_in_flight = 0
    async with SlowNetwork() as network, make_producer(connector=network.connect, **options) as producer:
        ends = loop.time() + seconds
        while loop.time() < ends:
            values.append(b"%0100d" % len(values))
            deliveries.append(await producer.enqueue(topic, values[-1], partition=0))
            most_in_flight = max(most_in_flight, producer.statistics().in_flight_batches)
            await asyncio.sleep(0.012)
        results = await asyncio.gather(*deliveries)
        sessions = seconds * 1000 / session_ms
        assert network.connections <= FIRST_CONNECTIONS + sessions / 2
    assert [result.offset for result in results] == list(range(len(values)))
    assert most_in_flight == IN_FLIGHT
    return values
