"""The limits of a topic, from its configuration, and the times at which that is read again.

``TopicLimits`` are the figures of one topic, ``LimitsBook`` those of all topics in use, with the time at which each is
due. It sends nothing and knows no clock: ``now`` is an argument. Java's producer has no counterpart: it hears of a
limit when a broker refuses a batch.

Rules:

- A figure is used for ``max_age`` (``metadata_max_age_ms``) at most, and is read again before that, so a record that a
  raised limit allows is refused for at most that long. A refusal, by us or by a broker, has it read again at once, and
  a topic that was recreated loses its figures.
- Only a record that a broker is sure to refuse is refused: its clock may differ from ours, and a record may wait before
  it is sent.
- A topic is asked about some time after its first record, together with others: that record's request goes first.
- A client that may not read a topic's configuration has no limits for it, and does not ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from ...cluster.cluster import TopicMetadata
from ...common import ExponentialBackoff, PartitionInfo
from ...errors import InvalidTimestampError

__all__ = [
    "ASK_DELAY",
    "CLOCKS_DIFFER_MS",
    "CONFIG_NAMES",
    "LEAST_INTERVAL",
    "LimitsBook",
    "TopicLimits",
    "acks_problem",
    "limits_of",
    "time_error",
]

ASK_DELAY: Final = 0.1
"""Seconds from a topic's first record to the question: brokers answer the requests of a connection in their order."""
LEAST_INTERVAL: Final = 1.0
"""Seconds between two questions about a topic, even while records are refused."""
RENEWED_AT: Final = 0.9
"""The part of ``max_age`` after which a figure is read again."""
GATHERED: Final = 0.1
"""The part of ``max_age`` by which a question may be early, to be one with another's."""
MOST_AT_ONCE: Final = 500
"""Topics in one request."""
CLOCKS_DIFFER_MS: Final = 60_000
"""Milliseconds by which a broker's clock may differ from ours."""

CONFIG_NAMES: Final = (
    "max.message.bytes",
    "min.insync.replicas",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms",  # brokers before 3.6
)
_NO_BOUND: Final = 2**63 - 1
_NEVER: Final = float("inf")


class TopicLimits(NamedTuple):
    """The limits of a topic; None if its configuration does not say, or sets no bound. ``until`` is loop time: the
    figures may be used before. ``read_at`` is loop time too.
    """

    max_message_bytes: int | None = None
    """Bytes of a batch at most, as it is sent."""
    min_insync_replicas: int | None = None
    uses_log_append_time: bool = False
    """The broker puts its own time into records."""
    timestamp_before_max_ms: int | None = None
    timestamp_after_max_ms: int | None = None
    """Milliseconds that a record's time may be before, or after, the broker's."""
    read_at: float = 0.0
    until: float = _NEVER

    @property
    def bounds_times(self) -> bool:
        """True when a record may be refused for its timestamp."""
        has_bound = self.timestamp_before_max_ms is not None or self.timestamp_after_max_ms is not None
        return has_bound and not self.uses_log_append_time


def limits_of(entries: Iterable[tuple[str, str | None]], now: float, max_age: float) -> TopicLimits:
    """The limits in these options of a topic, by Kafka's names; a value that is not a number sets no limit."""
    values = {name: value for name, value in entries if value is not None}
    either = _bound(values.get("message.timestamp.difference.max.ms"))
    before = values.get("message.timestamp.before.max.ms")
    after = values.get("message.timestamp.after.max.ms")
    return TopicLimits(
        _number(values.get("max.message.bytes")),
        _number(values.get("min.insync.replicas")),
        values.get("message.timestamp.type") == "LogAppendTime",
        either if before is None else _bound(before),
        either if after is None else _bound(after),
        now,
        now + max_age,
    )


def acks_problem(limits: TopicLimits, required_acks: int, partitions: Iterable[PartitionInfo]) -> str | None:
    """An oddity of ``acks`` and the replicas of a topic, in words, or None."""
    needed = limits.min_insync_replicas
    if needed is None or needed < 2:
        return None
    if required_acks >= 0:
        return f"acks={required_acks} does not wait for the {needed} replicas that min.insync.replicas asks for"
    fewest = min((len(each.replicas) for each in partitions if each.replicas), default=needed)
    if fewest < needed:
        return (
            f"min.insync.replicas={needed} is more than its {fewest} replicas: brokers from 3.7 on ask for no more "
            "than those, and older ones refuse all writes with acks='all'"
        )
    return None


