"""The topics to ask for apart from all others, since a metadata request for them was cut off.

A broker that closes its connection on a name would else keep every other topic of the same request from being found,
for as long as somebody waits for the name. Owns which topics are suspected, in which groups they are asked for, and
when next. Pure: ``now`` is an argument. Kafka's clients have no counterpart; they ask for all topics together.

Rules:

- Only topics that no answer has named are suspected.
- A group whose request was cut off is halved, down to single topics; a single one waits, longer each time: every
  request for it costs all others the connection.
- Nobody is judged: a topic that was only unlucky is found as soon as a broker answers, and then is a suspect no longer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from ..common import ExponentialBackoff

__all__ = ["TopicsApart"]


class TopicsApart:
    """Groups of topics, each for a request of its own. False while there are none."""

    __slots__ = ("_backoff", "_groups")

    def __init__(self, backoff: ExponentialBackoff) -> None:
        self._backoff = backoff
        self._groups: list[_Group] = []

    def __bool__(self) -> bool:
        return bool(self._groups)

    @property
    def names(self) -> set[str]:
        """The suspects."""
        return {name for group in self._groups for name in group.topics}

    @property
    def next_at(self) -> float:
        """When the next group may be asked for; infinite without any."""
        return min((group.retry_at for group in self._groups), default=math.inf)

    def attempts(self, name: str) -> int:
        """How many requests for this topic alone were cut off."""
        return next((group.attempts for group in self._groups if name in group.topics), 0)

    def next_group(self, now: float) -> Collection[str]:
        """The topics to ask for now, none when no group's time has come."""
        return next((group.topics for group in self._groups if group.retry_at <= now), ())

    def suspect(self, names: Collection[str], now: float) -> None:
        """A request for these was cut off by a cluster that had answered the one before."""
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
        """An answer named these, or they are not wanted any more: they are suspects no longer."""
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
