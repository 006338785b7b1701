"""The time of the next metadata request: the requested update, the age of the metadata, and the back-off.

Owns the times, and the question that is asked before each request to any node. ``metadata`` sets them; it knows no
clock. In Java these are fields of ``org.apache.kafka.clients.Metadata``.
"""

from __future__ import annotations

import math

__all__ = ["UpdateTimes"]


class UpdateTimes:
    """Loop times in seconds; minus infinity: since ever."""

    __slots__ = ("allowed_at", "expires_at", "need_full_update", "need_partial_update")

    def __init__(self) -> None:
        self.need_full_update = False
        self.need_partial_update = False
        self.expires_at = -math.inf
        self.allowed_at = -math.inf

    @property
    def is_requested(self) -> bool:
        """True when an update was requested and has not arrived yet."""
        return self.need_full_update or self.need_partial_update

    def is_due(self, now: float) -> bool:
        """True when ``time_to_next`` is 0."""
        if not (self.need_full_update or self.need_partial_update) and now < self.expires_at:
            return False
        return self.allowed_at <= now

    def time_to_next(self, now: float) -> float:
        """Seconds until the next request is due."""
        to_expire = 0.0 if self.is_requested else self.expires_at - now
        return max(to_expire, self.allowed_at - now, 0.0)
