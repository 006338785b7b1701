"""The network half of one node: an Acceptor, Processors, and the queues between them and the request handlers.

`SocketServer` owns the listening socket (Acceptor), N Processors and the RequestChannel. It must not know the content
of a request: it moves frames. Kafka's counterparts are `SocketServer`, `Acceptor` and `Processor`; in place of threads
and selectors there are one reader callback, N tasks and one `asyncio.Protocol` per connection. The names, the bounds,
the round robin and the muting are Kafka's.

Rules:
- everything between two parts is a bounded queue, and a part that finds one full takes no more: the Acceptor stops
  accepting, a Processor stops reading;
- starting and stopping are synchronous, so a test can stop a node between two lines; only waiting for the tasks to be
  gone (`wait_stopped`) is not;
- nothing polls: every task waits for an event that another part sets.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from ..config import BrokerConfig
from ..context import ConnectionInfo
from .client_connection import ClientConnection
from .connection_quotas import ConnectionQuotas, TooManyConnectionsError
from .request_channel import Request, RequestChannel, Response, ResponseAction

__all__ = ["Acceptor", "ConnectionMetrics", "Processor", "SocketServer"]

# Kafka's Processor.ConnectionQueueSize.
CONNECTION_QUEUE_SIZE = 20

# How many connections are accepted in one turn of the loop before others get theirs.
ACCEPTS_PER_TURN = 64

# Out of file descriptors: accepting again at once would spin (asyncio's own servers wait as long).
ACCEPT_RETRY_DELAY = 1.0

LISTENER = "PLAINTEXT"


@dataclass(slots=True)
class ConnectionMetrics:
    """Counts of one node's connections, by how they began and ended."""

    accepted: int = 0
    refused: int = 0  # over a per-address quota
    disconnected: int = 0  # ended for any reason
    expired: int = 0  # closed by us because they were idle
    invalid: int = 0  # closed by us because of a frame's size


class SocketServer:
    """One node's listener and everything behind it. `is_stalled`: reads nothing, writes nothing (a fault)."""

    def __init__(self, config: BrokerConfig, request_channel: RequestChannel) -> None:
        self.config = config
        self.request_channel = request_channel
        self.quotas = ConnectionQuotas(config)
        self.metrics = ConnectionMetrics()
        self.is_stalled = False
        self.processors = [Processor(number, self) for number in range(config.num_network_threads)]
        self._acceptor: Acceptor | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, host: str, port: int) -> int:
        """Listen and return the port (a free one for 0). OSError, and nothing left behind, when that cannot be."""
        listener = _listening_socket(host, port, self.config)
        self._acceptor = Acceptor(listener, self.processors, self.quotas, self.metrics, self.config)
        self._acceptor.start()
        self._tasks = [asyncio.create_task(p.run(), name=f"kafka-processor-{p.number}") for p in self.processors]
        return int(listener.getsockname()[1])

    def stop(self) -> None:
        """Close the listener and every connection, and tell the tasks to end."""
        if self._acceptor is not None:
            self._acceptor.stop()
            self._acceptor = None
        for processor in self.processors:
            processor.stop()
        self.request_channel.drop_requests()

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
        processors: list[Processor],
        quotas: ConnectionQuotas,
        metrics: ConnectionMetrics,
        config: BrokerConfig,
    ) -> None:
        self._listener = listener
        self._processors = processors
        self._quotas = quotas
        self._metrics = metrics
        self._config = config
        self._next_processor = 0
        self._loop = asyncio.get_running_loop()
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
        delay = self._quotas.accept_delay(LISTENER, time.monotonic())
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
            self._quotas.increase(LISTENER, host, time.monotonic())
        except TooManyConnectionsError:
            self._metrics.refused += 1
            connection.close()
            return
        self._metrics.accepted += 1
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._config.socket_send_buffer_bytes != -1:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._config.socket_send_buffer_bytes)
        self.assign_new_connection(connection, ConnectionInfo(f"{host}:{port}", LISTENER, host, port))


class Processor:
    """A share of the connections: sets them up, queues their requests, writes their responses, closes the idle ones."""

    def __init__(self, number: int, server: SocketServer) -> None:
        self.number = number
        self._server = server
        self._max_idle = server.config.connections_max_idle_ms / 1000

        # The queues, and the event that wakes the task
        self._new_connections: deque[tuple[socket.socket, ConnectionInfo]] = deque()
        self._responses: deque[Response] = deque()
        self._wakeup = asyncio.Event()
        self._is_refused = False  # the request queue was full
        self._is_stopped = False
        self.when_room: Callable[[], None] | None = None

        # Connections, least recently used first, with the time of the last use
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
        """Queue a response to one of this Processor's requests."""
        response.enqueued = time.monotonic()
        self._responses.append(response)
        self._wakeup.set()

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
        """The task: until stopped, write responses and set up new connections."""
        while not self._is_stopped:
            await self._wakeup.wait()
            self._wakeup.clear()
            self._process_new_responses()
            while self._new_connections:
                await self._configure_new_connection()
                self._process_new_responses()

    def update(self) -> None:
        """Apply a change of `may_read`, and write the responses that a stall held back."""
        for connection in self.connections:
            connection.update_reading()
        self._wakeup.set()

    def stop(self) -> None:
        """Close every connection, also those not set up yet, and let the task end."""
        # Not by cancelling it: a connection half set up must be counted out exactly once.
        self._is_stopped = True
        self._wakeup.set()
        for connection in self.connections:
            connection.close()
        while self._new_connections:
            self._refuse(*self._new_connections.popleft())
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
        self._last_used[connection] = now = time.monotonic()
        self._arm_idle_timer(now)

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
        if response.throttle > 0:
            connection.throttle(response.throttle)
        else:
            connection.unmute()

    def on_disconnected(self, connection: ClientConnection, error: Exception | None) -> None:
        """Count it out."""
        if self._last_used.pop(connection, None) is None:
            return
        self._server.metrics.disconnected += 1
        if error is not None and not isinstance(error, OSError):
            self._server.metrics.invalid += 1
        self._server.quotas.decrease(connection.info.listener, connection.info.remote_host)

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
        protocol = ClientConnection(self, info, self._server.config.socket_request_max_bytes)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)
        except OSError:
            # Gone before it was set up; had it been, connection_lost counts it out.
            if protocol not in self._last_used:
                self._refuse(connection, info)
        if self._is_stopped:
            protocol.close()

    def _refuse(self, connection: socket.socket, info: ConnectionInfo) -> None:
        connection.close()
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
                connection.close()
            else:
                connection.send(response)


def _listening_socket(host: str, port: int, config: BrokerConfig) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if config.socket_receive_buffer_bytes != -1:
            # Before listen: accepted sockets inherit it, and the window scale is agreed on in the handshake.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
        listener.bind(address)
        listener.listen(config.socket_listen_backlog_size)
    except BaseException:
        listener.close()
        raise
    return listener
