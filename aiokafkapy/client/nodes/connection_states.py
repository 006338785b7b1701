"""The state of the connection to each node, and the time of the next attempt.

Owns the state machine, the back-off between attempts, set-up time-outs, throttling, and the turn of a host's
addresses. Opens nothing and reads no clock: ``NetworkClient`` does the I/O. Kafka's counterparts are
``ClusterConnectionStates`` and its ``NodeConnectionState``.

Rules:

- A state changes only through ``CONNECTION_STATES.transition``.
- The back-off grows with each attempt or connection that ends before READY, and READY resets it; the set-up time-out
  grows only with attempts that ended while connecting.
- All addresses of a host are tried in turn; the name is resolved again when all have been tried, and after an
  established connection was lost (KIP-302, KIP-602).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import Final

from ...common import ExponentialBackoff, Node, format_address
from ...errors import AuthenticationFailedError
from ...states import StateTable

__all__ = [
    "CONNECTION_STATES",
    "Address",
    "ClusterConnectionStates",
    "ConnectionState",
    "NodeConnectionState",
]

Address = tuple[int, tuple[str, int] | tuple[str, int, int, int]]
"""An address family and a socket address, as ``getaddrinfo`` gives them."""


class ConnectionState(Enum):
    """The states of a connection."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CHECKING_API_VERSIONS = "checking_api_versions"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    AUTHENTICATION_FAILED = "authentication_failed"


_S = ConnectionState
_PREPARING: Final = (_S.CONNECTING, _S.CHECKING_API_VERSIONS, _S.AUTHENTICATING)
_READY: Final = _S.READY
"""Looked up once: reading the member off its class costs more than every other check before a request."""

CONNECTION_STATES = StateTable(
    "connection",
    _S.DISCONNECTED,
    {
        _S.DISCONNECTED: {_S.CONNECTING},
        _S.CONNECTING: {_S.CHECKING_API_VERSIONS, _S.READY, _S.DISCONNECTED, _S.AUTHENTICATION_FAILED},
        _S.CHECKING_API_VERSIONS: {_S.AUTHENTICATING, _S.READY, _S.DISCONNECTED, _S.AUTHENTICATION_FAILED},
        _S.AUTHENTICATING: {_S.READY, _S.DISCONNECTED, _S.AUTHENTICATION_FAILED},
        # AUTHENTICATING: re-authentication before the session expires (KIP-368).
        _S.READY: {_S.AUTHENTICATING, _S.DISCONNECTED, _S.AUTHENTICATION_FAILED},
        _S.AUTHENTICATION_FAILED: {_S.CONNECTING, _S.DISCONNECTED},
    },
)


