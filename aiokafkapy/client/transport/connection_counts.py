"""Counts of connections that were made, have ended and were authenticated: Kafka's metrics of a client's connections.

It knows no connection and no clock: ``now`` is an argument. Kafka's counterparts are the sensors ``connectionCreated``
to ``reauthenticationLatency`` of ``Selector.SelectorMetrics``.

Rules: totals count from the start; rates are of the last one to two windows of 30 s, as Kafka's are. As there, an
authentication is one by SASL, or a TLS handshake where there is no SASL, and a failed one was refused by either side:
a connection that is lost meanwhile counts as neither.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...observability.window import Window, window_metrics

__all__ = ["ConnectionCounts", "EventCount", "connection_metrics"]


class EventCount:
    """Events: their total, and their rate per second."""

    __slots__ = ("_recent", "total")

    def __init__(self, now: float) -> None:
        self.total = 0
        self._recent = Window(now)

    def record(self, now: float) -> None:
        """One more."""
        self.total += 1
        self._recent.record(1, now)

    def rate(self, now: float) -> float:
        """Events a second; a window that has just begun counts as whole, so that the first is not taken for many."""
        return self._recent.event_rate(now)


class ConnectionCounts:
    """The connection counts of one client."""

    __slots__ = (
        "authenticated",
        "authentication_failed",
        "closed",
        "created",
        "reauthenticated",
        "reauthentication_failed",
        "reauthentication_time",
    )

    def __init__(self, now: float) -> None:
        self.created = EventCount(now)
        self.closed = EventCount(now)
        self.authenticated = EventCount(now)
        self.authentication_failed = EventCount(now)
        # renewals of sessions (KIP-368), with their times in milliseconds
        self.reauthenticated = EventCount(now)
        self.reauthentication_failed = EventCount(now)
        self.reauthentication_time = Window(now)

    def record_authentication(self, now: float) -> None:
        """A connection was authenticated for the first time."""
        self.authenticated.record(now)

    def record_reauthentication(self, seconds: float, now: float) -> None:
        """A session was renewed, within this time."""
        self.reauthenticated.record(now)
        self.reauthentication_time.record(seconds * 1000, now)

    def record_refusal(self, now: float, *, is_renewal: bool = False) -> None:
        """One side refused the other."""
        (self.reauthentication_failed if is_renewal else self.authentication_failed).record(now)


def connection_metrics(clients: Iterable[ConnectionCounts], now: float) -> dict[str, float]:
    """Kafka's names, with the values of these clients at ``now``."""
    counts = list(clients)
    found: dict[str, float] = {"connection-count": sum(each.created.total - each.closed.total for each in counts)}
    for name, events in {
        "connection-creation": [each.created for each in counts],
        "connection-close": [each.closed for each in counts],
        "successful-authentication": [each.authenticated for each in counts],
        "failed-authentication": [each.authentication_failed for each in counts],
        "successful-reauthentication": [each.reauthenticated for each in counts],
        "failed-reauthentication": [each.reauthentication_failed for each in counts],
    }.items():
        found[f"{name}-total"] = sum(each.total for each in events)
        found[f"{name}-rate"] = sum(each.rate(now) for each in events)
    found.update(window_metrics("reauthentication-latency", [each.reauthentication_time for each in counts], now))
    return found
