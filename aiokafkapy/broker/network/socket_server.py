"""The network half of one node: an Acceptor, Processors, and the queues between them and the request handlers.

``SocketServer`` owns the listeners, each with its listening socket (Acceptor) and N Processors, and the RequestChannel.
It must not know the content of a request: it moves frames. Kafka's counterpart is ``SocketServer``; in place of threads
and selectors there are one reader callback, N tasks and one ``asyncio.Protocol`` per connection. The names, the bounds,
the round robin and the muting are Kafka's.

Rules:

- All queues between the parts are bounded, and a full one stops its producer: the Acceptor stops accepting, a Processor
  stops reading.
- Starting and stopping are synchronous; only waiting for the tasks to end (``wait_stopped``) is not.
- Nothing polls: every task waits for an event that another part sets.

Event: ``broker.tls_handshake_failed`` (warning, about ten lines a minute for each listener).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Mapping, Sequence
from typing import cast

from ...observability import RateLimitedLogger, get_logger
from ...sockets import current_network
from ..config import BrokerConfig
from ..context import ConnectionInfo
from ..listeners import Endpoint
from .acceptor import Acceptor, NewSession
from .bound_socket import bound_socket
from .client_connection import ClientConnection
from .connection_quotas import ConnectionQuotas
from .processor import ConnectionMetrics, Processor
from .request_channel import RequestChannel

__all__ = ["SocketServer"]

logger = get_logger(__name__)


class SocketServer:
    """One node's listeners and everything behind them. ``is_stalled``: reads nothing, writes nothing (a fault)."""

    def __init__(
        self,
        config: BrokerConfig,
        request_channel: RequestChannel,
        endpoints: Sequence[Endpoint],
        new_session: NewSession,
    ) -> None:
        """``new_session`` makes the session that authenticates a connection of the listener of this name; None for a
        listener without authentication.
        """
        limits = {endpoint.name: endpoint.config.listener_max_connections for endpoint in endpoints}
        self.request_channel = request_channel
        self.quotas = ConnectionQuotas(config, limits)
        self.metrics = ConnectionMetrics()
        self.is_stalled = False
        self._endpoints = endpoints
        self._new_session = new_session
        # Each listener has its own, as in Kafka: num.network.threads is their number for each.
        self._processors = {
            endpoint.name: [Processor(number, self, endpoint) for number in range(config.num_network_threads)]
            for endpoint in endpoints
        }
        self.processors = [processor for processors in self._processors.values() for processor in processors]
        self._acceptors: list[Acceptor] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._client_errors = RateLimitedLogger(logger)

    def start(self, ports: Mapping[str, int], sockets: Mapping[str, socket.socket]) -> dict[str, int]:
        """Listen on these ports (0: a free one) by listener, and return them. ``sockets`` listen already.

        Raises OSError when one cannot be obtained, and ConfigurationError when a certificate cannot be read; nothing is
        left behind then.
        """
        listening: dict[str, socket.socket] = {}
        try:
            for each in self._endpoints:
                if each.tls is not None:
                    each.tls.context()
                given = sockets.get(each.name)
                listening[each.name] = _listening_socket(each.host, ports[each.name], each.config, given)
        except BaseException:
            for listener in (*listening.values(), *sockets.values()):
                listener.close()
            raise
        for each, listener in zip(self._endpoints, listening.values(), strict=True):
            acceptor = Acceptor(
                listener, self._processors[each.name], self.quotas, self.metrics, each, self._new_session
            )
            acceptor.start()
            self._acceptors.append(acceptor)
        self._tasks = [asyncio.create_task(each.run(), name=f"kafka-processor-{each.name}") for each in self.processors]
        return {name: int(listener.getsockname()[1]) for name, listener in listening.items()}

    def stop(self) -> None:
        """Close the listeners and every connection, and tell the tasks to end."""
        for acceptor in self._acceptors:
            acceptor.stop()
        self._acceptors.clear()
        for processor in self.processors:
            processor.stop()
        self.request_channel.drop_requests()

    def on_handshake_failed(self, info: ConnectionInfo, error: BaseException) -> None:
        """Count and log a failed TLS handshake; its connection is closed."""
        self.metrics.failed_authentications += 1
        self._client_errors.log(
            info.listener,
            time.monotonic(),
            logging.WARNING,
            "broker.tls_handshake_failed",
            listener=info.listener,
            remote=info.connection_id,
            error=str(error),
        )

    @property
    def is_stopped(self) -> bool:
        """Whether every task has ended."""
        return all(task.done() for task in self._tasks)

    async def wait_stopped(self) -> None:
        """Return when every task of this server has ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def connections(self) -> list[ClientConnection]:
        """The open connections."""
        return [connection for processor in self.processors for connection in processor.connections]

    def drop_connections(self) -> int:
        """Abort every connection and return their number."""
        connections = self.connections
        for connection in connections:
            connection.close()
        return len(connections)

    def stall(self, is_stalled: bool) -> None:
        """Stop reading and writing on every connection, those to come included, or go on."""
        self.is_stalled = is_stalled
        for processor in self.processors:
            processor.update()


def _listening_socket(host: str, port: int, config: BrokerConfig, given: socket.socket | None) -> socket.socket:
    network = current_network()
    if network is not None:
        return cast("socket.socket", network.listener(host, port))
    listener = bound_socket(host, port) if given is None else given
    try:
        listener.setblocking(False)
        if config.socket_receive_buffer_bytes != -1:
            # Before listen: accepted sockets inherit it, and the window scale is agreed on in the handshake.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
        listener.listen(config.socket_listen_backlog_size)
    except BaseException:
        listener.close()
        raise
    return listener
