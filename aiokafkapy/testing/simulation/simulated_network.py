"""The network between simulated nodes: TCP as its ends see it, with delays and faults.

Bytes of one direction of one connection arrive in order and in pieces of any size; connections overtake one another.
A write that finds the window full waits in the sender's buffer, and ``pause_writing`` says so, as for a full socket.

Faults: ``reset`` ends connections by RST, in the middle of frames too; ``vanish`` makes connections swallow all data in
both directions; a port may refuse connections or never answer them; delays and piece sizes can be changed at any time,
from the next byte on.

Rules: every choice is made by the one ``random.Random`` given; every event goes to ``trace``.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import socket
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar, TypeVarTuple

from ...sockets import SocketAddress, SocketLike

__all__ = ["SimulatedListener", "SimulatedNetwork", "SimulatedSocket"]

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

WINDOW = 65_536
"""The most bytes on their way, or unread, before a writer has to keep the rest."""
CLIENT_PORT = 40_000


@dataclass(eq=False)
class SimulatedListener:
    """Stands for a broker's listening socket."""

    network: SimulatedNetwork
    port: int
    backlog: deque[tuple[_Accepted, tuple[str, int]]] = field(default_factory=deque)

    def getsockname(self) -> tuple[str, int]:
        """The loopback address, and the port."""
        return "127.0.0.1", self.port

    def accept(self) -> tuple[_Accepted, tuple[str, int]]:
        """The next client's connection and address; BlockingIOError if no client waits."""
        if not self.backlog:
            raise BlockingIOError
        return self.backlog.popleft()

    def close(self) -> None:
        """Stop listening; clients that were not accepted are reset."""
        self.network.listeners.pop(self.port, None)
        while self.backlog:
            accepted, _ = self.backlog.popleft()
            accepted.end.peer.fail(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))


class SimulatedNetwork:
    """All listeners and connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random, trace: Callable[..., None]) -> None:
        self.loop = loop
        self.chance = chance
        self.trace = trace
        self.listeners: dict[int, SimulatedListener] = {}
        self.ports: set[int] = set()  # ports that ever had a listener
        self.connections: list[Connection] = []
        # faults
        self.delay = (0.0002, 0.002)
        self.largest_piece = 1 << 20
        self.refusing: set[int] = set()
        self.silent: set[int] = set()
        self._acceptable: dict[SimulatedListener, Callable[[], None]] = {}
        self._connected: dict[int, _End] = {}
        self._last_port = 9_000
        self._last_client_port = CLIENT_PORT

    # for our clients and the dev broker, see ``aiokafkapy.sockets``

    def new_socket(self, family: int) -> SimulatedSocket:
        """A socket that is not connected."""
        return SimulatedSocket(family)

    def listener(self, _: str, port: int) -> SimulatedListener:
        """A listener at this port, or at a free one for 0. Raises OSError if it is taken."""
        if port in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        if not port:
            self._last_port += 1
            port = self._last_port
        self.ports.add(port)
        listener = self.listeners[port] = SimulatedListener(self, port)
        return listener

    async def speaks_tls(self) -> bool:
        """False: no listener here speaks TLS."""
        await asyncio.sleep(self.chance.uniform(*self.delay))
        return False

    async def sasl_mechanisms(self) -> None:
        """None: listeners here have no SASL."""
        await asyncio.sleep(self.chance.uniform(*self.delay))

    # faults

    def reset(self, port: int | None = None) -> int:
        """End the open connections to a port, or all, by RST; returns their number."""
        chosen = [each for each in self.connections if port in (None, each.port)]
        for connection in chosen:
            connection.reset()
        return len(chosen)

    def vanish(self, port: int | None = None) -> int:
        """From now on the open connections to a port, or all, swallow all bytes."""
        chosen = [each for each in self.connections if port in (None, each.port)]
        for connection in chosen:
            connection.has_vanished = True
        return len(chosen)

    def heal_speed(self) -> None:
        """Restore the delays and piece sizes of the start."""
        self.delay, self.largest_piece = (0.0002, 0.002), 1 << 20

    def heal(self) -> None:
        """End the faults of new connections; vanished connections stay vanished."""
        self.heal_speed()
        self.refusing.clear()
        self.silent.clear()

    # connections

    async def connect(self, sock: SocketLike, address: SocketAddress) -> None:
        """As ``loop.sock_connect``; never returns if the port is silent."""
        port = address[1]
        await asyncio.sleep(self.chance.uniform(*self.delay))
        if port in self.silent:
            await self.loop.create_future()
        listener = self.listeners.get(port)
        if listener is None or port in self.refusing:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self._last_client_port += 1
        connection = Connection(self, port, self._last_client_port)
        connection.client.has(sock)
        self._connected[id(sock)] = connection.client
        listener.backlog.append((_Accepted(connection.server), ("127.0.0.1", connection.client_port)))
        on_acceptable = self._acceptable.get(listener)
        if on_acceptable is not None:
            self.loop.call_soon(on_acceptable)

    def open(self, sock: SocketLike, protocol: asyncio.Protocol) -> asyncio.Transport:
        """The transport of a connected or an accepted socket. Raises ConnectionResetError."""
        if isinstance(sock, _Accepted):
            return sock.end.open(protocol, sock)
        return self._connected.pop(id(sock)).open(protocol, sock)

    def listen(self, listener: SimulatedListener, on_acceptable: Callable[[], None]) -> None:
        """Call back when a connection can be accepted."""
        self._acceptable[listener] = on_acceptable
        if listener.backlog:
            self.loop.call_soon(on_acceptable)

    def listen_no_more(self, listener: SimulatedListener) -> bool:
        """Stop calling back; True if there was a callback."""
        return self._acceptable.pop(listener, None) is not None

    # for the ends of connections

    def size_of_piece(self, most: int) -> int:
        """The number of bytes that travel together, at most ``most``."""
        return most if self.chance.random() < 0.7 else self.chance.randint(1, most)

    def deliver(self, end: _End, callback: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call back when the bytes that this end sends now arrive: later than all earlier bytes (timers that are due
        together may swap).
        """
        end.next_arrival = max(end.next_arrival + 1e-7, self.loop.time() + self.chance.uniform(*self.delay))
        self.loop.call_at(end.next_arrival, callback, *arguments)


