"""``TriggerDelay``: decides whether a micro-batch waits for more records (``minOffsetsPerTrigger``,
``maxTriggerDelay``).

Owns the time of the last micro-batch that did not wait. Pure: it takes ``now``. Spark's counterpart is ``delayBatch``
of ``KafkaMicroBatchStream``.

Rules: the first micro-batch never waits; a later one waits while it has too few records, until the delay is over.
"""

from __future__ import annotations

__all__ = ["TriggerDelay"]


class TriggerDelay:
    """The delay of one query: at least ``least`` records, or ``longest`` seconds since the last micro-batch."""

    def __init__(self, least: int, longest: float) -> None:
        self._least = least
        self._longest = longest
        self._last: float | None = None

    def must_wait(self, count: int, now: float) -> bool:
        """True if a micro-batch of ``count`` records is put off; otherwise it counts as triggered ``now``."""
        is_late = self._last is None or now - self._last >= self._longest
        if not is_late and count < self._least:
            return True
        self._last = now
        return False
