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

from ..servers.ports import LOOPBACK
from .links import Link
from .traffic import Mode, Traffic

__all__ = ["Gate"]

_BACKLOG = 1024
_ACCEPTS_PER_TURN = 32


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
            self.links.add(Link(self, self._traffic, connection))
            self._traffic.changed()