class SimulatedSocket:
    """Stands for a client's socket. As with a real one, it must be closed."""

    type = socket.SOCK_STREAM

    def __init__(self, family: int) -> None:
        self.family = family
        self._is_closed = False

    def setblocking(self, _: bool) -> None:
        pass

    def setsockopt(self, *_: object) -> None:
        pass

    def fileno(self) -> int:
        return -1 if self._is_closed else 0

    def close(self) -> None:
        self._is_closed = True

    def detach(self) -> int:
        self._is_closed = True
        return -1

    def __del__(self) -> None:
        if not self._is_closed:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)


class Connection:
    """Two ends that send to each other."""

    def __init__(self, network: SimulatedNetwork, port: int, client_port: int) -> None:
        self.port = port
        self.client_port = client_port
        self.has_vanished = False
        self.client = _End(network, self, "client")
        self.server = _End(network, self, "server")
        self.client.peer, self.server.peer = self.server, self.client
        network.connections.append(self)

    def reset(self) -> None:
        """RST, seen by both ends now."""
        for end in (self.client, self.server):
            end.fail(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))


@dataclass(eq=False)
class _Accepted:
    """Stands for an accepted socket."""

    end: _End

    def setblocking(self, _: bool) -> None:
        pass

    def setsockopt(self, *_: object) -> None:
        pass

    def close(self) -> None:
        self.end.abort()


