"""The other end of a recording, on loopback ports: ``ReplayBroker``.

    async with ReplayBroker("bug.jsonl") as broker:
        async with KafkaProducer(broker.bootstrap_servers) as producer: ...
        broker.check()

Owns the sockets and the time at which an answer leaves; ``script`` chooses the answer. For a client it is the cluster
of the recording: each address in the recording has a port here, which answers name.

Rules:

- An answer comes as long after its request as recorded (``speed=2``: half as long; None: at once), in the order of the
  requests. A request without a recorded answer gets none; a connection that the cluster ended is ended.
- Neither the clock nor chance decides: the same requests always get the same answers.
- A request missing from the recording ends its connection, and is among ``mismatches``.
- Leaving the block leaves no connection, timer or listening port.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Self, cast

from ...common import LAST_PORT
from ...errors import MalformedFrameError
from ...protocol.framing import FrameDecoder
from ..connections import MAX_FRAME, reset_connection
from ..fault_proxy.addresses import Rename, rewrite_addresses
from ..recording import Exchange, Recording
from ..servers.ports import LOOPBACK, free_port
from ..tls import Given, Handshake, ServerTls
from .logins import Logins
from .script import Part, ReplayMismatchError, Reply, Script

if TYPE_CHECKING:
    from ..certificates import TestCertificates

__all__ = ["ReplayBroker"]


class ReplayBroker:
    """Plays a recording: a file's path, or a ``Recording`` that was read.

    Raises OSError and RecordingError (file and line) for a file that cannot be read, ValueError for a ``speed`` that
    is neither None nor above 0. ``port`` is for the first bootstrap address; 0 is a free one.

    ``sasl_users`` are passwords by name: clients log in with them by PLAIN or SCRAM, whatever was recorded. ``tls``
    lets clients use TLS, recorded or not: by a broker's options, ``{"ssl_keystore_location": …}``, or with True by
    ``certificates`` that are made for it. Raises ConfigurationError for unusable options.
    """

    def __init__(
        self,
        recording: str | os.PathLike[str] | Recording,
        *,
        speed: float | None = 1.0,
        port: int = 0,
        sasl_users: Mapping[str, str] | None = None,
        tls: Given = False,
    ) -> None:
        if speed is not None and not (math.isfinite(speed) and speed > 0):
            raise ValueError(f"speed={speed}: write a number above 0, or None for no delays")
        if not 0 <= port <= LAST_PORT:
            raise ValueError(f"port={port}: write 0 to {LAST_PORT}")
        self.recording = recording if isinstance(recording, Recording) else Recording.read(recording)
        self.speed = speed
        self.on_mismatch: Callable[[ReplayMismatchError], object] | None = None
        """Called with each of ``mismatches`` as it is found; it must not raise."""
        self._first_port = port
        self._logins = Logins(sasl_users) if sasl_users else None
        self._tls = ServerTls(tls)
        self._handshakes: set[Handshake] = set()
        self._script = Script(self.recording, self._logins)
        self._servers: list[asyncio.Server] = []
        self._ports: dict[tuple[str, int], int] = {}
        self._connections: set[_Connection] = set()

    async def __aenter__(self) -> Self:
        """As ``start``."""
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        """As ``stop``."""
        await self.stop()

    async def start(self) -> None:
        """Listen; ``bootstrap_servers`` is known from here on. Raises OSError. A recording is played from its start."""
        self._script = Script(self.recording, self._logins)
        loop = asyncio.get_running_loop()
        try:
            for number, address in enumerate(self._all_addresses()):
                first = self._first_port if number == 0 else 0
                port = first or free_port(self._ports.values())
                connected = partial(self._accept, address)
                self._servers.append(await loop.create_server(connected, LOOPBACK, port))
                self._ports[address] = port
        except OSError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop listening, and end all connections. May be called again."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        self._ports.clear()
        open_ones = list(self._connections)
        for handshake in list(self._handshakes):
            handshake.abort()
        for connection in open_ones:
            connection.close(reset=True)
        await asyncio.gather(*(connection.closed for connection in open_ones))
        await asyncio.gather(*(server.wait_closed() for server in servers))

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients; RuntimeError before ``start``."""
        if not self._ports:
            raise RuntimeError("the replay is not running: start it, or use async with")
        return ",".join(f"{LOOPBACK}:{self._ports[address]}" for address in self.recording.bootstrap_servers)

    @property
    def certificates(self) -> TestCertificates | None:
        """The certificates that were made for ``tls=True``: ``certificates.client_options()`` are a client's
        options.
        """
        return self._tls.certificates

    @property
    def mismatches(self) -> list[ReplayMismatchError]:
        """The requests so far that are missing from the recording."""
        return self._script.mismatches

    @property
    def unplayed(self) -> list[str]:
        """Requests of the recording that have not come, in words, without optional ones."""
        return self._script.unplayed

    def check(self) -> None:
        """Raise the first of ``mismatches``."""
        if self.mismatches:
            raise self.mismatches[0]

    # for the connections

    def part_at(self, address: tuple[str, int]) -> Part:
        """The recorded connection that a new one plays."""
        return self._script.connect(address)

    def joined(self, connection: _Connection) -> None:
        """A client has connected."""
        self._connections.add(connection)

    def left(self, connection: _Connection) -> None:
        """A client has gone."""
        self._connections.discard(connection)

    def mismatched(self, mismatch: ReplayMismatchError) -> None:
        """A request came that is missing from the recording; the script has kept it."""
        if self.on_mismatch is not None:
            self.on_mismatch(mismatch)

    def seconds(self, recorded: float) -> float:
        """The duration in this replay."""
        return 0.0 if self.speed is None else recorded / self.speed

    def bytes_of(self, reply: Reply) -> bytes:
        """An answer with our addresses."""
        answer = reply.answer or b""
        return answer if reply.exchange is None else self._renamed(reply.exchange, answer, self._rename)

    # internals

    def _accept(self, address: tuple[str, int]) -> asyncio.Protocol:
        connection = _Connection(self, address)
        handshake = self._tls.handshake(connection)
        if handshake is None:
            return connection
        self._handshakes.add(handshake)
        handshake.future.add_done_callback(lambda _: self._handshakes.discard(handshake))
        return handshake.protocol

    def _rename(self, _: int, host: str, port: int) -> tuple[str, int]:
        ours = self._ports.get((host, port))
        return (host, port) if ours is None else (LOOPBACK, ours)

    @staticmethod
    def _renamed(exchange: Exchange, answer: bytes, rename: Rename) -> bytes:
        if len(answer) < 8 or int.from_bytes(answer[:4]) != len(answer) - 4:
            return answer  # torn
        return rewrite_addresses(exchange.api_key, exchange.header.api_version, answer[4:], rename)

    def _all_addresses(self) -> list[tuple[str, int]]:
        """The addresses that clients connected to, and those that answers name."""
        found = dict.fromkeys(self.recording.addresses)

        def note(_: int, host: str, port: int) -> tuple[str, int]:
            found.setdefault((host, port))
            return host, port

        for exchange in self.recording.exchanges:
            self._renamed(exchange, exchange.answer or b"", note)
        return list(found)


