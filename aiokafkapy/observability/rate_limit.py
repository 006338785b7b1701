"""Keeps the repeated events of an outage from filling the log.

Owns the budgets: three lines at once for each key, then one in eight seconds, so ten in the first minute of an outage
and seven or eight in each one after. The next line that goes through tells the number of suppressed ones, as
``suppressed``. Knows no clock: callers give loop time. Java's clients have no counterpart; they log every failed
attempt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from .events import EventLogger

__all__ = ["RateLimitedLogger"]

_BURST: Final = 3
_SECONDS_PER_LINE: Final = 8.0
# Keys are brokers and partitions; beyond this many the least recently used one is forgotten.
_MAX_KEYS: Final = 1_024


class RateLimitedLogger:
    """Lets about ten events a minute through for each key; the next one tells the number of suppressed ones. ``now``
    is loop time.
    """

    __slots__ = ("_budgets", "_logger")

    def __init__(self, logger: EventLogger) -> None:
        self._logger = logger
        self._budgets: OrderedDict[Hashable, _Budget] = OrderedDict()

    def log(self, key: Hashable, now: float, level: int, event: str, **fields: object) -> bool:
        """Log the event unless its key used up its lines; returns True if it was logged."""
        budget = self._budgets.get(key)
        if budget is None:
            budget = self._budgets[key] = _Budget(now)
            if len(self._budgets) > _MAX_KEYS:
                self._budgets.popitem(last=False)
        else:
            self._budgets.move_to_end(key)
        if not budget.take(now):
            return False
        if budget.suppressed:
            fields["suppressed"] = budget.suppressed
            budget.suppressed = 0
        self._logger.log(level, event, fields)
        return True

    def settle(self, key: Hashable) -> int | None:
        """Forget the key, whose outage is over. Returns the number of events suppressed since the last logged one, or
        None without an outage.
        """
        budget = self._budgets.pop(key, None)
        return None if budget is None else budget.suppressed


class _Budget:
    """A token bucket."""

    __slots__ = ("lines", "suppressed", "updated")

    def __init__(self, now: float) -> None:
        self.lines = float(_BURST)
        self.updated = now
        self.suppressed = 0

    def take(self, now: float) -> bool:
        self.lines = min(float(_BURST), self.lines + (now - self.updated) / _SECONDS_PER_LINE)
        self.updated = now
        if self.lines < 1:
            self.suppressed += 1
            return False
        self.lines -= 1
        return True