class _End(asyncio.Transport):
    """One end of a connection, and the bytes on their way from it."""

    peer: _End

    def __init__(self, network: SimulatedNetwork, connection: Connection, name: str) -> None:
        super().__init__()
        self._network = network
        self._connection = connection
        self._name = f"{name} {connection.client_port}-{connection.port}"
        self._protocol: asyncio.Protocol | None = None
        self._sock: SocketLike | None = None
        # sending
        self._buffer = bytearray()  # bytes that the window has no room for
        self._on_its_way = 0
        self._high_water = 65_536
        self._is_paused = False
        self.next_arrival = 0.0
        # receiving
        self._unread = bytearray()
        self._may_read = True
        self._reached_end = False
        # ending
        self._is_closing = False

    def has(self, sock: SocketLike) -> None:
        """The socket that stands for this end, until there is a transport."""
        self._sock = sock

    @property
    def is_left(self) -> bool:
        """True if it was not closed, neither by the transport nor by a socket that never had one."""
        has_open_socket = isinstance(self._sock, SimulatedSocket) and self._sock.fileno() >= 0
        return not self._is_closing and (self._protocol is not None or has_open_socket)

    def open(self, protocol: asyncio.Protocol, sock: SocketLike) -> _End:
        """Begin: the socket is this transport's from here on."""
        if self._is_closing:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        self._protocol = protocol
        self._sock = sock
        protocol.connection_made(self)
        self._network.loop.call_soon(self._read)
        return self

    # asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not len(data):
            return
        self._buffer += data
        self._send()

    def writelines(self, buffers: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(buffers))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_water = 65_536 if high is None else high

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def pause_reading(self) -> None:
        self._may_read = False

    def resume_reading(self) -> None:
        self._may_read = True
        self._network.loop.call_soon(self._read)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_extra_info(self, name: str, default: T | None = None) -> T | None:
        return default

    def get_protocol(self) -> asyncio.Protocol:
        assert self._protocol is not None
        return self._protocol

    def close(self) -> None:
        """As ``abort``: no caller here needs the buffer sent first."""
        self.abort()

    def abort(self) -> None:
        if not self._is_closing:
            self.fail(None)
            if not self._connection.has_vanished:
                # Earlier bytes arrive before the end; later bytes of the peer meet a closed socket.
                self._network.deliver(self, self.peer.reach_end)

    # the network's verbs

    def fail(self, error: Exception | None) -> None:
        """This end is gone."""
        if self._is_closing:
            return
        self._is_closing = True
        self._buffer.clear()
        self._network.trace("closed", self._name, error)
        self._network.loop.call_soon(self._lose, error)

    def arrive(self, piece: bytes) -> None:
        """A piece of the peer's bytes."""
        self.peer._on_its_way -= len(piece)
        if not self._is_closing and not self._connection.has_vanished:
            self._unread += piece
            self._read()
        self.peer._send()

    def reach_end(self) -> None:
        """The peer has closed, and its bytes have arrived."""
        self._reached_end = True
        self._read()

    # internals

    def _send(self) -> None:
        if self._connection.has_vanished:
            # The kernel takes the bytes that it has room for, and no acknowledgement will ever come.
            taken = min(WINDOW - self._on_its_way, len(self._buffer))
            del self._buffer[:taken]
            self._on_its_way += taken
        while self._buffer and not self._is_closing and self._on_its_way < WINDOW:
            network = self._network
            most = min(network.largest_piece, WINDOW - self._on_its_way, len(self._buffer))
            size = network.size_of_piece(most)
            piece = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._on_its_way += size
            network.deliver(self, self.peer.arrive, piece)
        self._update_writing()

    def _update_writing(self) -> None:
        if self._protocol is None or self._is_closing:
            return
        if not self._is_paused and len(self._buffer) > self._high_water:
            self._is_paused = True
            self._protocol.pause_writing()
        elif self._is_paused and not self._buffer:
            self._is_paused = False
            self._protocol.resume_writing()

    def _read(self) -> None:
        if self._protocol is None or self._is_closing or not self._may_read:
            return
        if self._unread:
            data = bytes(self._unread)
            self._unread.clear()
            self._network.trace("data", self._name, len(data))
            self._protocol.data_received(data)
        if self._reached_end and self._may_read:
            self.fail(None)

    def _lose(self, error: Exception | None) -> None:
        if self._sock is not None:
            self._sock.close()
        connections = self._network.connections
        if self.peer._is_closing and self._connection in connections:
            connections.remove(self._connection)
        if self._protocol is not None:
            self._protocol.connection_lost(error)