class ClusterConnectionStates:
    """One ``NodeConnectionState`` per node that was ever connected to. Times are loop time, delays are seconds."""

    __slots__ = ("_connecting", "_reconnect_backoff", "_setup_timeout", "_states")

    def __init__(self, reconnect_backoff: ExponentialBackoff, setup_timeout: ExponentialBackoff) -> None:
        self._reconnect_backoff = reconnect_backoff
        self._setup_timeout = setup_timeout
        self._states: dict[int, NodeConnectionState] = {}
        self._connecting: set[int] = set()

    # questions

    def get(self, node_id: int) -> NodeConnectionState | None:
        """The node's state, or None when there never was an attempt."""
        return self._states.get(node_id)

    def can_connect(self, node_id: int, now: float) -> bool:
        """True when there is no connection and the back-off is over."""
        state = self._states.get(node_id)
        return state is None or (state.is_disconnected and now >= state.retry_at)

    def connection_delay(self, node_id: int, now: float) -> float:
        """Seconds until another attempt is worthwhile; infinite while connected, since only events matter then."""
        state = self._states.get(node_id)
        if state is None:
            return 0.0
        if state.is_disconnected:
            return max(0.0, state.retry_at - now)
        if state.state is _S.CONNECTING:
            return max(0.0, state.setup_deadline - now)
        return math.inf

    def is_preparing_connection(self, node_id: int) -> bool:
        """True while the connection is being set up, up to READY."""
        state = self._states.get(node_id)
        return state is not None and state.state in _PREPARING

    def is_checking_api_versions(self, node_id: int) -> bool:
        """True from the opening of the socket until the API versions are known."""
        state = self._states.get(node_id)
        return state is not None and state.state is _S.CHECKING_API_VERSIONS

    def is_ready(self, node_id: int, now: float) -> bool:
        """True when requests may go to the node: READY, and not throttled."""
        state = self._states.get(node_id)
        return state is not None and state.state is _READY and state.throttled_until <= now

    def throttle_delay(self, node_id: int, now: float) -> float:
        """Seconds until the node takes requests again; 0 when it is not throttled."""
        state = self._states.get(node_id)
        return 0.0 if state is None else max(0.0, state.throttled_until - now)

    def last_attempt(self, node_id: int) -> float:
        """The time at which the last attempt began or ended; minus infinity when there never was one."""
        state = self._states.get(node_id)
        return -math.inf if state is None else state.last_attempt

    def usable_at(self, node_id: int) -> float:
        """The end of the node's back-off or throttling; minus infinity when there is neither."""
        state = self._states.get(node_id)
        if state is None:
            return -math.inf
        return state.retry_at if state.is_disconnected else state.throttled_until

    def next_usable_at(self, now: float) -> float:
        """The next end of a back-off or throttling of any node after ``now``; infinite without one."""
        return min((time for node_id in self._states if (time := self.usable_at(node_id)) > now), default=math.inf)

    def setup_timeout(self, node_id: int) -> float:
        """The node's connection set-up time-out in seconds; infinite if none was attempted."""
        state = self._states.get(node_id)
        return math.inf if state is None else state.setup_timeout

    def address(self, node_id: int) -> str:
        """``host:port`` of the node as last connected to, an IPv6 host in brackets; empty when it never was."""
        state = self._states.get(node_id)
        return "" if state is None else format_address(state.host, state.port)

    def peer_name(self, node_id: int) -> str:
        """The host name that the node must prove, by certificate or Kerberos; empty if it was never connected to."""
        state = self._states.get(node_id)
        return "" if state is None else state.peer_name

    def nodes_with_connection_setup_timeout(self, now: float) -> list[int]:
        """Ids of the nodes whose connection set-up has timed out."""
        return [node_id for node_id in self._connecting if now >= self._states[node_id].setup_deadline]

    def next_setup_deadline(self) -> float:
        """The earliest deadline of a connection set-up; infinite when there is none."""
        return min((self._states[node_id].setup_deadline for node_id in self._connecting), default=math.inf)

    # events

    def connecting(self, node: Node, now: float) -> NodeConnectionState:
        """Begin an attempt; returns the state, whose ``setup_deadline`` and addresses the attempt uses."""
        state = self._states.get(node.node_id)
        if state is None or (state.host, state.port) != (node.host, node.port):
            # Failures at the old address say nothing about the new one.
            state = self._states[node.node_id] = NodeConnectionState(node.host, node.port)
            state.setup_timeout = self._setup_timeout.delay(0)
        state.state = CONNECTION_STATES.transition(state.state, _S.CONNECTING)
        state.last_attempt = now
        state.setup_deadline = now + state.setup_timeout
        state.authentication_error = None
        self._connecting.add(node.node_id)
        return state

    def checking_api_versions(self, node_id: int) -> None:
        """The socket is connected; the API versions are being requested."""
        state = self._states[node_id]
        state.state = CONNECTION_STATES.transition(state.state, _S.CHECKING_API_VERSIONS)
        self._connecting.discard(node_id)

    def authenticating(self, node_id: int) -> None:
        """SASL has begun, for the first time or, on a READY connection, again: no requests until it is done."""
        state = self._states[node_id]
        state.state = CONNECTION_STATES.transition(state.state, _S.AUTHENTICATING)
        self._connecting.discard(node_id)

    def ready(self, node_id: int) -> None:
        """Requests may be sent; earlier failures are forgotten."""
        state = self._states[node_id]
        state.state = CONNECTION_STATES.transition(state.state, _S.READY)
        state.failed_attempts = state.failed_setups = 0
        state.last_error = None
        state.is_listener_known = True
        state.setup_timeout = self._setup_timeout.delay(0)
        self._connecting.discard(node_id)

    def answered(self, node_id: int) -> None:
        """The node answered a request that a listener with SASL accepts only from authenticated clients."""
        state = self._states.get(node_id)
        if state is not None:
            state.is_known_without_sasl = True

    def disconnected(
        self, node_id: int, now: float, *, is_unanswered: bool = False, error: BaseException | None = None
    ) -> None:
        """The attempt failed or the connection is lost, with requests unanswered or not: the back-off begins."""
        state = self._states.get(node_id)
        if state is None or state.state is _S.DISCONNECTED:
            return
        state.last_error = None if error is None else str(error)
        if state.state in _PREPARING:
            state.was_closed_unanswered = not state.is_listener_known and state.state is _S.CHECKING_API_VERSIONS
            state.failed_setups += 1
            state.setup_timeout = self._setup_timeout.delay(state.failed_setups)
        elif state.state is _S.READY:
            state.was_closed_at_request = is_unanswered and not state.is_known_without_sasl
            # The broker may have moved: resolve its name again.
            state.clear_addresses()
        self._back_off(state, now)
        state.throttled_until = -math.inf
        state.state = CONNECTION_STATES.transition(state.state, _S.DISCONNECTED)
        self._connecting.discard(node_id)

    def authentication_failed(self, node_id: int, now: float, error: AuthenticationFailedError) -> None:
        """Either side refused the other: the back-off begins, as after a lost connection."""
        state = self._states.get(node_id)
        if state is None or state.is_disconnected:
            return
        state.authentication_error = error
        state.last_error = str(error)
        state.throttled_until = -math.inf
        self._back_off(state, now)
        state.state = CONNECTION_STATES.transition(state.state, _S.AUTHENTICATION_FAILED)
        self._connecting.discard(node_id)

    def forgive(self) -> None:
        """After a change of credentials: nodes that refused the old ones may be tried at once."""
        for state in self._states.values():
            if state.state is _S.AUTHENTICATION_FAILED:
                state.retry_at = state.last_attempt
                state.failed_attempts = 0

    def throttle(self, node_id: int, until: float) -> None:
        """Send nothing to the node before ``until``; an existing, longer throttle stays."""
        state = self._states.get(node_id)
        if state is not None and state.throttled_until < until:
            state.throttled_until = until

    def remove(self, node_id: int) -> None:
        """Forget the node."""
        self._states.pop(node_id, None)
        self._connecting.discard(node_id)

    def retain(self, nodes: Iterable[Node]) -> list[Node]:
        """Forget the nodes that are neither given nor connected; returns those whose address has changed."""
        wanted = {node.node_id: node for node in nodes}
        for node_id in [n for n, state in self._states.items() if n not in wanted and state.is_disconnected]:
            self.remove(node_id)
        return [
            node
            for node_id, node in wanted.items()
            if (state := self._states.get(node_id)) is not None and (state.host, state.port) != (node.host, node.port)
        ]

    # internals

    def _back_off(self, state: NodeConnectionState, now: float) -> None:
        state.last_attempt = now
        state.retry_at = now + self._reconnect_backoff.delay(state.failed_attempts)
        state.failed_attempts += 1


