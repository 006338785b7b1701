"""The choice of a node for a request that any node can answer.

Decides only; the caller connects or sends. Kafka's counterparts are ``NetworkClient.leastLoadedNode`` and
``LeastLoadedNode``.

Rule, starting at a random offset so that clients spread: (1) of the usable connections those with the fewest requests
in flight, and of these a near one; (2) a node that is being connected to; (3) of the nodes that may be connected
to, the one least recently tried; (4) none. A node is near if its round trip is at most a quarter and ``SAME``
longer than the shortest: a broker in another zone is passed over, and a difference by chance does not count. One that
was never measured counts as near. Java looks at the load alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ...common import Node

__all__ = ["LeastLoadedNode", "NodeChooser", "choose_least_loaded_node"]

FARTHER: Final = 1.25
SAME: Final = 0.001
"""Seconds by which round trips to brokers side by side may differ: a client's own loop is often busy for so long."""


class LeastLoadedNode(NamedTuple):
    """The node, or None; ``has_ready_connection``: a node is connected, even if it cannot take a request now."""

    node: Node | None
    has_ready_connection: bool

    @property
    def has_node_available_or_connection_ready(self) -> bool:
        """False when only back-offs are left to wait for."""
        return self.node is not None or self.has_ready_connection


class NodeChooser(Protocol):
    """The grounds of the choice; ``NodeReadiness`` implements it."""

    def can_send_request(self, node_id: int, now: float) -> bool:
        """True when a request may be written to the node now."""

    def in_flight_count(self, node_id: int) -> int:
        """Requests in flight on the node."""

    def is_connection_ready(self, node_id: int, now: float) -> bool:
        """True when the node is connected and not throttled."""

    def is_preparing_connection(self, node_id: int) -> bool:
        """True while the node is being connected to."""

    def can_connect(self, node_id: int, now: float) -> bool:
        """True when a connection may be attempted now."""

    def last_attempt(self, node_id: int) -> float:
        """The time at which a connection was last attempted."""

    def round_trip(self, node_id: int) -> float | None:
        """Seconds that the node's answers took; None when none was measured."""


def choose_least_loaded_node(nodes: Sequence[Node], chooser: NodeChooser, now: float, offset: int) -> LeastLoadedNode:
    """Choose by the module's rule, starting at ``offset`` in ``nodes``."""
    least_busy: list[Node] = []
    fewest = 0
    preparing: Node | None = None
    connectable: Node | None = None
    has_ready = False
    for index in range(len(nodes)):
        node = nodes[(offset + index) % len(nodes)]
        node_id = node.node_id
        has_ready = has_ready or chooser.is_connection_ready(node_id, now)
        if chooser.can_send_request(node_id, now):
            in_flight = chooser.in_flight_count(node_id)
            if not least_busy or in_flight < fewest:
                least_busy, fewest = [node], in_flight
            elif in_flight == fewest:
                least_busy.append(node)
        elif chooser.is_preparing_connection(node_id):
            preparing = node
        elif chooser.can_connect(node_id, now) and (
            connectable is None or chooser.last_attempt(node_id) < chooser.last_attempt(connectable.node_id)
        ):
            connectable = node
    return LeastLoadedNode(_first_near(least_busy, chooser) or preparing or connectable, has_ready)


def _first_near(nodes: Sequence[Node], chooser: NodeChooser) -> Node | None:
    if len(nodes) < 2:
        return nodes[0] if nodes else None
    times = [chooser.round_trip(node.node_id) for node in nodes]
    limit = min((time for time in times if time is not None), default=0.0) * FARTHER + SAME
    return next(node for node, time in zip(nodes, times, strict=True) if time is None or time <= limit)
