"""``MarkerPause``: how long the first records of a transaction wait for the end of the one before, in version 2.

An end is answered once it is decided, and its markers are written in the next millisecond or so. A broker that gets a
record meanwhile keeps it for ``add.partitions.to.txn.retry.backoff.ms``, 20 by default, before it looks again: a pause
as short as the markers need costs less. It is learned from the answers, and knows no clock. Java has none.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MarkerPause"]

KEPT: Final = 0.018
"""Seconds beyond the quickest answer from which on a record counts as kept back by the broker."""
SHORTEST: Final = 0.0005
LONGEST: Final = 0.008
LONGER: Final = 1.5
SHORTER: Final = 1 - 1 / 128
SHORTER_AT_FIRST: Final = 1 - 1 / 16
"""Until the first record was kept back: a pause that is long enough shows how quick an answer can be."""
FADING: Final = 1.01
"""The quickest answer is forgotten by so much with each other one: brokers become slower too."""


class MarkerPause:
    """``seconds`` from the answer to an end until the next transaction's records may go."""

    __slots__ = ("_quickest", "_shorter", "seconds")

    def __init__(self) -> None:
        self.seconds = LONGEST
        self._quickest = float("inf")
        self._shorter = SHORTER_AT_FIRST

    def observe(self, seconds: float) -> None:
        """The first batch of a transaction had its answer after so long."""
        if seconds >= self._quickest + KEPT:
            self.seconds = min(LONGEST, self.seconds * LONGER)
            self._shorter = SHORTER
        else:
            self.seconds = max(SHORTEST, self.seconds * self._shorter)
        self._quickest = min(seconds, self._quickest * FADING)
