"""How many connections were made and have ended: Kafka's ``connection-creation`` and ``connection-close`` metrics.

It knows no connection and no clock: ``now`` is an argument. Kafka's counterparts are the sensors ``connectionCreated``
and ``connectionClosed`` of ``Selector.SelectorMetrics``.

Rule: totals count from the start; rates are of the last one to two windows of 30 s, as Kafka's are.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ConnectionCounts", "EventCount"]

WINDOW: Final = 30.0
"""Seconds; Kafka's metrics.sample.window.ms with its two samples."""


class EventCount:
    """Events since the start, and a second."""

    __slots__ = ("_count", "_old_count", "_started", "total")

    def __init__(self, now: float) -> None:
        self.total = 0
        self._started = now
        self._count = self._old_count = 0

    def record(self, now: float) -> None:
        """One more."""
        self._rotate(now)
        self.total += 1
        self._count += 1

    def rate(self, now: float) -> float:
        """Events a second; a window that has just begun counts as whole, so that the first is not taken for many."""
        self._rotate(now)
        return (self._count + self._old_count) / (WINDOW + max(0.0, now - self._started))

    def _rotate(self, now: float) -> None:
        elapsed = now - self._started
        if elapsed >= WINDOW:
            is_recent = elapsed < 2 * WINDOW
            self._old_count = self._count if is_recent else 0
            self._count = 0
            self._started = self._started + WINDOW if is_recent else now


class ConnectionCounts:
    """Of one client."""

    __slots__ = ("closed", "created")

    def __init__(self, now: float) -> None:
        self.created = EventCount(now)
        self.closed = EventCount(now)
