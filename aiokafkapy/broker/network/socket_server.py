"""The network half of one node: an Acceptor, Processors, and the queues between them and the request handlers.

``SocketServer`` owns the listeners, each with its listening socket (Acceptor) and N Processors, and the RequestChannel.
It must not know the content of a request: it moves frames. Kafka's counterparts are ``SocketServer``, ``Acceptor`` and
``Processor``; in place of threads and selectors there are one reader callback, N tasks and one ``asyncio.Protocol`` per
connection. The names, the bounds, the round robin and the muting are Kafka's.

Rules:

- All queues between the parts are bounded, and a full one stops its producer: the Acceptor stops accepting, a Processor
  stops reading.
- Starting and stopping are synchronous; only waiting for the tasks to end (``wait_stopped``) is not.
- Nothing polls: every task waits for an event that another part sets.
- A TLS handshake (``TlsTransport``) goes on beside its Processor. It counts against the quotas from the start and has a
  time-out; a failed one closes only its own connection.

Event: ``broker.tls_handshake_failed`` (warning, about ten lines a minute for each listener).
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ...common import format_address
from ...errors import AuthenticationFailedError
from ...observability import RateLimitedLogger, get_logger
from ...security.tls_transport import TlsTransport
from ...sockets import connections_of, current_network, hand_over
from ..config import BrokerConfig
from ..context import ConnectionInfo
from ..listeners import Endpoint
from ..principals import distinguished_name
from ..security.sasl_session import SaslSession
from .bound_socket import bound_socket
from .client_connection import ClientConnection
from .connection_quotas import ConnectionQuotas, TooManyConnectionsError
from .request_channel import Request, RequestChannel, Response, ResponseAction

if TYPE_CHECKING:
    from ...security.tls import TlsContexts

__all__ = ["Acceptor", "ConnectionMetrics", "NewSession", "Processor", "SocketServer"]

logger = get_logger(__name__)

# Kafka's Processor.ConnectionQueueSize.
CONNECTION_QUEUE_SIZE = 20

# How many connections are accepted in one turn of the loop before others get theirs.
ACCEPTS_PER_TURN = 64

# Out of file descriptors: accepting again at once would spin (asyncio's own servers wait as long).
ACCEPT_RETRY_DELAY = 1.0

# A TLS handshake that takes longer is given up, so that half-open ones do not hold their places for ever.
TLS_HANDSHAKE_TIMEOUT = 30.0

NewSession = Callable[[str], SaslSession | None]


@dataclass(slots=True)
class ConnectionMetrics:
    """Counts of one node's connections, by how they began and ended."""

    accepted: int = 0
    refused: int = 0  # over a per-address quota
    disconnected: int = 0  # ended for any reason
    expired: int = 0  # closed by us because they were idle
    invalid: int = 0  # closed by us because of a frame's size
    failed_authentications: int = 0  # TLS handshakes and SASL exchanges


