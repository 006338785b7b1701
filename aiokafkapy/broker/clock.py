"""The wall clock of a cluster, which ``controls.advance_clock`` moves.

It decides about the age of records, and gives the timestamps that the broker writes into them. Time-outs of requests,
members and transactions run by the event loop's clock, and not by this one. Kafka's counterpart is ``Time``; its
tests' is ``MockTime``.
"""

from __future__ import annotations

import time

__all__ = ["WallClock"]


class WallClock:
    """Called for the milliseconds since 1970."""

    __slots__ = ("_ahead_ms",)

    def __init__(self) -> None:
        self._ahead_ms = 0

    def __call__(self) -> int:
        return int(time.time() * 1000) + self._ahead_ms

    def advance(self, seconds: float) -> None:
        """Advance the clock by this time at once. ValueError when it is negative."""
        if not seconds >= 0:
            raise ValueError(f"seconds={seconds}: time goes forward only")
        self._ahead_ms += round(seconds * 1000)
