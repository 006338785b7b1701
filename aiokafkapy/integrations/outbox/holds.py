"""``Holds``: the topics, lanes and shards that failed and are not tried for now, with the times of the next attempts.

Pure: ``now`` is an argument. It corresponds to the back-off of Kafka's clients, by topic.

Rules: each failure in a row holds longer, up to a limit; a success forgets all of them. A hold does not delay other
scopes.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...common import ExponentialBackoff
from .outcomes import EVERYTHING, Held

__all__ = ["Holds"]


class Holds:
    """Every hold of one relay."""

    def __init__(self, backoff: ExponentialBackoff) -> None:
        self._backoff = backoff
        self._failures: dict[Held, int] = {}
        self._until: dict[Held, float] = {}

    def hold(self, what: Held, now: float) -> float:
        """The scope failed again; returns the seconds for which it is held."""
        failures = self._failures.get(what, 0)
        self._failures[what] = failures + 1
        seconds = self._backoff.delay(failures)
        self._until[what] = now + seconds
        return seconds

    def forget(self, what: Iterable[Held]) -> None:
        """These succeeded."""
        for each in what:
            self._failures.pop(each, None)
            self._until.pop(each, None)

    def active(self, now: float) -> set[Held]:
        """The holds in force at this moment."""
        return {what for what, until in self._until.items() if until > now}

    def is_everything_held(self, now: float) -> bool:
        """True if no row can be sent at all."""
        return self._until.get(EVERYTHING, 0.0) > now

    def next_release(self, now: float) -> float | None:
        """The time at which the next hold ends."""
        return min((until for until in self._until.values() if until > now), default=None)