class _Connection(asyncio.Protocol):
    """A client, and the answers that are on their way to it."""

    def __init__(self, broker: ReplayBroker, address: tuple[str, int]) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._decoder = FrameDecoder(MAX_FRAME)
        self._address = address
        self._part: Part
        self._transport: asyncio.Transport | None = None
        self._due: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_ending = False
        self._is_last = False  # nothing is answered after the due answers
        self.closed = self._loop.create_future()

    def close(self, *, reset: bool) -> None:
        """End the connection now."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_ending = True
        if self._transport is None or self._transport.is_closing():
            return
        if reset:
            reset_connection(self._transport)
        else:
            self._transport.close()

    # asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self._part = self._broker.part_at(self._address)
        self._broker.joined(self)
        self._pump()

    def data_received(self, data: bytes) -> None:
        if self._is_ending or self._is_last:
            return
        try:
            for frame in self._decoder.feed(data):
                self._handle(self._part.ask(frame, self._loop.time()))
        except MalformedFrameError:
            self.close(reset=False)
            return
        except ReplayMismatchError as mismatch:
            self._broker.mismatched(mismatch)
            self.close(reset=False)
            return
        self._pump()

    def connection_lost(self, error: Exception | None) -> None:
        self.close(reset=False)
        self._part.ended()
        self._broker.left(self)
        self.closed.set_result(None)

    # internals

    def _handle(self, reply: Reply) -> None:
        now = self._loop.time()
        self._is_last |= reply.is_last
        if reply.answer:
            self._due.append((now + self._broker.seconds(reply.delay), self._broker.bytes_of(reply)))
        for data in self._part.unasked():
            self._due.append((now, data))

    def _pump(self) -> None:
        """Send each due answer, and end the connection at the recorded end."""
        while self._due and self._due[0][0] <= self._loop.time():
            _, data = self._due.popleft()
            if self._transport is not None:
                self._transport.write(data)
        if self._due:
            self._wake_at(self._due[0][0], self._pump)
        elif self._is_last:
            self.close(reset=False)
        elif (end := self._part.end()) is not None and not self._is_ending:
            after, reset = end
            self._is_ending = True
            self._wake_at(self._loop.time() + self._broker.seconds(after), lambda: self.close(reset=reset))

    def _wake_at(self, when: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, call)
