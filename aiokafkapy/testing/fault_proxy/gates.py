"""The ports of a `FaultProxy`: one `Gate` for each real address.

A gate's port stays the same for the proxy's life. Listening, and ceasing to listen, is synchronous: a reader on the
socket and no task, so that closing it between two turns of the loop leaves nothing behind; a connection is a `Link`
that is registered in the very call that accepts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import Generic, Protocol, TypeVar

from aiokafkapy.testing.ports import LOOPBACK

from .links import Link, Mode
from .requests import Answer, Request

__all__ = ["Gate", "PerNode", "Traffic"]

_BACKLOG = 1024
_ACCEPTS_PER_TURN = 32

T = TypeVar("T")


class PerNode(Generic[T]):
    """A setting for all nodes, and others for some."""

    def __init__(self, value: T) -> None:
        self._value = value
        self._by_node: dict[int, T] = {}

    def set(self, value: T, node_id: int | None) -> None:
        """For one node; None: for all, also for those that had another."""
        if node_id is None:
            self._value = value
            self._by_node.clear()
        else:
            self._by_node[node_id] = value

    def of(self, node_id: int | None) -> T:
        """What holds for a node, or for one that is not known yet."""
        return self._value if node_id is None else self._by_node.get(node_id, self._value)


class Traffic(Protocol):
    """What gates and links need of the proxy."""

    modes: PerNode[Mode]
    rates: PerNode[float | None]
    refusals: PerNode[bool]

    def next_connection(self) -> int: ...

    def decide(self, request: Request) -> Answer: ...

    def answer_received(self, request: Request | None, frame: bytes) -> bytes: ...

    def answer_sent(self) -> None: ...

    def changed(self) -> None: ...


class Gate:
    """A real address, the port where clients find it, and the links between."""

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
        """The broker that was last said to be here; None: nobody has named one."""
        return self._node_id

    @node_id.setter
    def node_id(self, node_id: int) -> None:
        if node_id != self._node_id:
            self._node_id = node_id
            self.apply()

    @property
    def mode(self) -> Mode:
        """See `Mode`."""
        return self._traffic.modes.of(self._node_id)

    @property
    def bytes_per_second(self) -> float | None:
        """What may go out, each way, on each link; None: anything."""
        return self._traffic.rates.of(self._node_id)

    def apply(self) -> None:
        """Do what is set for this node now."""
        if self._traffic.refusals.of(self._node_id):
            self.refuse()
        else:
            self.listen()
        for link in list(self.links):
            link.apply_mode()

    def listen(self) -> None:
        """Accept connections, unless we do. OSError when somebody else has taken the port."""
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
        """Close the port; what waits in the kernel's backlog is reset."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    # for the links

    def decide(self, request: Request) -> Answer:
        """What becomes of a request."""
        return self._traffic.decide(request)

    def answer_received(self, request: Request | None, frame: bytes) -> bytes:
        """What a client gets of a broker's answer."""
        return self._traffic.answer_received(request, frame)

    def answer_sent(self) -> None:
        """An answer has gone out, or what was put in its place."""
        self._traffic.answer_sent()

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
            except OSError:  # nobody is there any more, or there is no room for more: the loop asks again
                return
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connected_at.append(time.monotonic())
            self.links.add(Link(self, self._traffic.next_connection(), connection))
            self._traffic.changed()
