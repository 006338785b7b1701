"""``Window``: a value over the last 30 to 60 seconds, for averages, maxima and rates.

Kafka's counterparts are ``Sensor``, ``Rate``, ``Avg`` and ``Max`` with its two samples of 30 s. It knows no clock:
``now`` is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["WINDOW", "Window", "window_metrics"]

WINDOW: Final = 30.0
"""Seconds; Kafka's metrics.sample.window.ms with its two samples."""
_WINDOW: Final = WINDOW  # a C number when compiled


class Window:
    """Count, sum and maximum of a value over the last one to two windows of time."""

    __slots__ = ("_count", "_maximum", "_old_count", "_old_maximum", "_old_total", "_started", "_total")

    def __init__(self, now: float) -> None:
        self._started = now
        self._count = self._old_count = 0
        self._total = self._old_total = 0.0
        self._maximum = self._old_maximum = 0.0

    def record(self, value: float, now: float, count: int = 1) -> None:
        """Add ``value``, which stands for ``count`` events."""
        if now - self._started >= _WINDOW:
            self._rotate(now)
        self._count += count
        self._total += value
        if value > self._maximum:
            self._maximum = value

    def sums(self, now: float) -> tuple[int, float]:
        """The number of events, and the sum of their values."""
        self._rotate_if_due(now)
        return self._count + self._old_count, self._total + self._old_total

    def average(self, now: float) -> float:
        """The mean per event; 0 without events."""
        count, total = self.sums(now)
        return total / count if count else 0.0

    def maximum(self, now: float) -> float:
        """The largest value."""
        self._rotate_if_due(now)
        return max(self._maximum, self._old_maximum)

    def rate(self, now: float) -> float:
        """The sum per second."""
        self._rotate_if_due(now)
        # As in Kafka: one window counts as complete, so that the first event is not taken for a flood.
        return (self._total + self._old_total) / (_WINDOW + max(0.0, now - self._started))

    def event_rate(self, now: float) -> float:
        """The events per second."""
        self._rotate_if_due(now)
        return (self._count + self._old_count) / (WINDOW + max(0.0, now - self._started))

    def _rotate_if_due(self, now: float) -> None:
        if now - self._started >= _WINDOW:
            self._rotate(now)

    def _rotate(self, now: float) -> None:
        is_recent = now - self._started < 2 * _WINDOW
        self._old_count = self._count if is_recent else 0
        self._old_total = self._total if is_recent else 0.0
        self._old_maximum = self._maximum if is_recent else 0.0
        self._count = 0
        self._total = self._maximum = 0.0
        self._started = self._started + _WINDOW if is_recent else now


def window_metrics(name: str, windows: Sequence[Window], now: float) -> dict[str, float]:
    """Kafka's ``…-avg`` and ``…-max`` of the values in all of these windows."""
    sums = [each.sums(now) for each in windows]
    count = sum(each for each, _ in sums)
    return {
        f"{name}-avg": sum(total for _, total in sums) / count if count else 0.0,
        f"{name}-max": max((each.maximum(now) for each in windows), default=0.0),
    }