class NodeConnectionState:
    """The client's record of the connection to one node at one host and port."""

    __slots__ = (
        "_address_index",
        "addresses",
        "authentication_error",
        "failed_attempts",
        "failed_setups",
        "host",
        "is_known_without_sasl",
        "is_listener_known",
        "last_attempt",
        "last_error",
        "peer_name",
        "port",
        "retry_at",
        "setup_deadline",
        "setup_timeout",
        "state",
        "throttled_until",
        "was_closed_at_request",
        "was_closed_unanswered",
    )

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.peer_name = host  # the name that the broker must prove; canonicalization may replace it
        self.state = CONNECTION_STATES.initial
        # attempts
        self.last_attempt = -math.inf
        self.retry_at = -math.inf
        self.failed_attempts = 0
        # set-up
        self.setup_timeout = math.inf
        self.setup_deadline = math.inf
        self.failed_setups = 0
        # addresses of the host, and the number of those tried
        self.addresses: tuple[Address, ...] = ()
        self._address_index = 0
        # The last connection ended before the first response: the listener may speak another protocol. That is probed
        # once, and never where requests were answered before.
        self.was_closed_unanswered = False
        self.is_listener_known = False
        # The last connection ended when it was used, after the broker had told its versions, as a SASL listener does
        # with unauthenticated clients. This too is probed once.
        self.was_closed_at_request = False
        self.is_known_without_sasl = False
        # refusals
        self.throttled_until = -math.inf
        self.authentication_error: AuthenticationFailedError | None = None
        # The reason for the end of the last connection or attempt, until the next can be used; only its text, since an
        # error holds frames.
        self.last_error: str | None = None

    @property
    def is_disconnected(self) -> bool:
        """True when there is neither a connection nor an attempt at one."""
        return self.state is _S.DISCONNECTED or self.state is _S.AUTHENTICATION_FAILED

    @property
    def needs_resolution(self) -> bool:
        """True when every known address was tried, or none is known."""
        return self._address_index >= len(self.addresses)

    def set_addresses(self, addresses: Iterable[Address]) -> None:
        """Start a new round over these addresses."""
        self.addresses = tuple(addresses)
        self._address_index = 0

    def clear_addresses(self) -> None:
        """Resolve again before the next attempt."""
        self.set_addresses(())

    def next_address(self) -> Address | None:
        """The next address of this round, or None when the round is over."""
        if self.needs_resolution:
            return None
        self._address_index += 1
        return self.addresses[self._address_index - 1]
