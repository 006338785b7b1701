"""Sends requests to brokers and hands back their responses: connections, in-flight requests, metadata, time-outs.

Owns the connection states, the requests in flight, the API versions, the metadata updater, one correlation-id counter,
and one timer. Knows nothing of records: a Produce request is a list of buffers made by its sender. Kafka's counterpart
is ``NetworkClient`` together with ``Selector``.

Java's ``poll()`` asks a selector; asyncio calls us. Each step of ``poll()`` is one method here, with one caller:
1 ``MetadataUpdater.maybe_update``; 2 the event loop; 3 ``RequestPipeline.handle_completed_send``; 4
``_handle_completed_receive``; 5 ``_handle_disconnection``; 6 and 7 ``ApiVersionsHandshake.begin``; 8
``_handle_timed_out_connections``; 9 ``_handle_timed_out_requests``; 10 ``RequestPipeline.complete_responses``.

Rules:

- Nothing polls: one ``call_at`` handle is armed for the earliest deadline. When that deadline becomes void the handle
  is left armed: a spurious wake-up, after which the next deadline is computed, is cheaper than re-arming.
- Every future resolves with a response, never with an exception, in the order in which its node's requests were
  written. That includes a request that cannot be encoded; it changes no state.
- A failure on one node never delays another; metadata requests go first.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Unpack

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
    ProtocolError,
    SerializationError,
    UnsupportedVersionError,
)
from ..protocol.api import ApiKey, api_name
from ..protocol.codec import Message
from ..protocol.framing import decode_correlation_id
from .api_versions_handshake import ApiVersionsHandshake
from .metadata_updater import MetadataUpdater
from .network_client_state import ACTIVE, NETWORK_CLIENT_STATES, NetworkClientState
from .network_client_utils import send_and_receive
from .nodes.api_versions import throttle_seconds
from .nodes.client_request import ClientRequest, ClientResponse
from .nodes.in_flight_requests import InFlightRequest
from .nodes.node_readiness import NodeReadiness
from .nodes.sender_client import SenderClient
from .request_pipeline import LARGE_ANSWER, RequestPipeline
from .tap.watch import ClientWatch
from .transport.broker_connections import BrokerConnections
from .transport.change_signal import ChangeSignal
from .transport.connection import BrokerConnection
from .transport.connection_log import ConnectionLog
from .transport.connection_loss import explain_loss
from .transport.connector import Connector, ConnectorProtocol
from .transport.deadline_timer import DeadlineTimer

if TYPE_CHECKING:
    from ..cluster.metadata_answer import MetadataAnswer
    from ..protocol.codec import Struct
    from ..security.sasl.mechanism import SaslMechanism
    from .authentication import Authenticator
    from .config import ClientConfig
    from .network_client_utils import RequestOptions

__all__ = ["NetworkClient"]


class NetworkClient(SenderClient):
    """Requests to nodes and their responses, on one event loop.

    ``wakeup`` is called on the loop after every event that a sender may wait for: a node became ready or writable, its
    throttling or back-off ended, a connection was lost, metadata arrived, responses were completed. It must not raise.
    ``nodes`` holds the state of each node.
    """

    def __init__(
        self,
        config: ClientConfig,
        metadata: Metadata,
        *,
        loop: asyncio.AbstractEventLoop,
        wakeup: Callable[[], None] | None = None,
        connector: ConnectorProtocol | None = None,
        watch: ClientWatch | None = None,
    ) -> None:
        self._loop, self._time = loop, loop.time
        self._metadata = metadata
        super().__init__(wakeup)
        self._request_timeout = config.request_timeout_ms / 1000
        self._max_idle = config.connections_max_idle_ms / 1000 if config.connections_max_idle_ms >= 0 else math.inf
        self._state = NETWORK_CLIENT_STATES.initial
        # The state of each node; fields that every request reads are kept here too.
        self._connections: dict[int, BrokerConnection] = {}
        self.nodes = NodeReadiness(config, self._connections)
        self._states = self.nodes.states
        self._in_flight = self.nodes.in_flight
        self._sockets = BrokerConnections(
            connector if connector is not None else Connector(config, loop),
            self,
            loop,
            current=self._connections,
            on_connect_failed=self._on_connect_failed,
            on_address_failure=metadata.note_address_failure,
            max_response_size=config.receive_message_max_bytes,
            is_authenticated_by_tls=config.security_protocol == "SSL",
        )
        self.connection_counts = self._sockets.counts
        # The timer, and the two deadlines that are not computed from other state.
        self._timer = DeadlineTimer(loop, self._on_timer)
        self._metadata_at = self._notify_at = math.inf
        self._changed = ChangeSignal(loop)
        self._log = ConnectionLog()
        self._pipeline = RequestPipeline(
            self._in_flight,
            self.nodes.api_versions,
            client_id=config.client_id,
            request_timeout=self._request_timeout,
            loop=loop,
            timer=self._timer,
            log=self._log,
            on_completed=self._notify,
        )
        self.traffic = self._pipeline.traffic
        self._handshake = self._new_handshake()
        self._authenticator = self._new_authenticator(config.new_sasl_mechanism())
        self._updater = MetadataUpdater(config, metadata, self.nodes, self)
        self.watch: ClientWatch | None = None
        self.use_watch(watch if watch is not None else ClientWatch.of(config, loop.time))
        if not metadata.cluster.nodes:
            metadata.bootstrap(config.bootstrap_addresses)
        metadata.on_update_requested = self._on_metadata_requested
        metadata.add_listener(self._on_metadata_changed)
        self._on_metadata_requested()

    @property
    def is_active(self) -> bool:
        """True until the client is closed."""
        return self._state is ACTIVE

    def use_watch(self, watch: ClientWatch | None) -> None:
        """Notify observers and taps by ``watch`` from now on; None if there are none."""
        self.watch = self._pipeline.watch = watch

    def ready(self, node: Node, now: float) -> bool:
        """True when a request may be sent to the node now. Otherwise begins to connect, if the node has an address and
        its back-off is over.
        """
        if self.is_ready(node, now):
            return True
        if node.is_empty or self._state is not ACTIVE:
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
        return self.nodes.can_send_request(node.node_id, now) and not self._updater.is_update_due(now)

    def least_loaded_node(self, now: float) -> Node | None:
        """The node for a request that any node can answer, or None; see the module ``least_loaded_node``."""
        return self.nodes.choose_node(self._metadata.cluster.nodes, now).node

    def connection_delay(self, node: Node, now: float) -> float:
        """Seconds until another attempt to connect is worthwhile; infinite while connected, or without an address."""
        return self.nodes.connection_delay(node, now)

    def send(self, request: ClientRequest, now: float) -> asyncio.Future[ClientResponse]:
        """Write a request to its node. The future resolves with the response, never with an exception.

        Raises IllegalStateError when the node is not ready: ask ``ready`` first.
        """
        future: asyncio.Future[ClientResponse] = self._loop.create_future()
        self._post(request, now, future)
        return future

    def post(self, request: ClientRequest, now: float) -> None:
        """As ``send``, but without a future: only the request's callback gets the response."""
        self._post(request, now, None)

    async def send_and_wait(
        self,
        api_key: int,
        build: Callable[[int], Message],
        node: Node | None = None,
        timeout: float | None = None,
        **options: Unpack[RequestOptions],
    ) -> Struct:
        """Send a request to ``node``, or to the least loaded one, connecting as needed; return the response's body.

        ``timeout`` bounds the whole call, in seconds, default request_timeout_ms; KafkaTimeoutError with the cause is
        raised when it expires. A lost connection raises DisconnectedError; retrying is up to the caller. ``options``
        are ClientRequest's; its own ``timeout`` is request_timeout_ms here. If the call is cancelled or times
        out, the request stays in flight and its response is dropped.
        """
        timeout, clock = self._request_timeout if timeout is None else timeout, self._loop.time
        describe = self._metadata.describe_failure
        return await send_and_receive(
            self, api_key, build, node=node, timeout=timeout, clock=clock, describe_failure=describe, options=options
        )

    async def wait_for_change(self) -> None:
        """Return after the next event that a sender may wait for (those that call ``wakeup``)."""
        await self._changed.wait()

    def initiate_connect(self, node: Node, now: float) -> None:
        """Begin to connect to the node, which must not be connected."""
        if self._state is ACTIVE:
            state = self._states.connecting(node, now)
            self._sockets.connect(node, state)
            self._timer.arm(state.setup_deadline)

    def send_internal_metadata_request(
        self, node: Node, request: MetadataRequestAndVersion, timeout: float, now: float
    ) -> KafkaError | None:
        """Write a metadata request of our own; its response goes to the updater. Returns the error that prevents it."""
        internal = ClientRequest(
            node.node_id, ApiKey.METADATA, encode=request.encode, decode=self._metadata.read_answer
        )
        if not self._in_flight.is_empty(node.node_id):
            # A broker handles one request of a connection at a time, so this one may wait behind a slow Produce.
            timeout = self._request_timeout
        try:
            version = self._pipeline.usable_version(internal)
            self._pipeline.write_internal(self._connections[node.node_id], internal, version, now, timeout)
        except (UnsupportedVersionError, SerializationError) as error:
            return error
        self._notify()  # the update is no longer due: requests that waited for it may go
        return None

    def disconnect(self, node_id: int, now: float, reason: str) -> None:
        """Close the connection to a node; the requests in flight on it complete as disconnected."""
        error = DisconnectedError(f"the connection to node {node_id} was closed: {reason}")
        self._handle_disconnection(node_id, now, error)
        self._pipeline.complete_responses()

    def forget_connections(self, now: float) -> None:
        """Close all connections and attempts, without back-off: to start again from the bootstrap addresses."""
        for node_id in self._sockets.node_ids():
            self.disconnect(node_id, now, "starting again from the bootstrap addresses")
            self._states.remove(node_id)

    def update_credentials(self, mechanism: SaslMechanism) -> None:
        """Authenticate with ``mechanism`` from now on: new connections at once, the others when they re-authenticate.

        Brokers that refused the old credentials are tried again at once.
        """
        if self._authenticator is None:
            raise IllegalStateError("there are no credentials to update: security_protocol has no SASL")
        self._authenticator.use(mechanism)
        self._states.forgive()
        self._metadata.request_update()
        self._notify()

    def abort(self) -> None:
        """Close at once: futures resolve as disconnected, sockets and tasks end in the next turn of the loop."""
        if self._state is not ACTIVE:
            return
        self._state = NETWORK_CLIENT_STATES.transition(self._state, NetworkClientState.CLOSING)
        self._timer.cancel()
        self._pipeline.stop_decoding()
        self._metadata.on_update_requested = None
        self._metadata.remove_listener(self._on_metadata_changed)
        now = self._loop.time()
        error = DisconnectedError("the network client was closed")
        for node_id in self._sockets.node_ids():
            self._handle_disconnection(node_id, now, error)
        self._pipeline.complete_responses()
        if self.watch is not None:
            self.watch.close()
        self._notify()

    async def close(self) -> None:
        """Close; returns when no task, socket or timer is left. Idempotent, and harmless when called twice at once."""
        self.abort()
        await self._sockets.wait_closed()
        if self._authenticator is not None:
            await self._authenticator.close()
        if self._state is NetworkClientState.CLOSING:
            self._state = NETWORK_CLIENT_STATES.transition(self._state, NetworkClientState.CLOSED)

    # asyncio callbacks: of connections, the timer and metadata

    def on_connection_made(self, connection: BrokerConnection) -> None:
        if self._sockets.adopt(connection):
            self._handshake.begin(connection, self._loop.time())

    def _on_connect_failed(self, node_id: int, error: KafkaError) -> None:
        self._handle_disconnection(node_id, self._loop.time(), error)
        self._pipeline.complete_responses()

    def on_frames(self, connection: BrokerConnection, frames: list[bytes]) -> None:
        now = self._time()
        connection.last_received = now
        try:
            for frame in frames:
                # An earlier frame may have caused it to be closed.
                if self._connections.get(connection.node_id) is connection:
                    self._handle_completed_receive(connection, frame, now)
        except ProtocolError as error:
            self._handle_protocol_violation(connection, error, now)
        self._pipeline.complete_responses()

    def on_malformed_data(self, connection: BrokerConnection, error: ProtocolError) -> None:
        if self._sockets.is_current(connection):
            self._handle_protocol_violation(connection, error, self._loop.time())
            self._pipeline.complete_responses()

    def on_writable(self, connection: BrokerConnection) -> None:
        if self._sockets.is_current(connection):
            self._pipeline.handle_completed_send(connection.node_id, self._loop.time())
            self._pipeline.complete_responses()
            self._notify()

    def on_connection_lost(self, connection: BrokerConnection, error: BaseException | None) -> None:
        self._sockets.lost(connection)
        if self._authenticator is not None and self._authenticator.is_reading(connection):
            return  # the authentication ends with the broker's last message, and the connection with it
        if self._sockets.is_current(connection):
            is_preparing = self.nodes.is_preparing_connection(connection.node_id)
            lost = explain_loss(connection, error, self._states.get(connection.node_id) if is_preparing else None)
            if is_preparing:
                self._metadata.note_address_failure(connection.address, lost)
            self._handle_disconnection(connection.node_id, self._loop.time(), lost)
            self._pipeline.complete_responses()

    def _on_api_versions_known(self, connection: BrokerConnection, now: float) -> None:
        if self._authenticator is not None:
            self._authenticator.begin(connection)
        else:
            self._handle_ready(connection, now)

    def _on_setup_failed(self, connection: BrokerConnection, error: KafkaError) -> None:
        # In the next turn: uvloop never calls connection_lost for a transport that is aborted in connection_made.
        self._loop.call_soon(self._give_up_connection, connection, error)

    def _give_up_connection(self, connection: BrokerConnection, error: KafkaError) -> None:
        if self._sockets.is_current(connection):
            self._metadata.note_address_failure(connection.address, error)
            if not isinstance(error, AuthenticationFailedError):
                error = DisconnectedError(f"the connection to node {connection.node_id} was closed: {error}")
            self._handle_disconnection(connection.node_id, self._loop.time(), error)
            self._pipeline.complete_responses()

    def _on_metadata_decoded(
        self, connection: BrokerConnection, entry: InFlightRequest, body: MetadataAnswer | ProtocolError
    ) -> None:
        now = self._loop.time()
        if isinstance(body, ProtocolError):
            self._updater.handle_failed_request(now, body)
            self.on_malformed_data(connection, body)
        elif self._state is ACTIVE:
            self._states.answered(connection.node_id)
            self._maybe_throttle(entry, body, now)
            self._handle_metadata_response(body, now)
            self._pipeline.complete_responses()

    def _on_timer(self, now: float) -> None:
        self._handle_timed_out_connections(now)
        self._handle_timed_out_requests(now)
        self._close_idle_connections(now)
        if self._authenticator is not None:
            self._authenticator.renew_sessions(now)
        self._pipeline.complete_responses()
        if self._notify_at <= now:
            self._notify_at = self._states.next_usable_at(now)  # it had only the first node's
            self._notify()
        if self._metadata_at <= now:
            self._maybe_update_metadata(now)
        self._updater.tell_silence(now)
        self._rearm()

    def _on_metadata_requested(self) -> None:
        if not self._updater.has_fetch_in_progress:
            now = self._loop.time()
            self._metadata_at = now + self._metadata.time_to_next_update(now)
            self._timer.arm(self._metadata_at)

    def _on_metadata_changed(self) -> None:
        self._on_metadata_requested()
        self._notify()

    # internals: the steps of poll()

    def _post(self, request: ClientRequest, now: float, future: asyncio.Future[ClientResponse] | None) -> None:
        if self._state is not ACTIVE:
            self._pipeline.abort_send(request, future, DisconnectedError("the network client is closed"))
            return
        if not self.nodes.can_send_request(request.node_id, now):
            raise IllegalStateError(f"a request for node {request.node_id}, which is not ready")
        try:
            version = self._pipeline.usable_version(request)
            self._pipeline.write(self._connections[request.node_id], request, version, now, request.timeout, future)
        except (UnsupportedVersionError, SerializationError) as error:
            self._pipeline.abort_send(request, future, error)

    def _handle_completed_receive(self, connection: BrokerConnection, frame: bytes, now: float) -> None:
        """Step 4: match a response to the oldest request in flight; raises ProtocolError if it does not match."""
        node_id = connection.node_id
        entry = self._in_flight.oldest(node_id)
        correlation_id = decode_correlation_id(frame)
        if entry is None or entry.correlation_id != correlation_id:
            expected = "none" if entry is None else entry.correlation_id
            raise CorrelationIdMismatchError(f"a response has correlation id {correlation_id}, expected is {expected}")
        self.traffic.record_response(node_id, len(frame) + 4, now - entry.sent_at, now)
        if len(frame) > LARGE_ANSWER and entry.is_internal and entry.request.api_key == ApiKey.METADATA:
            self._in_flight.complete_next(node_id)
            if self.watch is not None:
                self.watch.answered(entry, frame, now)
            self._pipeline.decode_elsewhere(entry, frame, partial(self._on_metadata_decoded, connection))
            return
        # Decoded before the request is taken out: if the decoder fails, the request is still there to be completed.
        body = self._pipeline.decode(entry, frame)
        self._in_flight.complete_next(node_id)
        if self.watch is not None:
            self.watch.answered(entry, frame, now)
        self._maybe_throttle(entry, body, now)
        if not entry.is_internal:
            self._pipeline.complete(entry, body, now)
        elif entry.request.api_key == ApiKey.METADATA:
            self._states.answered(node_id)
            self.nodes.measured(node_id, now - entry.sent_at)
            self._handle_metadata_response(body, now)
        else:
            self._handshake.handle_response(connection, entry, body, now)
            self._notify()  # a probe's answer may be the last one that a renewal of the session waits for

    def _handle_disconnection(self, node_id: int, now: float, error: KafkaError, *, is_idle: bool = False) -> None:
        """Step 5: forget the connection or attempt; its requests in flight complete, in order, as disconnected.

        The metadata updater is notified, since our view may be stale, unless the connection was closed as idle.
        """
        was_ready = not self.nodes.is_preparing_connection(node_id)
        connection = self._sockets.drop(node_id)
        if connection is not None and self._authenticator is not None:
            self._authenticator.forget(connection)
        self.nodes.api_versions.remove(node_id)
        entries = self._in_flight.clear_all(node_id)
        address = connection.address if connection is not None else self._states.address(node_id)
        if self.watch is not None:
            cause = None if is_idle or (self._state is not ACTIVE and not entries) else error
            started = self._states.last_attempt(node_id)
            self.watch.disconnected(node_id, address, started=started, error=cause, entries=entries, now=now)
        if isinstance(error, AuthenticationFailedError):
            self._states.authentication_failed(node_id, now, error)
            self._log.refused_authentication(node_id, error, now)
        else:
            self._states.disconnected(node_id, now, is_unanswered=bool(entries), error=None if is_idle else error)
            if is_idle or self._state is not ACTIVE or (was_ready and not entries):
                self._log.closed(node_id, address, error)
            else:
                self._log.lost(
                    node_id, address, error, was_connected=connection is not None, in_flight=len(entries), now=now
                )
        for entry in entries:
            if entry.is_internal:
                if entry.request.api_key == ApiKey.METADATA:
                    self._updater.handle_failed_request(now, error)
            else:
                self._pipeline.disconnect(entry, error, address, now)
        if self._state is ACTIVE and not is_idle:
            self._updater.handle_server_disconnect(error)
            self._notify_when_usable(node_id, now)
            self._notify()

    def _handle_timed_out_connections(self, now: float) -> None:
        """Step 8: give up the attempts that took too long."""
        for node_id in self._states.nodes_with_connection_setup_timeout(now):
            error = KafkaConnectionError(f"the connection to node {node_id} was not set up in time")
            self._handle_disconnection(node_id, now, error)

    def _handle_timed_out_requests(self, now: float) -> None:
        """Step 9: a node that left a request unanswered is disconnected, with all that is in flight on it."""
        for node_id in self._in_flight.nodes_with_timed_out_requests(now):
            oldest = self._in_flight.oldest(node_id)
            address = self._connections[node_id].address
            error = KafkaTimeoutError(f"node {node_id} at {address} left a request unanswered and was disconnected")
            if oldest is not None:
                self._log.timed_out(node_id, address, api_name(oldest.request.api_key), now - oldest.sent_at, now)
            self._metadata.note_address_failure(address, error)
            self._handle_disconnection(node_id, now, error)

    # internals: parts of the steps

    def _handle_metadata_response(self, answer: MetadataAnswer, now: float) -> None:
        self._updater.handle_completed_response(answer, now)
        nodes = (*self._metadata.cluster.nodes, *self._metadata.bootstrap_nodes)
        for node in self._states.retain(nodes):
            # Its address has changed: drop the old connection, unless requests are in flight on it.
            if self._in_flight.is_empty(node.node_id):
                self.disconnect(node.node_id, now, f"it is at {node.address} now")
                self._states.remove(node.node_id)

    def _handle_ready(self, connection: BrokerConnection, now: float) -> None:
        node_id = connection.node_id
        self._states.ready(node_id)
        self._metadata.address_reached(self._states.address(node_id))
        self._log.ready(node_id, connection.address)
        if self.watch is not None:
            self.watch.ready(node_id, connection.address, self._states.last_attempt(node_id), now)
        self._timer.arm(now + self._max_idle)
        if self._authenticator is not None:
            self._timer.arm(self._authenticator.next_renewal())
        if self._updater.is_update_due(now):
            self._maybe_update_metadata(now)
        self._notify()

    def _handle_protocol_violation(self, connection: BrokerConnection, error: ProtocolError, now: float) -> None:
        node_id, address = connection.node_id, connection.address
        self._log.violated_protocol(node_id, address, error, now)
        lost = DisconnectedError(f"the connection to node {node_id} at {address} was closed: {error}")
        lost.__cause__ = error
        self._metadata.note_address_failure(address, error)
        self._handle_disconnection(node_id, now, lost)

    def _maybe_throttle(self, entry: InFlightRequest, body: object, now: float) -> None:
        seconds = throttle_seconds(entry.request.api_key, entry.version, body)
        if seconds > 0:
            self._states.throttle(entry.request.node_id, now + seconds)
            if self.watch is not None:
                self.watch.throttled(entry.request.node_id, entry.request.api_key, seconds)
            self._notify_when_usable(entry.request.node_id, now)

    def _close_idle_connections(self, now: float) -> None:
        for connection in self._sockets.idle_connections(now, self._max_idle):
            if self._in_flight.is_empty(connection.node_id):
                self._handle_disconnection(connection.node_id, now, DisconnectedError("it was idle"), is_idle=True)

    def _new_handshake(self) -> ApiVersionsHandshake:
        return ApiVersionsHandshake(
            self.nodes,
            self._pipeline,
            self._log,
            request_timeout=self._request_timeout,
            on_ready=self._on_api_versions_known,
            on_failed=self._on_setup_failed,
        )

    def _new_authenticator(self, mechanism: SaslMechanism | None) -> Authenticator | None:
        if mechanism is None:
            return None
        from .authentication import Authenticator  # with the messages of SASL

        return Authenticator(
            mechanism,
            self.nodes,
            self._pipeline,
            loop=self._loop,
            request_timeout=self._request_timeout,
            counts=self.connection_counts,
            wait_for_change=self.wait_for_change,
            on_ready=self._handle_ready,
            on_failed=self._give_up_connection,  # at once: new credentials must not come between
        )

    # internals: waiting and waking

    def _notify(self) -> None:
        """Wake the sender and the waiters of ``wait_for_change``."""
        if self._updater.is_waiting_for_node:
            self._metadata_at = -math.inf
            self._timer.arm(self._loop.time())
        self._changed.notify()
        if self.wakeup is not None:
            self.wakeup()

    def _notify_when_usable(self, node_id: int, now: float) -> None:
        """Wake the waiters for the node when its throttle or back-off is over."""
        usable_at = self._states.usable_at(node_id)
        if usable_at > now:
            self._notify_at = min(self._notify_at, usable_at)
            self._timer.arm(self._notify_at)

    def _maybe_update_metadata(self, now: float) -> None:
        self._metadata_at = math.inf
        delay = self._updater.maybe_update(now)
        self._metadata_at = min(self._metadata_at, now + delay)
        self._timer.arm(min(self._metadata_at, self._updater.silence_at))

    def _rearm(self) -> None:
        """Arm the timer for the earliest of all deadlines."""
        busy = frozenset(self._in_flight.nodes())
        idle_at = self._sockets.idle_since(busy, self._loop.time()) + self._max_idle
        setup_at = self._states.next_setup_deadline()
        if self._authenticator is not None:
            setup_at = min(setup_at, self._authenticator.next_renewal())
        told_at = min(self._metadata_at, self._updater.silence_at, self._notify_at)
        self._timer.arm(min(told_at, setup_at, self._in_flight.next_deadline(), idle_at))
