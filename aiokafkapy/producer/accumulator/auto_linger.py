"""``AutoLinger``: the time for which batches gather with ``linger_ms="auto"``, from the arrivals and the round trip.

Owns the estimate of the arrivals, and the bounds. It knows no batches and no clock: the count of accepted records, the
round trip and ``now`` are asked for or given. Java has no counterpart; BBR's pacing from a measured rate and round
trip is the idea.

Rules:

- Few arrivals, no linger: a record that comes alone leaves at once, also beside others that are in flight.
- With more it grows, up to the measured round trip, so that a record's time is not more than doubled, and up to
  ``LONGEST``: a distant broker gets fewer and larger requests.
- Records older than a few milliseconds do not count: after three times ``MEMORY`` of quiet it is 0 again.
- Batches are looked at again each ``RECHECK`` while they gather, and not once it is quiet.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from typing import Final, Protocol

from ..options.linger_bounds import AUTO_LINGER_MS

__all__ = ["FEW", "LONGEST", "MANY", "MEMORY", "RECHECK", "AutoLinger"]

MEMORY: Final = 0.002
"""Seconds in which an arrival's weight falls to 1/e."""
FEW: Final = 4.0
"""Arrivals within the memory below which nothing gathers: some 2,000 a second."""
MANY: Final = 64.0
"""Arrivals at which a batch gathers for as long as it may: some 32,000 a second. More are not counted."""
LONGEST: Final = AUTO_LINGER_MS / 1000
LONGEST_WITHOUT_ROUND_TRIP: Final = 0.005
"""Seconds, before any request was answered."""
RECHECK: Final = 0.002


class Counting(Protocol):
    """The part of ``RecordAppender`` that is needed here."""

    @property
    def accepted(self) -> int:
        """Records that were appended."""


class AutoLinger:
    """The linger of one producer. ``appender`` knows how many records ever were accepted, ``round_trip`` tells the
    seconds of a request, 0 before the first.
    """

    __slots__ = ("_appender", "_arrivals", "_counted", "_looked_at", "round_trip")

    def __init__(self, appender: Counting) -> None:
        self._appender = appender
        self.round_trip: Callable[[float], float] = _unknown
        self._counted = 0
        self._arrivals = 0.0  # within the memory, as of the last look
        self._looked_at = float("-inf")

    def linger(self, now: float) -> float:
        """Seconds that a batch gathers, from its first record. To be asked at each look at the batches."""
        accepted = self._appender.accepted
        fresh, self._counted = accepted - self._counted, accepted
        elapsed, self._looked_at = now - self._looked_at, now
        if elapsed > 0:
            # They are assumed to have come evenly since the last look.
            fade = exp(-elapsed / MEMORY)
            self._arrivals = self._arrivals * fade + fresh * (1 - fade) * MEMORY / elapsed
        else:
            self._arrivals += fresh
        self._arrivals = min(self._arrivals, MANY)
        if self._arrivals < FEW:
            return 0.0
        round_trip = self.round_trip(now)
        most = min(round_trip, LONGEST) if round_trip > 0 else LONGEST_WITHOUT_ROUND_TRIP
        return most * self._arrivals / MANY


def _unknown(now: float) -> float:
    """The round trip before the first measurement."""
    return 0.0
