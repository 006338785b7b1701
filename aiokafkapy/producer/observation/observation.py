"""``Observation``: the observers of one started producer, as its options have them.

Makes the observers' dispatcher once, with our own metrics by topic among the observers, a watch for each place that
reports events, and the counts of each node. Java has no counterpart; ``Metrics`` with its reporters is the nearest.

Rule: a part that no option asks for is None, so that the places that would report pay for one test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...client.network_client import NetworkClient
from ...client.tap.watch import ClientWatch
from ...client.tap.wire_tap import WireTap
from ...client.transport.node_traffic import NodeTraffic
from ...observability.interrupts import raise_soon
from ...observability.observer import OBSERVER_METHODS, Observers
from .batch_watch import BatchWatch
from .topic_metrics import TopicMetrics

if TYPE_CHECKING:
    from ..config import ProducerConfig

__all__ = ["Observation"]


class Observation:
    """The observers and metrics of one producer. ``clock`` is the loop's."""

    def __init__(self, config: ProducerConfig, clock: Callable[[], float]) -> None:
        self.node_traffic = NodeTraffic() if config.metrics_per_node else None
        self.topic_metrics = TopicMetrics(config.metrics_topics_max, clock) if config.metrics_topics_max else None
        ours = [] if self.topic_metrics is None else [self.topic_metrics]
        self.observers = Observers([*ours, *config.observers], clock, raise_soon)
        of_clients = [name for name in OBSERVER_METHODS if name != "batch_done"]
        self._has_observers = any(getattr(self.observers, name) is not None for name in of_clients)
        self.batch_watch: BatchWatch | None = None
        if config.record_timing or self.observers.batch_done is not None:
            self.batch_watch = BatchWatch(self.observers, clock)

    def client_watch(self) -> ClientWatch | None:
        """A watch for one network client; None without observers."""
        tap = WireTap.from_environment()
        return ClientWatch(self.observers, tap) if self._has_observers or tap is not None else None

    def count_nodes(self, client: NetworkClient) -> None:
        """Count the client's requests by node, if the options ask for it."""
        client.traffic.by_node = self.node_traffic

    def tap(self, tap: WireTap, client: NetworkClient) -> None:
        """Let ``tap`` record the requests and answers of ``client``."""
        watch = client.watch
        if watch is None:
            watch = ClientWatch(self.observers)
            client.use_watch(watch)
        watch.add_tap(tap)
