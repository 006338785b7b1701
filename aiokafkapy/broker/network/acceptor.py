"""An Acceptor: takes connections from one listening socket and deals them out to the listener's Processors.

Owns the listening socket and the turn of the Processors; it must not know what becomes of a connection. Kafka's
counterpart is ``Acceptor``, with a reader callback in place of a thread.

Rules:

- it accepts nothing while no Processor has room, or while the quotas say so;
- nothing polls: it goes on when a Processor has room, a place is free or the delay of the quotas is over.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from ...common import format_address
from ...sockets import connections_of
from ..context import ConnectionInfo
from ..listeners import Endpoint
from ..security.sasl_session import SaslSession
from .connection_quotas import ConnectionQuotas, TooManyConnectionsError
from .processor import ConnectionMetrics, Processor

__all__ = ["Acceptor", "NewSession"]

ACCEPTS_PER_TURN: Final = 64
"""The most connections accepted in one turn of the loop, so that others get their turn."""

ACCEPT_RETRY_DELAY: Final = 1.0
"""Seconds, when there are no file descriptors: accepting again at once would spin (asyncio's servers wait as long)."""

NewSession = Callable[[str], SaslSession | None]
"""Makes the session of a connection of the listener of this name, None for a listener without authentication."""


class Acceptor:
    """Accepts, asks the quotas, sets socket options, and deals the connections out to the Processors in turn."""

    def __init__(
        self,
        listener: socket.socket,
        processors: Sequence[Processor],
        quotas: ConnectionQuotas,
        metrics: ConnectionMetrics,
        endpoint: Endpoint,
        new_session: NewSession,
    ) -> None:
        self._listener = listener
        self._processors = processors
        self._quotas = quotas
        self._metrics = metrics
        self._endpoint = endpoint
        self._new_session = new_session
        self._next_processor = 0
        self._loop = connections_of(asyncio.get_running_loop())
        self._retry: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Accept from now on."""
        # A reader and not a task: closing the socket between two turns of the loop must leave nothing behind.
        self._loop.add_reader(self._listener, self._on_acceptable)

    def stop(self) -> None:
        """Accept no more and close the socket; the connections in the kernel's backlog are reset."""
        self._is_stopped = True
        self._loop.remove_reader(self._listener)
        if self._retry is not None:
            self._retry.cancel()
        self._listener.close()

    def assign_new_connection(self, connection: socket.socket, info: ConnectionInfo) -> None:
        """Give a connection to the next Processor in turn that has room. One has: nothing is accepted otherwise."""
        for _ in self._processors:
            processor = self._processors[self._next_processor % len(self._processors)]
            self._next_processor += 1
            if processor.has_room:
                processor.accept(connection, info)
                return
        raise AssertionError("accepted without room")

    # asyncio callbacks

    def _on_acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self._may_accept():
                return
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._pause(ACCEPT_RETRY_DELAY)
                return
            self._accepted(connection, address)

    def _resume(self) -> None:
        if not self._is_stopped:
            self._retry = None
            self._loop.add_reader(self._listener, self._on_acceptable)

    # internals

    def _may_accept(self) -> bool:
        if not any(processor.has_room for processor in self._processors):
            self._pause(math.inf)
            for processor in self._processors:
                processor.when_room = self._resume
            return False
        delay = self._quotas.accept_delay(self._endpoint.name, time.monotonic())
        if not delay:
            return True
        self._pause(delay)
        if math.isinf(delay):
            self._quotas.when_slot_is_free(self._resume)
        return False

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        if self._retry is not None:
            self._retry.cancel()
        if math.isfinite(seconds):
            self._retry = self._loop.call_later(seconds, self._resume)

    def _accepted(self, connection: socket.socket, address: tuple[str, int]) -> None:
        host, port = address[:2]
        try:
            self._quotas.increase(self._endpoint.name, host, time.monotonic())
        except TooManyConnectionsError:
            self._metrics.refused += 1
            connection.close()
            return
        self._metrics.accepted += 1
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        send_buffer = self._endpoint.config.socket_send_buffer_bytes
        if send_buffer != -1:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        endpoint = self._endpoint
        info = ConnectionInfo(format_address(host, port), endpoint.name, host, endpoint.security_protocol)
        info.session = self._new_session(endpoint.name)
        self.assign_new_connection(connection, info)
