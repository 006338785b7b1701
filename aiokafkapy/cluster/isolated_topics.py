"""Topics that are requested separately because a broker closed the connection on a metadata request with them.

Otherwise, one name on which brokers close the connection would keep every other topic in the same request from being
found, for as long as something waits for that name. Owns the suspected topics, the groups in which they are requested,
and the times of the requests. Pure: ``now`` is an argument. Kafka's clients have no counterpart; they request all
topics together.

Rules:

- Only topics that no response has contained yet are suspected.
- A group whose request failed is halved, down to single topics. A single topic is retried with growing back-off, since
  every request for it costs the connection.
- A topic in any response is no longer suspected, so one that merely shared a request is cleared by the first response.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from ..common import ExponentialBackoff

__all__ = ["IsolatedTopics"]


class IsolatedTopics:
    """Groups of topics, each for a request of its own. Falsy while there are none."""

    __slots__ = ("_backoff", "_groups")

    def __init__(self, backoff: ExponentialBackoff) -> None:
        self._backoff = backoff
        self._groups: list[_Group] = []

    def __bool__(self) -> bool:
        return bool(self._groups)

    @property
    def names(self) -> set[str]:
        """The suspected topics."""
        return {name for group in self._groups for name in group.topics}

    @property
    def next_at(self) -> float:
        """The time at which the next group may be requested; infinite without any."""
        return min((group.retry_at for group in self._groups), default=math.inf)

    def attempts(self, name: str) -> int:
        """The number of requests for this topic alone that ended in a closed connection."""
        return next((group.attempts for group in self._groups if name in group.topics), 0)

    def next_group(self, now: float) -> Collection[str]:
        """The topics to request now; empty if no group is due."""
        return next((group.topics for group in self._groups if group.retry_at <= now), ())

    def suspect(self, names: Collection[str], now: float) -> None:
        """A broker closed the connection on a request for these, though the cluster had answered the last request."""
        group = next((group for group in self._groups if names == group.topics), None)
        if group is None:
            group = _Group(set(names) - self.names)
        else:
            self._groups.remove(group)
        if len(group.topics) > 1:
            ordered = sorted(group.topics)
            middle = len(ordered) // 2
            self._groups += [_Group(set(ordered[:middle])), _Group(set(ordered[middle:]))]
        elif group.topics:
            group.retry_at = now + self._backoff.delay(group.attempts)
            group.attempts += 1
            self._groups.append(group)

    def settle(self, names: Iterable[str]) -> None:
        """Stop suspecting these: a response contained them, or they are no longer wanted."""
        for group in self._groups:
            group.topics.difference_update(names)
        self._groups = [group for group in self._groups if group.topics]


class _Group:
    """Topics of one request. ``attempts`` counts those of a single topic."""

    __slots__ = ("attempts", "retry_at", "topics")

    def __init__(self, topics: set[str]) -> None:
        self.topics = topics
        self.retry_at = -math.inf
        self.attempts = 0
