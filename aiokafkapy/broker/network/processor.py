"""A Processor: a share of one listener's connections, on the way in and on the way out.

Owns the setting up of connections, the hand-over of their requests, the writing of responses, and the idle time. It
must not know the content of a request, nor the other Processors. Kafka's counterpart is ``Processor``, with one task in
place of a thread, and one ``asyncio.Protocol`` per connection in place of a selector.

Rules:

- both queues are bounded: a Processor without room for new connections stops the Acceptor, and one whose request was
  refused reads nothing from any of its connections;
- a connection is counted out exactly once;
- a TLS handshake (``TlsTransport``) goes on beside the Processor. It counts against the quotas from the start and has a
  time-out; a failed one closes only its own connection.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from ...errors import AuthenticationFailedError
from ...security.tls_transport import TlsTransport
from ...sockets import connections_of, hand_over
from ..context import ConnectionInfo
from ..listeners import Endpoint
from ..principals import distinguished_name
from .client_connection import ClientConnection
from .connection_quotas import ConnectionQuotas
from .request_channel import Request, RequestChannel, Response, ResponseAction

if TYPE_CHECKING:
    from ...security.tls import TlsContexts

__all__ = ["ConnectionMetrics", "Processor", "ProcessorOwner"]

CONNECTION_QUEUE_SIZE: Final = 20
"""Kafka's ``Processor.ConnectionQueueSize``."""

TLS_HANDSHAKE_TIMEOUT = 30.0
"""Seconds after which a TLS handshake is given up, so that half-open ones do not hold their places forever."""


@dataclass(slots=True)
class ConnectionMetrics:
    """Counts of one node's connections, by their beginnings and ends."""

    accepted: int = 0
    refused: int = 0  # over a per-address quota
    disconnected: int = 0  # ended for any reason
    expired: int = 0  # closed by us because they were idle
    invalid: int = 0  # closed by us because of a frame's size
    failed_authentications: int = 0  # TLS handshakes and SASL exchanges


class ProcessorOwner(Protocol):
    """The server as its Processors see it. ``is_stalled``: nothing is read and nothing is written (a fault)."""

    request_channel: RequestChannel
    quotas: ConnectionQuotas
    metrics: ConnectionMetrics
    is_stalled: bool

    def on_handshake_failed(self, info: ConnectionInfo, error: BaseException) -> None:
        """Count and log a failed TLS handshake."""


class Processor:
    """A share of the connections: sets them up, queues their requests, writes their responses, closes the idle ones."""

    def __init__(self, number: int, owner: ProcessorOwner, endpoint: Endpoint) -> None:
        self.name = f"{endpoint.name}-{number}"
        self._owner = owner
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
        return not self._is_refused and not self._owner.is_stalled

    def on_connected(self, connection: ClientConnection) -> None:
        """Count the connection in."""
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
            self._owner.on_handshake_failed(connection.info, error)
            connection.close()
        else:
            connection.info.principal = principal

    def on_request(self, connection: ClientConnection, buffer: bytes) -> Request | None:
        """Queue a whole frame; None when the request queue is full, and then all connections stop reading."""
        now = time.monotonic()
        self._last_used[connection] = now
        self._last_used.move_to_end(connection)
        request = Request(self, connection, buffer, now)
        if self._owner.request_channel.send_request(request):
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
        self._owner.request_channel.metrics.record(response, now)
        if response.action is ResponseAction.SEND_AND_CLOSE:
            connection.close()
        elif response.throttle > 0:
            connection.throttle(response.throttle)
        else:
            connection.unmute()

    def on_disconnected(self, connection: ClientConnection, error: Exception | None) -> None:
        """Count the connection out."""
        if self._last_used.pop(connection, None) is None:
            return
        if error is not None and not isinstance(error, OSError):
            self._owner.metrics.invalid += 1
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
            self._owner.metrics.expired += 1
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
        self._owner.on_handshake_failed(connection.info, error)
        self._count_out(connection.info)

    def _give_up(self, connection: ClientConnection) -> None:
        handshake = self._handshakes.pop(connection, None)
        if handshake is None:
            connection.close()  # counted out by ``on_disconnected``
        else:
            handshake.abort()
            self._count_out(connection.info)

    def _count_out(self, info: ConnectionInfo) -> None:
        self._owner.metrics.disconnected += 1
        self._owner.quotas.decrease(info.listener, info.remote_host)

    def _process_new_responses(self) -> None:
        if self._owner.is_stalled:
            return
        now = time.monotonic()
        while self._responses:
            response = self._responses.popleft()
            response.dequeued = now
            connection = response.request.connection
            if response.action is ResponseAction.CLOSE:
                self._owner.request_channel.metrics.closed(response)
                connection.close()
            else:
                connection.send(response)
