"""Decides which nodes can take a request now, by connection state, throttling and requests in flight.

Owns the per-node state that the decision depends on, except for the connections, which it only reads. Pure: ``now`` is
an argument, and nothing here connects, writes or waits; the network client does. In Java these are methods of
``NetworkClient`` itself.

Rule: a node can take a request when it is READY, does not throttle us, its connection is writable (the last request is
completely written), and fewer than ``max_in_flight_requests_per_connection`` requests await a response.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from ...common import ExponentialBackoff, Node
from .api_versions import ApiVersions, NodeApiVersions
from .connection_states import ClusterConnectionStates
from .in_flight_requests import InFlightRequests
from .least_loaded_node import LeastLoadedNode, choose_least_loaded_node

__all__ = ["NodeReadiness", "WritableConnection"]

NEWEST: Final = 0.25
"""The weight of the newest measurement: a node that is slow once keeps its place, one that stays slow loses it."""


class WritableConnection:
    """The part of a connection that matters here: ``is_writable`` when the last request is completely written."""

    __slots__ = ("is_writable",)

    def __init__(self) -> None:
        self.is_writable = False


class ConnectionSettings(Protocol):
    """The part of a configuration that matters here."""

    @property
    def reconnect_backoff(self) -> ExponentialBackoff:
        """Delays between attempts to connect to a node."""

    @property
    def connection_setup_timeout(self) -> ExponentialBackoff:
        """Time-outs of connection set-up."""

    @property
    def most_in_flight(self) -> int:
        """The most requests to one broker that may await a response."""


class NodeReadiness:
    """Connection states, connections, requests in flight and API versions by node, and the questions about them."""

    __slots__ = ("_round_trips", "api_versions", "connections", "in_flight", "states")

    def __init__(self, settings: ConnectionSettings, connections: Mapping[int, WritableConnection]) -> None:
        self.states = ClusterConnectionStates(settings.reconnect_backoff, settings.connection_setup_timeout)
        self.in_flight = InFlightRequests(settings.most_in_flight)
        self.api_versions = ApiVersions()
        self.connections = connections
        self._round_trips: dict[int, float] = {}

    def can_send_request(self, node_id: int, now: float) -> bool:
        """True when a request may be written to the node now; see the module's rule."""
        connection = self.connections.get(node_id)
        return (
            connection is not None
            and connection.is_writable
            and self.states.is_ready(node_id, now)
            and self.in_flight.can_send_more(node_id)
        )

    def is_connection_ready(self, node_id: int, now: float) -> bool:
        """True when the node is READY and does not throttle us, with any number of requests in flight."""
        return self.states.is_ready(node_id, now)

    def is_preparing_connection(self, node_id: int) -> bool:
        """True while the node is being connected to."""
        return self.states.is_preparing_connection(node_id)

    def can_connect(self, node_id: int, now: float) -> bool:
        """True when there is no connection to the node and its back-off is over."""
        return self.states.can_connect(node_id, now)

    def last_attempt(self, node_id: int) -> float:
        """The time at which a connection to the node was last attempted, or lost."""
        return self.states.last_attempt(node_id)

    def round_trip(self, node_id: int) -> float | None:
        """Seconds that the node's recent answers to ApiVersions and Metadata took; None when it gave none."""
        return self._round_trips.get(node_id)

    def measured(self, node_id: int, seconds: float) -> None:
        """The node answered a request that needs neither disks nor other brokers; kept when the connection is lost."""
        before = self._round_trips.get(node_id, seconds)
        self._round_trips[node_id] = before + (seconds - before) * NEWEST

    def connection_delay(self, node: Node, now: float) -> float:
        """Seconds until another attempt to connect is worthwhile; infinite while connected, or without an address."""
        return math.inf if node.is_empty else self.states.connection_delay(node.node_id, now)

    def throttle_delay(self, node_id: int, now: float) -> float:
        """Seconds until the node takes requests again; 0 when it is not throttled."""
        return self.states.throttle_delay(node_id, now)

    def connection_failed(self, node: Node) -> bool:
        """True when the last connection to the node, or the last attempt, has ended and there is no other."""
        state = self.states.get(node.node_id)
        return state is not None and state.is_disconnected

    def in_flight_count(self, node_id: int | None = None) -> int:
        """The number of requests in flight on the node, or on all."""
        return self.in_flight.count(node_id)

    def node_api_versions(self, node_id: int) -> NodeApiVersions | None:
        """The API versions of the node, or None while it is not connected."""
        return self.api_versions.get(node_id)

    @property
    def connected_nodes(self) -> frozenset[int]:
        """Ids of the nodes with a connection; bootstrap addresses have negative ids."""
        return frozenset(self.connections)

    def choose_node(self, nodes: Sequence[Node], now: float) -> LeastLoadedNode:
        """The least loaded of ``nodes``; see the module ``least_loaded_node``."""
        return choose_least_loaded_node(nodes, self, now, random.randrange(len(nodes)) if nodes else 0)
