"""The ports of a ``FaultProxy``: one ``Gate`` for each real address.

A gate keeps its port for the proxy's life. It starts and stops to listen synchronously, with a reader on the socket
instead of a task, so that closing it leaves nothing behind; a connection is a ``Link``, which is registered in the call
that accepts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import Generic, Protocol, TypeVar

from aiokafkapy.testing.recording import ConnectionRecorder
from aiokafkapy.testing.servers.ports import LOOPBACK
from aiokafkapy.testing.tls import Handshake, ServerTls

from .links import Link, Mode
from .requests import Answer, Request

__all__ = ["Gate", "PerNode", "Traffic"]

_BACKLOG = 1024
_ACCEPTS_PER_TURN = 32

T = TypeVar("T")


class PerNode(Generic[T]):
    """A setting for all nodes, with exceptions for single nodes."""

    def __init__(self, value: T) -> None:
        self._value = value
        self._by_node: dict[int, T] = {}

    def set(self, value: T, node_id: int | None) -> None:
        """Set it for one node, or with None for all, which removes the exceptions."""
        if node_id is None:
            self._value = value
            self._by_node.clear()
        else:
            self._by_node[node_id] = value

    def of(self, node_id: int | None) -> T:
        """The setting of a node; ``node_id`` None is a node that is not known yet."""
        return self._value if node_id is None else self._by_node.get(node_id, self._value)


class Traffic(Protocol):
    """The part of the proxy that gates and links use."""

    modes: PerNode[Mode]
    rates: PerNode[float | None]
    refusals: PerNode[bool]
    client_tls: ServerTls

    def next_connection(self) -> int:
        """A new connection's number, from 1."""

    def decide(self, request: Request) -> Answer:
        """Record a request, and decide on its ``Answer``."""

    def answer_received(self, request: Request | None, frame: bytes) -> bytes:
        """A broker's response with the proxy's addresses in place of the real ones."""

    def answer_sent(self) -> None:
        """A response, or its replacement, was sent to a client."""

    def met_stranger(self) -> None:
        """A client's bytes are no frames."""

    def greet_broker(self, connection: asyncio.Protocol, host: str) -> Handshake | None:
        """The handshake of a new connection to a broker; None without TLS."""

    def broker_refused(self, address: tuple[str, int], error: OSError) -> None:
        """A handshake with a broker failed."""

    def recorder_of(self, connection: int, gate: Gate) -> ConnectionRecorder | None:
        """The recorder of a new connection; None when nothing is recorded."""

    def as_sent(self, request: Request | None, data: bytes) -> bytes:
        """A response as it is recorded: with the brokers' own addresses."""

    def changed(self) -> None:
        """Something happened that a waiting ``until`` may be about."""


class Gate:
    """A real address, the port where clients reach it, and the links between the two."""

    def __init__(self, traffic: Traffic, target: tuple[str, int], port: int) -> None:
        self.target = target
        self.port = port
        self.connected_at: list[float] = []
        self.links: set[Link] = set()
        self._traffic = traffic
        self._node_id: int | None = None
        self._listener: socket.socket | None = None

    @property
    def node_id(self) -> int | None:
        """The broker last advertised at this address; None before any response has named one."""
        return self._node_id

    @node_id.setter
    def node_id(self, node_id: int) -> None:
        if node_id != self._node_id:
            self._node_id = node_id
            self.apply()

    @property
    def mode(self) -> Mode:
        """See ``Mode``."""
        return self._traffic.modes.of(self._node_id)

    @property
    def bytes_per_second(self) -> float | None:
        """The limit in each direction of each link; None is unlimited."""
        return self._traffic.rates.of(self._node_id)

    def apply(self) -> None:
        """Apply the node's current settings."""
        if self._traffic.refusals.of(self._node_id):
            self.refuse()
        else:
            self.listen()
        for link in list(self.links):
            link.apply_mode()

    def listen(self) -> None:
        """Start to accept connections; idempotent. OSError if the port has been taken by another process."""
        if self._listener is not None:
            return
        listener = socket.socket()
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind((LOOPBACK, self.port))
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        asyncio.get_running_loop().add_reader(listener, self._on_acceptable)

    def refuse(self) -> None:
        """Close the port; connections in the kernel's backlog are reset."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    # for the links

    def decide(self, request: Request) -> Answer:
        """The ``Answer`` to a request."""
        return self._traffic.decide(request)

    def answer_received(self, request: Request | None, frame: bytes) -> bytes:
        """The bytes that a client gets of a broker's response."""
        return self._traffic.answer_received(request, frame)

    def answer_sent(self) -> None:
        """A response, or its replacement, was sent to a client."""
        self._traffic.answer_sent()

    def met_stranger(self) -> None:
        """A client's bytes are no frames."""
        self._traffic.met_stranger()

    def greet_client(self, connection: asyncio.Protocol) -> Handshake | None:
        """The handshake of a client's connection; None without TLS."""
        return self._traffic.client_tls.handshake(connection)

    def greet_broker(self, connection: asyncio.Protocol) -> Handshake | None:
        """The handshake of a connection to the broker; None without TLS."""
        return self._traffic.greet_broker(connection, self.target[0])

    def broker_refused(self, error: OSError) -> None:
        """The handshake with the broker failed."""
        self._traffic.broker_refused(self.target, error)

    def recorder_of(self, connection: int) -> ConnectionRecorder | None:
        """The recorder of a new link; None when nothing is recorded."""
        return self._traffic.recorder_of(connection, self)

    def as_sent(self, request: Request | None, data: bytes) -> bytes:
        """A response with the brokers' own addresses, for a recording."""
        return self._traffic.as_sent(request, data)

    def link_ended(self, link: Link) -> None:
        """Both its connections are closed."""
        self.links.discard(link)
        self._traffic.changed()

    # asyncio callbacks

    def _on_acceptable(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if self._listener is None:
                return
            try:
                connection, _ = self._listener.accept()
            except OSError:  # the client has gone, or there are too many files: the loop calls again
                return
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connected_at.append(time.monotonic())
            self.links.add(Link(self, self._traffic.next_connection(), connection))
            self._traffic.changed()
