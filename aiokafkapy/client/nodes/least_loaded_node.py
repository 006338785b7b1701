"""The choice of a node for a request that any node can answer.

Decides only; the caller connects or sends. Kafka's counterparts are ``NetworkClient.leastLoadedNode`` and
``LeastLoadedNode``.

Rule, starting at a random offset so that clients spread: (1) the first usable connection with nothing in flight; (2)
the usable connection with the fewest requests in flight; (3) a node that is being connected to; (4) of the nodes that
may be connected to, the one least recently tried; (5) none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ...common import Node

__all__ = ["LeastLoadedNode", "NodeChooser", "choose_least_loaded_node"]


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
        """When a connection was last attempted."""


def choose_least_loaded_node(nodes: Sequence[Node], chooser: NodeChooser, now: float, offset: int) -> LeastLoadedNode:
    """Choose by the module's rule, starting at ``offset`` in ``nodes``."""
    least_busy: Node | None = None
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
            if in_flight == 0:
                return LeastLoadedNode(node, True)
            if least_busy is None or in_flight < fewest:
                least_busy, fewest = node, in_flight
        elif chooser.is_preparing_connection(node_id):
            preparing = node
        elif chooser.can_connect(node_id, now) and (
            connectable is None or chooser.last_attempt(node_id) < chooser.last_attempt(connectable.node_id)
        ):
            connectable = node
    return LeastLoadedNode(least_busy or preparing or connectable, has_ready)
