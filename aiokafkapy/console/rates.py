"""Rates of growing totals, and the traffic of the last minutes, both bounded in memory. Pure: ``now`` is passed.

Owns the meters and the history; knows no source. Kafka's counterpart is ``Rate`` of its metrics.

Rules:

- a falling total (a topic recreated, a broker restarted) starts again and gives no negative rate;
- a meter without updates is dropped, so memory is bounded by the number of topics.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from .model import FaultEvent, Sample, TrafficPoint

__all__ = ["History", "Meter", "Meters"]

WINDOW: Final = 5.0
"""Seconds of a rate's window: long enough to be readable, short enough to follow a fault."""
MOST_POINTS: Final = 600
MOST_EVENTS: Final = 500


class Meter:
    """The rate of one total, over the last ``WINDOW`` seconds."""

    __slots__ = ("_totals",)

    def __init__(self) -> None:
        self._totals: deque[tuple[float, float]] = deque()

    def update(self, total: float, now: float) -> float:
        """Note the total; returns its rate. 0 for the first."""
        totals = self._totals
        if totals and total < totals[-1][1]:
            totals.clear()
        totals.append((now, total))
        # The window begins at the newest point that is older than it.
        while len(totals) > 2 and totals[1][0] <= now - WINDOW:
            totals.popleft()
        return self.rate()

    def rate(self) -> float:
        """The rate per second, as of the last update."""
        (began, first), (ended, last) = self._totals[0], self._totals[-1]
        return (last - first) / (ended - began) if ended > began else 0.0


class Meters:
    """Rates by key."""

    __slots__ = ("_meters",)

    def __init__(self) -> None:
        self._meters: dict[str, Meter] = {}

    def update(self, totals: Mapping[str, float], now: float) -> dict[str, float]:
        """The rates of these totals; other meters are dropped."""
        for gone in self._meters.keys() - totals.keys():
            del self._meters[gone]
        return {key: self._meters.setdefault(key, Meter()).update(total, now) for key, total in totals.items()}


class History:
    """The traffic point by point, and the faults beside it; the oldest are dropped."""

    def __init__(self) -> None:
        self.points: deque[TrafficPoint] = deque(maxlen=MOST_POINTS)
        self.events: deque[FaultEvent] = deque(maxlen=MOST_EVENTS)
        self._last: tuple[float, Sample] | None = None
        self._count = 0

    def add(self, sample: Sample, now: float, at_ms: int) -> TrafficPoint | None:
        """The traffic since the sample before, as a new point; None for the first."""
        last, self._last = self._last, (now, sample)
        if last is None or now <= last[0]:
            return None
        seconds, before = now - last[0], last[1]
        point = TrafficPoint(
            at_ms,
            _growth(before.records, sample.records) / seconds,
            None if sample.sizes is None else _growth(before.sizes or {}, sample.sizes) / seconds,
            _per_second(before.requests, sample.requests, seconds),
            _per_second(before.errors, sample.errors, seconds),
        )
        self.points.append(point)
        return point

    def add_event(
        self,
        at_ms: int,
        control: str,
        text: str,
        *,
        is_end: bool = False,
        error: str | None = None,
        fault: str | None = None,
    ) -> FaultEvent:
        """Note a fault."""
        self._count += 1
        event = FaultEvent(self._count, at_ms, control, text, is_end, error, fault)
        self.events.append(event)
        return event


def _growth(before: Mapping[str, int], after: Mapping[str, int]) -> float:
    """The growth of the totals; a new total counts from 0, a fallen one does not count."""
    return sum(max(0, total - before.get(key, 0)) for key, total in after.items())


def _per_second(before: int | None, after: int | None, seconds: float) -> float | None:
    return None if before is None or after is None else max(0, after - before) / seconds
