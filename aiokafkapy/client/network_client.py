"""Sends requests to brokers and gives their answers back: connections, in-flight requests, metadata, time-outs.

Owns the connection states, the requests in flight, the API versions, the metadata updater, one correlation-id counter,
and one timer. Knows nothing of records: a Produce request is a list of buffers made by whoever sends it. Kafka's
counterpart is ``NetworkClient`` together with ``Selector``.

Java's ``poll()`` asks a selector; asyncio calls us. Each of its steps is one method here, with one caller (KAFKA.md
§1):

1 ``MetadataUpdater.maybe_update``; 2 the event loop; 3 ``_handle_completed_send``; 4 ``_handle_completed_receive``;
5 ``_handle_disconnection``; 6 ``_handle_connection``; 7 ``_initiate_api_versions``; 8
``_handle_timed_out_connections``; 9 ``_handle_timed_out_requests``; 10 ``_complete_responses``.

Rules:

- Nothing polls: one ``call_at`` handle, armed for the earliest deadline. A deadline that has become void is not worth
  a re-arm: it wakes us once and the next one is computed.
- Every future resolves, with a response and never with an exception, in the order of its node's deque.
- What goes wrong on one node never delays another; metadata goes first.
- A connection that was silent for half a minute may be dead without anybody having said so: the first request on it is
  preceded by an ApiVersions request with a small deadline, in the same write.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from ..cluster.metadata import Metadata, MetadataRequestAndVersion
from ..common import Node
from ..errors import (
    AuthenticationFailedError,
    CorrelationIdMismatchError,
    DisconnectedError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MalformedFrameError,
    ProtocolError,
    UnsupportedVersionError,
    make,
)
from ..observability import RateLimitedLogger, get_logger
from ..protocol.api import ApiKey, client_versions
from ..protocol.codec import decode_correlation_id, decode_response, encode_request
from ..states import StateTable
from .api_versions import (
    ApiVersions,
    NodeApiVersions,
    build_api_versions_request,
    client_throttles,
    decode_api_versions_response,
    fallback_version,
)
from .client_request import Buffer, ClientRequest, ClientResponse
from .config import ClientConfig
from .connection import BrokerConnection
from .connection_states import ClusterConnectionStates, NodeConnectionState
from .connector import Connector, ConnectorProtocol, format_address
from .in_flight_requests import InFlightRequest, InFlightRequests
from .least_loaded_node import LeastLoadedNode, choose_least_loaded_node
from .metadata_updater import MetadataUpdater

__all__ = ["NETWORK_CLIENT_STATES", "NetworkClient", "NetworkClientState"]

_logger = get_logger(__name__)

_MAX_CORRELATION_ID: Final = 2**31 - 1
# Load balancers drop idle connections without a word; a small request on such a connection shows it soon.
_PROBE_AFTER_SILENCE: Final = 30.0
_PROBE_TIMEOUT: Final = 5.0

_Completed = list[tuple[InFlightRequest, ClientResponse]]


class NetworkClientState(Enum):
    """Where the client stands."""

    ACTIVE = "active"
    CLOSING = "closing"
    CLOSED = "closed"


NETWORK_CLIENT_STATES = StateTable(
    "network client",
    NetworkClientState.ACTIVE,
    {
        NetworkClientState.ACTIVE: {NetworkClientState.CLOSING},
        NetworkClientState.CLOSING: {NetworkClientState.CLOSED},
        NetworkClientState.CLOSED: set(),
    },
)


class _ConnectAttempt:
    """One attempt to connect: its task, and the connection when the socket was made."""

    __slots__ = ("connection", "task")

    def __init__(self) -> None:
        self.connection: BrokerConnection | None = None
        self.task: asyncio.Task[None] | None = None


class NetworkClient:
    """Requests to nodes and their answers, on one event loop.

    ``wakeup`` is called, on the loop, after anything that a sender may wait for: a node became ready, writable or
    unmuted, a connection went, metadata came, responses were completed. It must not raise.
    """

    def __init__(
        self,
        config: ClientConfig,
        metadata: Metadata,
        *,
        loop: asyncio.AbstractEventLoop,
        wakeup: Callable[[], None] | None = None,
        connector: ConnectorProtocol | None = None,
        discover_api_versions: bool = True,
    ) -> None:
        self._loop = loop
        self._metadata = metadata
        self._wakeup = wakeup
        self._connector = connector if connector is not None else Connector(config, loop)
        self._discovers_api_versions = discover_api_versions
        self._client_id = config.client_id
        self._request_timeout = config.request_timeout_ms / 1000
        self._max_idle = config.connections_max_idle_ms / 1000 if config.connections_max_idle_ms >= 0 else math.inf
        self._state = NETWORK_CLIENT_STATES.initial
        # Per node.
        self._states = ClusterConnectionStates(config.reconnect_backoff, config.connection_setup_timeout)
        self._in_flight = InFlightRequests(config.max_in_flight_requests_per_connection)
        self._api_versions = ApiVersions()
        self._connections: dict[int, BrokerConnection] = {}
        self._attempts: dict[int, _ConnectAttempt] = {}
        # What close() waits for.
        self._open_connections: set[BrokerConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._change_waiters: list[asyncio.Future[None]] = []
        self._correlation_id = -1
        # The timer, and the two deadlines that are not computed from other state.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._metadata_at = math.inf
        self._notify_at = math.inf
        self._log = RateLimitedLogger(_logger)
        self._updater = MetadataUpdater(config, metadata, self)
        if not metadata.cluster.nodes:
            metadata.bootstrap(config.bootstrap_addresses)
        metadata.on_update_requested = self._on_metadata_requested
        metadata.add_listener(self._on_metadata_changed)
        self._on_metadata_requested()

    # readiness

    def ready(self, node: Node, now: float) -> bool:
        """True when a request may be sent to the node now; if not, begins to connect when that is possible."""
        if node.is_empty:
            raise IllegalStateError(f"cannot connect to an empty node ({node.node_id})")
        if self._state is not NetworkClientState.ACTIVE:
            return False
        if self._updater.is_update_due(now):
            self._maybe_update_metadata(now)
        if self.is_ready(node, now):
            return True
        if self._states.can_connect(node.node_id, now):
            self.initiate_connect(node, now)
        else:
            self._notify_when_usable(node.node_id, now)
        return False

    def is_ready(self, node: Node, now: float) -> bool:
        """True when no metadata update is due and a request may be sent to the node."""
        return self.can_send_request(node.node_id, now) and not self._updater.is_update_due(now)

    def can_send_request(self, node_id: int, now: float) -> bool:
        """True when the node is READY and not throttled, its connection is writable, and one more may be in flight."""
        connection = self._connections.get(node_id)
        return (
            connection is not None
            and connection.is_writable
            and self._states.is_ready(node_id, now)
            and self._in_flight.can_send_more(node_id)
        )

    def is_connection_ready(self, node_id: int, now: float) -> bool:
        """True when the node is READY and not throttled, whatever is in flight."""
        return self._states.is_ready(node_id, now)

    def is_preparing_connection(self, node_id: int) -> bool:
        """True while the node is being connected to."""
        return self._states.is_preparing_connection(node_id)

    def can_connect(self, node_id: int, now: float) -> bool:
        """True when there is no connection to the node and its back-off is over."""
        return self._states.can_connect(node_id, now)

    def last_attempt(self, node_id: int) -> float:
        """When a connection to the node was last attempted or lost."""
        return self._states.last_attempt(node_id)

    def connection_delay(self, node: Node, now: float) -> float:
        """Seconds until another attempt to connect can be of use; infinite while connected."""
        return self._states.connection_delay(node.node_id, now)

    def throttle_delay(self, node_id: int, now: float) -> float:
        """Seconds until the node, which throttled us, takes requests again; 0 when it does."""
        return self._states.throttle_delay(node_id, now)

    def connection_failed(self, node: Node) -> bool:
        """True when there is neither a connection to the node nor an attempt at one."""
        state = self._states.get(node.node_id)
        return state is not None and state.is_disconnected

    def authentication_error(self, node: Node) -> AuthenticationFailedError | None:
        """Why the node refused us, or None."""
        return self._states.authentication_error(node.node_id)

    def in_flight_count(self, node_id: int | None = None) -> int:
        """How many requests are in flight on the node, or on all."""
        return self._in_flight.count(node_id)

    def node_api_versions(self, node_id: int) -> NodeApiVersions | None:
        """What the node speaks, or None while it is not connected."""
        return self._api_versions.get(node_id)

    def least_loaded_node(self, now: float) -> Node | None:
        """The node to send a request to that any node can answer, or None; see the module of that name."""
        return self.choose_node(self._metadata.cluster.nodes, now).node

    def choose_node(self, nodes: Sequence[Node], now: float) -> LeastLoadedNode:
        """The least loaded of ``nodes``."""
        return choose_least_loaded_node(nodes, self, now, random.randrange(len(nodes)) if nodes else 0)

    # sending

    def send(self, request: ClientRequest, now: float) -> asyncio.Future[ClientResponse]:
        """Write a request to its node, which must be ready; the future resolves with the response, never with an
        exception.

        Raises IllegalStateError when the node is not ready: ask ``ready`` first.
        """
        future: asyncio.Future[ClientResponse] = self._loop.create_future()
        node_id = request.node_id
        if self._state is not NetworkClientState.ACTIVE:
            self._abort_send(request, future, DisconnectedError("the network client is closed"))
            return future
        connection = self._connections.get(node_id)
        if connection is None or not self.can_send_request(node_id, now):
            raise IllegalStateError(f"a request for node {node_id}, which is not ready")
        try:
            version = self._usable_version(request)
        except UnsupportedVersionError as error:
            self._abort_send(request, future, error)
            return future
        timeout = self._request_timeout if request.timeout is None else request.timeout
        self._write(connection, request, version, now, timeout, future)
        return future

    async def send_and_wait(
        self,
        api_key: int,
        build: Callable[[int], Any],
        node: Node | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> Any:
        """Send a request to ``node``, or to the least loaded one, connecting as needed, and return the answer's body.

        ``timeout`` bounds the whole in seconds, default request_timeout_ms; over it, raises KafkaTimeoutError with the
        cause. A lost connection is raised as DisconnectedError: whether to ask again is the caller's choice.
        ``options`` are those of ClientRequest. Cancelling leaves the request in flight; its answer is dropped.
        """
        timeout = self._request_timeout if timeout is None else timeout
        deadline = self._loop.time() + timeout
        node_id = await self._wait_until_ready(node, deadline, timeout)
        now = self._loop.time()
        request = ClientRequest(node_id, api_key, build, timeout=max(deadline - now, 0.001), **options)
        return (await self.send(request, now)).body_or_raise()

    def initiate_connect(self, node: Node, now: float) -> None:
        """Begin to connect to the node, which must not be connected."""
        if self._state is not NetworkClientState.ACTIVE:
            return
        state = self._states.connecting(node, now)
        attempt = self._attempts[node.node_id] = _ConnectAttempt()
        attempt.task = self._loop.create_task(
            self._connect(node, state, attempt), name=f"aiokafkapy connect to {node.host}:{node.port}"
        )
        self._tasks.add(attempt.task)
        attempt.task.add_done_callback(self._tasks.discard)
        self._arm(state.setup_deadline)

    def send_internal_metadata_request(
        self, node: Node, request: MetadataRequestAndVersion, timeout: float, now: float
    ) -> KafkaError | None:
        """Write a metadata request of our own; its answer goes to the updater. Returns why it cannot be sent, if so."""
        internal = ClientRequest(node.node_id, ApiKey.METADATA, request.build)
        try:
            version = self._usable_version(internal)
        except UnsupportedVersionError as error:
            return error
        self._write(self._connections[node.node_id], internal, version, now, timeout, None)
        self._notify()  # the update is not due any more: what waited for it may go
        return None

    # closing

    def disconnect(self, node_id: int, now: float, reason: str) -> None:
        """Close the connection to a node; what is in flight on it completes as disconnected."""
        error = DisconnectedError(f"the connection to node {node_id} was closed: {reason}")
        self._disconnect_and_complete(node_id, now, error)

    def forget_connections(self, now: float) -> None:
        """Close all connections and attempts, without back-off: the cluster behind them is not ours any more."""
        for node_id in [*self._connections, *self._attempts]:
            self.disconnect(node_id, now, "starting again from the bootstrap addresses")
            self._states.remove(node_id)

    def abort(self) -> None:
        """Close at once and synchronously: futures resolve as disconnected, sockets and attempts end within a loop
        turn.
        """
        if self._state is not NetworkClientState.ACTIVE:
            return
        self._state = NETWORK_CLIENT_STATES.transition(self._state, NetworkClientState.CLOSING)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._metadata.on_update_requested = None
        self._metadata.remove_listener(self._on_metadata_changed)
        now = self._loop.time()
        error = DisconnectedError("the network client was closed")
        completed: _Completed = []
        for node_id in {*self._connections, *self._attempts, *self._in_flight.nodes()}:
            self._handle_disconnection(node_id, now, error, completed)
        self._complete_responses(completed)
        for connection in tuple(self._open_connections):
            connection.abort()

    async def close(self) -> None:
        """Close; returns when no task, socket or timer is left. Idempotent, and harmless when called twice at once."""
        self.abort()
        while self._tasks or self._open_connections:
            if self._tasks:
                await asyncio.wait(tuple(self._tasks))
            if self._open_connections:
                await self._change()
        if self._state is NetworkClientState.CLOSING:
            self._state = NETWORK_CLIENT_STATES.transition(self._state, NetworkClientState.CLOSED)

    # asyncio callbacks: of connections, the timer and metadata

    def _on_connection_made(self, connection: BrokerConnection) -> None:
        self._open_connections.add(connection)
        attempt = self._attempts.get(connection.node_id)
        if attempt is None or attempt.connection is not connection or self._state is not NetworkClientState.ACTIVE:
            connection.abort()  # of an attempt that was given up
            return
        del self._attempts[connection.node_id]
        self._connections[connection.node_id] = connection
        self._handle_connection(connection, self._loop.time())

    def _on_frames(self, connection: BrokerConnection, frames: list[bytes]) -> None:
        now = self._loop.time()
        connection.last_received = now
        completed: _Completed = []
        for frame in frames:
            if self._connections.get(connection.node_id) is not connection:
                break  # closed meanwhile, by what an earlier frame said
            try:
                self._handle_completed_receive(connection, frame, now, completed)
            except ProtocolError as error:
                self._handle_protocol_violation(connection, error, now, completed)
        self._complete_responses(completed)

    def _on_malformed_data(self, connection: BrokerConnection, error: MalformedFrameError) -> None:
        completed: _Completed = []
        self._handle_protocol_violation(connection, error, self._loop.time(), completed)
        self._complete_responses(completed)

    def _on_writable(self, connection: BrokerConnection) -> None:
        if self._connections.get(connection.node_id) is connection:
            completed: _Completed = []
            self._handle_completed_send(connection.node_id, self._loop.time(), completed)
            self._complete_responses(completed)
            self._notify()

    def _on_connection_lost(self, connection: BrokerConnection, error: BaseException | None) -> None:
        self._open_connections.discard(connection)
        if self._connections.get(connection.node_id) is connection:
            reason = f": {error}" if error is not None else ": it was closed by the broker"
            lost = DisconnectedError(
                f"the connection to node {connection.node_id} at {connection.address} was lost{reason}"
            )
            lost.__cause__ = error
            self._disconnect_and_complete(connection.node_id, self._loop.time(), lost)
        self._notify()

    def _on_timer(self) -> None:
        # The loop may call a little early, by its clock's resolution: what is due at the deadline is due now.
        now = max(self._loop.time(), self._timer_at)
        self._timer = None
        self._timer_at = math.inf
        completed: _Completed = []
        self._handle_timed_out_connections(now, completed)
        self._handle_timed_out_requests(now, completed)
        self._close_idle_connections(now)
        self._complete_responses(completed)
        if self._notify_at <= now:
            self._notify_at = math.inf
            self._notify()
        if self._metadata_at <= now:
            self._maybe_update_metadata(now)
        self._rearm()

    def _on_metadata_requested(self) -> None:
        if not self._updater.has_fetch_in_progress:
            now = self._loop.time()
            self._metadata_at = now + self._metadata.time_to_next_update(now)
            self._arm(self._metadata_at)

    def _on_metadata_changed(self) -> None:
        self._on_metadata_requested()
        self._notify()

    # internals: the steps of poll()

    async def _connect(self, node: Node, state: NodeConnectionState, attempt: _ConnectAttempt) -> None:
        """One attempt, as a task: ends with the socket connected, or with the failure handled."""

        def make_connection(address: str) -> BrokerConnection:
            attempt.connection = BrokerConnection(node.node_id, self, self._loop.time(), address)
            return attempt.connection

        try:
            await self._connector.connect(state, make_connection, self._metadata.note_address_failure)
        except (KafkaConnectionError, OSError) as error:
            failure = error if isinstance(error, KafkaConnectionError) else KafkaConnectionError(str(error))
            if self._attempts.get(node.node_id) is attempt:
                self._disconnect_and_complete(node.node_id, self._loop.time(), failure)

    def _handle_completed_send(self, node_id: int, now: float, completed: _Completed) -> None:
        """Step 3: all that was written has left; a request that expects no response is complete with it."""
        self._in_flight.mark_written(node_id)
        newest = self._in_flight.last_sent(node_id)
        if newest is not None and not newest.request.expects_response:
            self._in_flight.complete_last_sent(node_id)
            completed.append((newest, newest.completed(None, now)))

    def _handle_completed_receive(
        self, connection: BrokerConnection, frame: bytes, now: float, completed: _Completed
    ) -> None:
        """Step 4: a response belongs to the oldest request in flight; raises ProtocolError when it does not."""
        node_id = connection.node_id
        entry = self._in_flight.oldest(node_id)
        correlation_id = decode_correlation_id(frame)
        if entry is None or entry.correlation_id != correlation_id:
            expected = "none" if entry is None else entry.correlation_id
            raise CorrelationIdMismatchError(f"correlation id {correlation_id} came, {expected} was expected")
        # Decoded before it is taken out: should the decoder fail, the request is still there to be completed.
        body = self._decode(entry, frame)
        self._in_flight.complete_next(node_id)
        self._maybe_throttle(node_id, entry, body, now)
        if not entry.is_internal:
            completed.append((entry, entry.completed(body, now)))
        elif entry.request.api_key == ApiKey.METADATA:
            self._handle_metadata_response(body, now)
        else:
            self._handle_api_versions_response(connection, entry, body, now)

    def _handle_disconnection(self, node_id: int, now: float, error: KafkaError, completed: _Completed) -> None:
        """Step 5: forget the connection or attempt, and complete what is in flight on it, in order, as disconnected."""
        connection = self._connections.pop(node_id, None)
        attempt = self._attempts.pop(node_id, None)
        if connection is not None:
            connection.abort()
        if attempt is not None and attempt.task is not None:
            attempt.task.cancel()
        self._api_versions.remove(node_id)
        self._log_disconnection(node_id, connection, error, now)
        self._states.disconnected(node_id, now)
        for entry in self._in_flight.clear_all(node_id):
            if entry.is_internal:
                if entry.request.api_key == ApiKey.METADATA:
                    self._updater.handle_failed_request(now, error)
            elif entry.deadline <= now and isinstance(error, KafkaTimeoutError):
                completed.append((entry, entry.timed_out(now, connection.address if connection else "")))
            else:
                completed.append((entry, entry.disconnected(now, error)))

    def _handle_connection(self, connection: BrokerConnection, now: float) -> None:
        """Step 6: the socket is there (TLS and SASL come before this); ask what the broker speaks, or take it as
        READY.
        """
        node_id = connection.node_id
        if self._discovers_api_versions:
            self._states.checking_api_versions(node_id)
            self._initiate_api_versions(connection, client_versions(ApiKey.API_VERSIONS)[1], now)
        else:
            self._api_versions.update(node_id, NodeApiVersions.assumed())
            self._handle_ready(connection, now)

    def _initiate_api_versions(self, connection: BrokerConnection, version: int, now: float) -> None:
        """Step 7: ask what the broker speaks, within what is left for setting the connection up."""
        state = self._states.get(connection.node_id)
        timeout = self._request_timeout if state is None else min(self._request_timeout, state.setup_timeout)
        request = ClientRequest(connection.node_id, ApiKey.API_VERSIONS, build_api_versions_request)
        self._write(connection, request, version, now, timeout, None)

    def _handle_timed_out_connections(self, now: float, completed: _Completed) -> None:
        """Step 8: give attempts up that took too long."""
        for node_id in self._states.nodes_with_connection_setup_timeout(now):
            error = KafkaConnectionError(f"the connection to node {node_id} was not set up in time")
            self._handle_disconnection(node_id, now, error, completed)
            self._after_disconnection(node_id, now, error)

    def _handle_timed_out_requests(self, now: float, completed: _Completed) -> None:
        """Step 9: a node that left a request unanswered for too long is disconnected, with all that is in flight on
        it.
        """
        for node_id in self._in_flight.nodes_with_timed_out_requests(now):
            connection = self._connections.get(node_id)
            error = KafkaTimeoutError(f"node {node_id} left a request unanswered, its connection was closed")
            if connection is not None:
                self._metadata.note_address_failure(connection.address, error)
            self._handle_disconnection(node_id, now, error, completed)
            self._after_disconnection(node_id, now, error)

    def _complete_responses(self, completed: _Completed) -> None:
        """Step 10: give responses to whoever waits, in order; one bad callback never stops the others."""
        for entry, response in completed:
            callback = entry.request.callback
            if callback is not None:
                try:
                    callback(response)
                except Exception:
                    _logger.error("request.callback_failed", api=entry.request.api_key, exc_info=True)
            if entry.future is not None and not entry.future.done():
                entry.future.set_result(response)
        if completed:
            self._notify()

    # internals: what the steps are made of

    def _write(
        self,
        connection: BrokerConnection,
        request: ClientRequest,
        version: int,
        now: float,
        timeout: float,
        future: asyncio.Future[ClientResponse] | None,
    ) -> None:
        """Make the request's bytes, note it as in flight, write it."""
        node_id = request.node_id
        buffers: list[Buffer] = []
        if now - connection.last_received >= _PROBE_AFTER_SILENCE and self._in_flight.is_empty(node_id):
            self._add_probe(connection, now, buffers)
        correlation_id = self._next_correlation_id()
        if request.encode is not None:
            buffers.extend(request.encode(version, correlation_id, self._client_id))
        elif request.build is not None:
            buffers.append(encode_request(request.build(version), correlation_id, self._client_id))
        deadline = now + timeout
        entry = InFlightRequest(request, version, correlation_id, future, now, deadline, future is None)
        self._in_flight.add(entry)
        connection.last_used = now
        connection.write(buffers)
        if connection.is_writable:
            completed: _Completed = []
            self._handle_completed_send(node_id, now, completed)
            if completed:
                # Not at once: whoever sends has not seen the future yet.
                self._loop.call_soon(self._complete_responses, completed)
        if deadline < self._timer_at:
            self._arm(deadline)

    def _add_probe(self, connection: BrokerConnection, now: float, buffers: list[Buffer]) -> None:
        """Put an ApiVersions request in front: it is answered at once, or the connection is dead."""
        versions = self._api_versions.get(connection.node_id)
        if versions is None or not versions.supports(ApiKey.API_VERSIONS):
            return
        version = versions.latest_usable_version(ApiKey.API_VERSIONS)
        request = ClientRequest(connection.node_id, ApiKey.API_VERSIONS, build_api_versions_request)
        correlation_id = self._next_correlation_id()
        buffers.append(encode_request(build_api_versions_request(version), correlation_id, self._client_id))
        deadline = now + min(_PROBE_TIMEOUT, self._request_timeout)
        self._in_flight.add(InFlightRequest(request, version, correlation_id, None, now, deadline, True))
        self._arm(deadline)

    def _next_correlation_id(self) -> int:
        self._correlation_id = self._correlation_id + 1 if self._correlation_id < _MAX_CORRELATION_ID else 0
        return self._correlation_id

    def _usable_version(self, request: ClientRequest) -> int:
        versions = self._api_versions.get(request.node_id)
        if versions is None:
            raise UnsupportedVersionError(f"what node {request.node_id} speaks is not known")
        return versions.latest_usable_version(request.api_key, request.min_version, request.max_version)

    def _abort_send(self, request: ClientRequest, future: asyncio.Future[ClientResponse], error: KafkaError) -> None:
        """Complete a request that cannot be sent, before any I/O (Java's aborted sends), in the next turn of the
        loop.
        """
        disconnected = isinstance(error, DisconnectedError)
        response = ClientResponse(request, -1, error=error, disconnected=disconnected, was_sent=False)
        entry = InFlightRequest(request, -1, -1, future, 0.0, math.inf)
        self._loop.call_soon(self._complete_responses, [(entry, response)])

    def _decode(self, entry: InFlightRequest, frame: bytes) -> Any:
        request = entry.request
        if request.decode is not None:
            return request.decode(entry.version, frame)
        if entry.is_internal and request.api_key == ApiKey.API_VERSIONS:
            return decode_api_versions_response(entry.version, frame)
        return decode_response(request.api_key, entry.version, frame)[1]

    def _handle_metadata_response(self, body: Any, now: float) -> None:
        self._updater.handle_completed_response(body, now)
        nodes = self._metadata.cluster.nodes
        for node in nodes:
            state = self._states.get(node.node_id)
            moved = state is not None and (state.host, state.port) != (node.host, node.port)
            if moved and node.node_id in self._connections and self._in_flight.is_empty(node.node_id):
                self.disconnect(node.node_id, now, f"it is at {node.host}:{node.port} now")
        self._states.retain([node.node_id for node in (*nodes, *self._metadata.bootstrap_nodes)])

    def _handle_api_versions_response(
        self, connection: BrokerConnection, entry: InFlightRequest, body: Any, now: float
    ) -> None:
        node_id = connection.node_id
        if body.error_code == UnsupportedVersionError.code and entry.version > 0:
            self._initiate_api_versions(connection, min(fallback_version(body), entry.version - 1), now)
        elif body.error_code:
            error = make(body.error_code)
            self._log.log(node_id, now, logging.WARNING, "connection.api_versions", node_id=node_id, error=str(error))
            self.disconnect(node_id, now, f"it did not say what it speaks: {error}")
        else:
            self._api_versions.update(node_id, NodeApiVersions.from_response(body))
            if self._states.is_preparing_connection(node_id):
                self._handle_ready(connection, now)

    def _handle_ready(self, connection: BrokerConnection, now: float) -> None:
        node_id = connection.node_id
        state = self._states.get(node_id)
        self._states.ready(node_id)
        if state is not None:
            self._metadata.address_reached(format_address(state.host, state.port))
        suppressed = self._log.settle(node_id)
        _logger.debug("connection.ready", node_id=node_id, address=connection.address, suppressed=suppressed)
        self._arm(connection.last_used + self._max_idle)
        if self._updater.is_update_due(now):
            self._maybe_update_metadata(now)
        self._notify()

    def _maybe_throttle(self, node_id: int, entry: InFlightRequest, body: Any, now: float) -> None:
        milliseconds = getattr(body, "throttle_time_ms", 0)
        if not milliseconds:
            throttle_time = getattr(body, "throttle_time", None)
            milliseconds = throttle_time.total_seconds() * 1000 if throttle_time else 0
        if milliseconds > 0 and client_throttles(entry.request.api_key, entry.version):
            self._states.throttle(node_id, now + milliseconds / 1000)
            self._notify_when_usable(node_id, now)

    def _handle_protocol_violation(
        self, connection: BrokerConnection, error: ProtocolError, now: float, completed: _Completed
    ) -> None:
        node_id = connection.node_id
        if self._connections.get(node_id) is not connection:
            return
        fields = {"node_id": node_id, "address": connection.address, "error": str(error)}
        self._log.log(node_id, now, logging.ERROR, "protocol.violation", **fields)
        lost = DisconnectedError(f"the connection to node {node_id} was closed: {error}")
        lost.__cause__ = error
        self._handle_disconnection(node_id, now, lost, completed)
        self._after_disconnection(node_id, now, lost)

    def _disconnect_and_complete(self, node_id: int, now: float, error: KafkaError) -> None:
        completed: _Completed = []
        self._handle_disconnection(node_id, now, error, completed)
        self._after_disconnection(node_id, now, error)
        self._complete_responses(completed)

    def _after_disconnection(self, node_id: int, now: float, error: KafkaError) -> None:
        """What follows while the client is in use: metadata may be stale, and whoever waits for the node must look
        again.
        """
        if self._state is NetworkClientState.ACTIVE:
            self._updater.handle_server_disconnect(now, error)
            self._notify_when_usable(node_id, now)
            self._notify()

    def _log_disconnection(
        self, node_id: int, connection: BrokerConnection | None, error: KafkaError, now: float
    ) -> None:
        in_flight = self._in_flight.count(node_id)
        state = self._states.get(node_id)
        address = connection.address if connection else format_address(state.host, state.port) if state else ""
        fields = {"node_id": node_id, "address": address, "error": str(error)}
        if self._state is not NetworkClientState.ACTIVE or (connection is not None and not in_flight):
            _logger.debug("connection.closed", **fields)
        elif connection is None:
            self._log.log(node_id, now, logging.WARNING, "connection.failed", **fields)
        else:
            self._log.log(node_id, now, logging.WARNING, "connection.lost", in_flight=in_flight, **fields)

    def _close_idle_connections(self, now: float) -> None:
        for node_id, connection in tuple(self._connections.items()):
            idle_since = max(connection.last_used, connection.last_received)
            if now >= idle_since + self._max_idle and self._in_flight.is_empty(node_id):
                # Not _after_disconnection: an idle client has no use for fresh metadata.
                self._handle_disconnection(node_id, now, DisconnectedError("idle"), [])

    # internals: waiting and waking

    async def _wait_until_ready(self, node: Node | None, deadline: float, timeout: float) -> int:
        while self._state is NetworkClientState.ACTIVE:
            now = self._loop.time()
            chosen = node if node is not None else self.least_loaded_node(now)
            if chosen is not None and self.ready(chosen, now):
                return chosen.node_id
            if now >= deadline:
                place = f"node {chosen.node_id}" if chosen is not None else "any broker"
                cause = self._metadata.describe_failure()
                raise KafkaTimeoutError(f"no usable connection to {place} within {timeout:g} s: {cause}")
            await self._change(deadline)
        raise DisconnectedError("the network client is closed")

    async def _change(self, deadline: float = math.inf) -> None:
        """Wait until something has changed, or until the deadline."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._change_waiters.append(waiter)
        timer = None if deadline == math.inf else self._loop.call_at(deadline, _resolve, waiter)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()

    def _notify(self) -> None:
        """Something changed that somebody may wait for."""
        if self._updater.is_waiting_for_node and self._state is NetworkClientState.ACTIVE:
            self._metadata_at = 0.0
            self._arm(self._loop.time())
        if self._change_waiters:
            waiters, self._change_waiters = self._change_waiters, []
            for waiter in waiters:
                _resolve(waiter)
        if self._wakeup is not None:
            self._wakeup()

    def _notify_when_usable(self, node_id: int, now: float) -> None:
        """Wake who waits for the node when its throttle or back-off is over."""
        delay = max(self._states.throttle_delay(node_id, now), self._states.connection_delay(node_id, now))
        if not 0 < delay < math.inf:
            delay = self._states.throttle_delay(node_id, now)
        if delay > 0:
            self._notify_at = min(self._notify_at, now + delay)
            self._arm(self._notify_at)

    def _maybe_update_metadata(self, now: float) -> None:
        self._metadata_at = math.inf
        delay = self._updater.maybe_update(now)
        self._metadata_at = min(self._metadata_at, now + delay)
        self._arm(self._metadata_at)

    def _arm(self, deadline: float) -> None:
        """Let the timer fire at ``deadline`` or before."""
        if deadline < self._timer_at and self._state is NetworkClientState.ACTIVE:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = deadline
            self._timer = self._loop.call_at(deadline, self._on_timer)

    def _rearm(self) -> None:
        """Arm the timer for the earliest of all deadlines."""
        idle = math.inf
        for node_id, connection in self._connections.items():
            if self._in_flight.is_empty(node_id):
                idle = min(idle, max(connection.last_used, connection.last_received) + self._max_idle)
        self._arm(
            min(
                self._metadata_at,
                self._notify_at,
                self._states.next_setup_deadline(),
                self._in_flight.next_deadline(),
                idle,
            )
        )


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
