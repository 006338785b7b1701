"""``ClientTraffic`` and ``NodeTraffic``: requests, their bytes and latency, of a client and of each of its nodes.

Owns the numbers. It knows no connection and no clock: ``now`` is an argument. Kafka's counterpart is
``Selector.SelectorMetrics``, whose names and units these are; those of nodes are its ``producer-node-metrics``.

Rules: averages, maxima and rates look at the last one to two windows of 30 s; durations are milliseconds, as Kafka's
are; a bootstrap address is not a node, and has no metrics; a request without an answer has no latency.
"""

from __future__ import annotations

from ...observability.window import Window
from .traffic_counts import TrafficCounts, traffic_metrics

__all__ = ["ClientTraffic", "NodeTraffic"]


class ClientTraffic:
    """The numbers of one client, and of its nodes if somebody wants them."""

    __slots__ = ("by_node", "counts")

    def __init__(self, now: float) -> None:
        self.counts = TrafficCounts(now)
        self.by_node: NodeTraffic | None = None

    def record_request(self, node_id: int, size: int, now: float) -> None:
        """A request of ``size`` bytes goes out."""
        self.counts.record_request(size, now)
        if self.by_node is not None:
            self.by_node.record_request(node_id, size, now)

    def record_response(self, node_id: int, size: int, seconds: float, now: float) -> None:
        """An answer of ``size`` bytes has come in, ``seconds`` after its request was written."""
        self.counts.record_response(size, now)
        if self.by_node is not None:
            self.by_node.record_response(node_id, size, seconds, now)


class NodeTraffic:
    """The numbers of each node of one producer, whose clients may share it."""

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: dict[int, NodeCounts] = {}

    def record_request(self, node_id: int, size: int, now: float) -> None:
        """As ``ClientTraffic.record_request``."""
        if node_id >= 0:
            self._node(node_id, now).traffic.record_request(size, now)

    def record_response(self, node_id: int, size: int, seconds: float, now: float) -> None:
        """As ``ClientTraffic.record_response``."""
        if node_id >= 0:
            node = self._node(node_id, now)
            node.traffic.record_response(size, now)
            node.latency.record(seconds * 1000, now)

    def snapshot(self, now: float) -> dict[int, dict[str, float]]:
        """Kafka's names and values at ``now``, by node id."""
        return {node_id: node.snapshot(now) for node_id, node in sorted(self._nodes.items())}

    # internals

    def _node(self, node_id: int, now: float) -> NodeCounts:
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = NodeCounts(now)
        return node


class NodeCounts:
    """The numbers of one node."""

    __slots__ = ("latency", "traffic")

    def __init__(self, now: float) -> None:
        self.traffic = TrafficCounts(now)
        self.latency = Window(now)

    def snapshot(self, now: float) -> dict[str, float]:
        """Kafka's names and values at ``now``."""
        return {
            **traffic_metrics([self.traffic], now),
            "request-latency-avg": self.latency.average(now),
            "request-latency-max": self.latency.maximum(now),
        }
