"""``TrafficCounts``: requests and answers of a client or a node, and their bytes, for Kafka's metrics.

It knows no connection and no clock: ``now`` is an argument. Kafka's counterpart is ``Selector.SelectorMetrics``, whose
names and units these are.

Rules: all requests count, the client's own included, and the four bytes of a frame's size. A request and an answer are
one operation of the network each: the event loop decides how often a socket is written or read for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...observability.window import Window, window_metrics

__all__ = ["TrafficCounts", "traffic_metrics"]


class TrafficCounts:
    """The counts of one client, or of one of its nodes."""

    __slots__ = ("bytes_in", "bytes_out", "received", "requests", "responses", "sent")

    def __init__(self, now: float) -> None:
        self.requests = 0
        self.responses = 0
        self.bytes_out = 0
        self.bytes_in = 0
        self.sent = Window(now)
        self.received = Window(now)

    def record_request(self, size: int, now: float) -> None:
        """A request of ``size`` bytes goes out."""
        self.requests += 1
        self.bytes_out += size
        self.sent.record(size, now)

    def record_response(self, size: int, now: float) -> None:
        """An answer of ``size`` bytes has come in."""
        self.responses += 1
        self.bytes_in += size
        self.received.record(size, now)


def traffic_metrics(traffic: Iterable[TrafficCounts], now: float) -> dict[str, float]:
    """Kafka's names, with the values of these together at ``now``."""
    counts = list(traffic)
    sent, received = [each.sent for each in counts], [each.received for each in counts]
    return {
        "request-rate": sum(each.event_rate(now) for each in sent),
        "request-total": sum(each.requests for each in counts),
        **window_metrics("request-size", sent, now),
        "outgoing-byte-rate": sum(each.rate(now) for each in sent),
        "outgoing-byte-total": sum(each.bytes_out for each in counts),
        "response-rate": sum(each.event_rate(now) for each in received),
        "response-total": sum(each.responses for each in counts),
        "incoming-byte-rate": sum(each.rate(now) for each in received),
        "incoming-byte-total": sum(each.bytes_in for each in counts),
    }
