"""Kafka's metrics of each node: the group ``producer-node-metrics``, kept as an observer of the requests.

Owns the numbers. It knows no connection and reads the clock that it is given. Kafka's counterpart is
``Selector.SelectorMetrics``, whose names and units these are; all requests count, the client's own included.

Rules: averages, maxima and rates look at the last one to two windows of 30 s; durations are milliseconds, as Kafka's
are; a bootstrap address is no node, and has no metrics.
"""

from __future__ import annotations

from collections.abc import Callable

from ...client.transport.traffic_counts import TrafficCounts, traffic_metrics
from ...observability.observer import Observer, RequestDone, RequestSent
from ...observability.window import Window

__all__ = ["NodeMetrics"]


class NodeMetrics(Observer):
    """The numbers of each node of one producer."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._nodes: dict[int, _Node] = {}

    def request_sent(self, event: RequestSent) -> None:
        """Count bytes and requests that go out."""
        if event.node_id < 0:
            return
        now = self._clock()
        self._node(event.node_id, now).traffic.record_request(event.size, now)

    def request_done(self, event: RequestDone) -> None:
        """Count bytes and answers that come in; a request without an answer has no latency."""
        if event.node_id < 0 or event.error is not None:
            return
        now = self._clock()
        node = self._node(event.node_id, now)
        node.traffic.record_response(event.response_size, now)
        node.latency.record(event.seconds * 1000, now)

    def snapshot(self, now: float) -> dict[int, dict[str, float]]:
        """Kafka's names and values at ``now``, by node id."""
        return {node_id: node.snapshot(now) for node_id, node in sorted(self._nodes.items())}

    # internals

    def _node(self, node_id: int, now: float) -> _Node:
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = _Node(now)
        return node


class _Node:
    """The numbers of one node."""

    __slots__ = ("latency", "traffic")

    def __init__(self, now: float) -> None:
        self.traffic = TrafficCounts(now)
        self.latency = Window(now)

    def snapshot(self, now: float) -> dict[str, float]:
        return {
            **traffic_metrics([self.traffic], now),
            "request-latency-avg": self.latency.average(now),
            "request-latency-max": self.latency.maximum(now),
        }