def time_error(
    topic: str, limits: TopicLimits, timestamp_ms: int, wall_ms: int, patience_ms: int
) -> InvalidTimestampError | None:
    """The error of a record whose time the topic does not take, at ``wall_ms``, or within the next ``patience_ms``."""
    before, after = limits.timestamp_before_max_ms, limits.timestamp_after_max_ms
    if before is not None and wall_ms - timestamp_ms > before + CLOCKS_DIFFER_MS:
        option, bound, distance = "message.timestamp.before.max.ms", before, wall_ms - timestamp_ms
    elif after is not None and timestamp_ms - wall_ms > after + patience_ms + CLOCKS_DIFFER_MS:
        option, bound, distance = "message.timestamp.after.max.ms", after, timestamp_ms - wall_ms
    else:
        return None
    return InvalidTimestampError(
        f"timestamp_ms={timestamp_ms} is {distance} ms from now, and {option} of topic {topic!r} is {bound}",
        topic=topic,
    )


class LimitsBook:
    """The topics in use, and the known limits of each."""

    def __init__(self, max_age: float, backoff: ExponentialBackoff) -> None:
        """``max_age`` in seconds, LEAST_INTERVAL at least; ``backoff`` is that after a question that failed."""
        self.max_age = max(max_age, LEAST_INTERVAL)
        self._backoff = backoff
        self._topics: dict[str, _Topic] = {}

    def use(self, topic: str, now: float) -> TopicLimits | None:
        """A record is for ``topic``; returns its limits, as far as they are known. A topic that is new here is due."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Topic(now + ASK_DELAY)
        return found.limits

    def hurry(self, topic: str, now: float) -> None:
        """A record or batch of the topic was refused: its figures may have changed."""
        found = self._topics.get(topic)
        if found is not None and not found.is_off and not found.is_asked:
            found.due_at = min(found.due_at, max(now, found.asked_at + LEAST_INTERVAL))

    def next_due(self) -> float:
        """The time at which ``take_due`` may have topics to return, or infinity."""
        return min((topic.due_at for topic in self._topics.values() if not topic.is_asked), default=_NEVER)

    def take_due(self, now: float, is_known: Callable[[str], bool]) -> list[str]:
        """The topics to ask about now, in one request. Topics that the cluster does not have, or that are no longer in
        use, are left out until ``noticed`` or ``use`` names them again.
        """
        due: list[str] = []
        horizon = now + GATHERED * self.max_age
        if self.next_due() > now:
            return due
        for name, topic in list(self._topics.items()):
            if topic.is_asked or topic.due_at > horizon or len(due) == MOST_AT_ONCE:
                continue
            if is_known(name):
                topic.is_asked, topic.asked_at = True, now
                due.append(name)
            elif topic.limits is not None:
                del self._topics[name]  # its time in the metadata is over; ``use`` begins again
            else:
                topic.due_at = _NEVER
        return due

    def noticed(self, topics: Mapping[str, TopicMetadata], now: float) -> list[str]:
        """The cluster has these topics: those that waited for that are due. Returns the recreated ones, whose limits
        are forgotten.
        """
        anew = []
        for name, topic in self._topics.items():
            found = topics.get(name)
            if found is None:
                continue
            if topic.limits is not None and found.topic_id != topic.topic_id:
                topic.limits, topic.due_at = None, now + ASK_DELAY
                anew.append(name)
            elif topic.due_at == _NEVER and not (topic.is_off or topic.is_asked):
                topic.due_at = now + ASK_DELAY
        return anew

    def learned(self, topic: str, limits: TopicLimits, topic_id: bytes | None, now: float) -> None:
        """A broker has reported the limits of the topic, which has this id."""
        found = self._topics.get(topic)
        if found is not None:
            found.limits, found.topic_id, found.attempts, found.is_asked = limits, topic_id, 0, False
            found.due_at = now + RENEWED_AT * self.max_age

    def failed(self, topic: str, now: float, *, is_final: bool) -> bool:
        """The question had no answer. True when the limits of the topic are too old by now, and are forgotten."""
        found = self._topics.get(topic)
        if found is None:
            return False
        found.is_asked, found.is_off = False, is_final
        found.due_at = _NEVER if is_final else now + self._backoff.delay(found.attempts)
        found.attempts += 1
        if found.limits is None or now < found.limits.until:
            return False
        found.limits = None
        return True

    def known(self) -> dict[str, TopicLimits]:
        """The known limits, by topic."""
        return {name: topic.limits for name, topic in self._topics.items() if topic.limits is not None}


class _Topic:
    """One topic in use."""

    __slots__ = ("asked_at", "attempts", "due_at", "is_asked", "is_off", "limits", "topic_id")

    def __init__(self, due_at: float) -> None:
        self.limits: TopicLimits | None = None
        self.topic_id: bytes | None = None
        self.due_at = due_at
        self.asked_at = -_NEVER
        self.attempts = 0
        self.is_asked = False
        self.is_off = False


def _number(value: str | None) -> int | None:
    """A number that is not negative; None for anything else."""
    return int(value) if value is not None and value.isascii() and value.isdigit() else None


def _bound(value: str | None) -> int | None:
    number = _number(value)
    return None if number is None or number >= _NO_BOUND else number