class SocketServer:
    """One node's listeners and everything behind them. ``is_stalled``: reads nothing, writes nothing (a fault)."""

    def __init__(
        self,
        config: BrokerConfig,
        request_channel: RequestChannel,
        endpoints: Sequence[Endpoint],
        new_session: NewSession = lambda listener: None,
    ) -> None:
        """``new_session`` makes the session that authenticates a connection of the listener of this name; None where
        nobody is authenticated.
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
        """Give a connection to the next Processor in turn that has room; there is one, or nothing had been accepted."""
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
        info = ConnectionInfo(format_address(host, port), endpoint.name, host, port, endpoint.security_protocol)
        info.session = self._new_session(endpoint.name)
        self.assign_new_connection(connection, info)


class Processor:
    """A share of the connections: sets them up, queues their requests, writes their responses, closes the idle ones."""

    def __init__(self, number: int, server: SocketServer, endpoint: Endpoint) -> None:
        self.name = f"{endpoint.name}-{number}"
        self._server = server
        self._endpoint = endpoint
        self._max_idle = endpoint.config.connections_max_idle_ms / 1000

        # The queues, and the event that wakes the task
        self._new_connections: deque[tuple[socket.socket, ConnectionInfo]] = deque()
        self._responses: deque[Response] = deque()
        self._wakeup = asyncio.Event()
        self._is_refused = False  # the request queue was full
        self._is_stopped = False
        self.when_room: Callable[[], None] | None = None

        # Connections whose TLS handshake is not done; then, least recently used first, with the time of the last use
        self._handshakes: dict[ClientConnection, TlsTransport] = {}
        self._last_used: OrderedDict[ClientConnection, float] = OrderedDict()
        self._idle_timer: asyncio.TimerHandle | None = None

    # for the Acceptor

    @property
    def has_room(self) -> bool:
        """Whether another new connection may be queued."""
        return len(self._new_connections) < CONNECTION_QUEUE_SIZE

    def accept(self, connection: socket.socket, info: ConnectionInfo) -> None:
        """Queue a new connection; it counts against the quotas already."""
        self._new_connections.append((connection, info))
        self._wakeup.set()

    # for the request handlers

    def enqueue_response(self, response: Response) -> None:
        """Write a response to one of this Processor's requests: now, or when a stall is over."""
        # Not by the task: waking it would cost a turn of the loop for every response.
        response.enqueued = time.monotonic()
        self._responses.append(response)
        if not self._is_stopped:
            self._process_new_responses()

    def resume_requests(self) -> None:
        """The request queue has room again: hand on the waiting requests, then read on."""
        self._is_refused = False
        for connection in self.connections:
            if self._is_refused:
                return
            connection.offer_again()
        self.update()

    # for the server

    @property
    def connections(self) -> list[ClientConnection]:
        """This Processor's open connections, least recently used first."""
        return list(self._last_used)

    async def run(self) -> None:
        """The task: until stopped, set up new connections, and write the responses that a stall held back."""
        while not self._is_stopped:
            await self._wakeup.wait()
            self._wakeup.clear()
            self._process_new_responses()
            while self._new_connections:
                await self._configure_new_connection()
                self._process_new_responses()

    def update(self) -> None:
        """Apply a change of ``may_read``, and write the responses that a stall held back."""
        for connection in self.connections:
            connection.update_reading()
        self._wakeup.set()

    def stop(self) -> None:
        """Close every connection, also those not set up yet, and let the task end."""
        # Not by cancelling it: a connection that is being set up must be uncounted exactly once.
        self._is_stopped = True
        self._wakeup.set()
        for connection in self.connections:
            connection.close()
        for connection, handshake in list(self._handshakes.items()):
            if handshake.was_connected:  # else the task is about to see that we have stopped
                self._give_up(connection)
        while self._new_connections:
            waiting, info = self._new_connections.popleft()
            waiting.close()
            self._count_out(info)
        self._responses.clear()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    # for the connections

    @property
    def may_read(self) -> bool:
        """Whether requests are taken at all now."""
        return not self._is_refused and not self._server.is_stalled

    def on_connected(self, connection: ClientConnection) -> None:
        """Count it in."""
        self._handshakes.pop(connection, None)
        self._last_used[connection] = now = time.monotonic()
        self._arm_idle_timer(now)
        subject = connection.peer_subject if self._endpoint.tls is not None else None
        if subject is None or self._endpoint.has_sasl:
            return
        name = distinguished_name(subject)
        principal = self._endpoint.principal_rules.principal(name)
        if principal is None:
            error = AuthenticationFailedError(f"no rule of ssl.principal.mapping.rules fits {name!r}")
            self._server.on_handshake_failed(connection.info, error)
            connection.close()
        else:
            connection.info.principal = principal

    def on_request(self, connection: ClientConnection, buffer: bytes) -> Request | None:
        """Queue a whole frame; None when the request queue is full, and then all of us stop reading."""
        now = time.monotonic()
        self._last_used[connection] = now
        self._last_used.move_to_end(connection)
        request = Request(self, connection, buffer, now)
        if self._server.request_channel.send_request(request):
            return request
        if not self._is_refused:
            self._is_refused = True
            self.update()
        return None

    def on_sent(self, connection: ClientConnection, response: Response) -> None:
        """The response has left: count the times, and unmute at once or when the throttle time is over."""
        now = time.monotonic()
        self._last_used[connection] = now
        self._last_used.move_to_end(connection)
        self._server.request_channel.metrics.record(response, now)
        if response.action is ResponseAction.SEND_AND_CLOSE:
            connection.close()
        elif response.throttle > 0:
            connection.throttle(response.throttle)
        else:
            connection.unmute()

    def on_disconnected(self, connection: ClientConnection, error: Exception | None) -> None:
        """Count it out."""
        if self._last_used.pop(connection, None) is None:
            return
        if error is not None and not isinstance(error, OSError):
            self._server.metrics.invalid += 1
        self._count_out(connection.info)

    # asyncio callbacks

    def _on_idle_timer(self) -> None:
        self._idle_timer = None
        now = time.monotonic()
        while self._last_used:
            connection, last_used = next(iter(self._last_used.items()))
            if last_used + self._max_idle > now:
                self._arm_idle_timer(last_used)
                return
            self._server.metrics.expired += 1
            connection.close()

    # internals

    def _arm_idle_timer(self, oldest_use: float) -> None:
        if self._idle_timer is None and self._max_idle > 0:
            delay = oldest_use + self._max_idle - time.monotonic()
            self._idle_timer = asyncio.get_running_loop().call_later(delay, self._on_idle_timer)

    async def _configure_new_connection(self) -> None:
        connection, info = self._new_connections.popleft()
        if self.when_room is not None:
            when_room, self.when_room = self.when_room, None
            when_room()
        protocol = ClientConnection(self, info, self._endpoint.config.socket_request_max_bytes)
        handler = protocol if self._endpoint.tls is None else self._new_handshake(self._endpoint.tls, protocol)
        try:
            handler_protocol = protocol if isinstance(handler, ClientConnection) else handler.protocol
            loop = connections_of(asyncio.get_running_loop())
            await hand_over(connection, loop.connect_accepted_socket(lambda: handler_protocol, connection))
        except OSError:
            pass  # gone before it was set up
        if not handler.was_connected:
            self._handshakes.pop(protocol, None)
            connection.close()
            self._count_out(info)
        elif self._is_stopped:
            self._give_up(protocol)

    def _new_handshake(self, tls: TlsContexts, connection: ClientConnection) -> TlsTransport:
        timeout = min(TLS_HANDSHAKE_TIMEOUT, self._max_idle) if self._max_idle > 0 else TLS_HANDSHAKE_TIMEOUT
        handshake = TlsTransport(
            tls.context(), connection, timeout, lambda error: self._on_handshake_done(connection, error)
        )
        self._handshakes[connection] = handshake
        return handshake

    def _on_handshake_done(self, connection: ClientConnection, error: OSError | None) -> None:
        if error is None:
            return  # the connection was told, and so this Processor
        del self._handshakes[connection]
        self._server.on_handshake_failed(connection.info, error)
        self._count_out(connection.info)

    def _give_up(self, connection: ClientConnection) -> None:
        handshake = self._handshakes.pop(connection, None)
        if handshake is None:
            connection.close()  # counted out by ``on_disconnected``
        else:
            handshake.abort()
            self._count_out(connection.info)

    def _count_out(self, info: ConnectionInfo) -> None:
        self._server.metrics.disconnected += 1
        self._server.quotas.decrease(info.listener, info.remote_host)

    def _process_new_responses(self) -> None:
        if self._server.is_stalled:
            return
        now = time.monotonic()
        while self._responses:
            response = self._responses.popleft()
            response.dequeued = now
            connection = response.request.connection
            if response.action is ResponseAction.CLOSE:
                self._server.request_channel.metrics.closed(response)
                connection.close()
            else:
                connection.send(response)


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
