"""Kafka's metrics of each topic: the group ``producer-topic-metrics``.

Owns the numbers. It knows no partition and reads the clock that it is given. Kafka's counterpart is
``SenderMetricsRegistry``, whose names and units these are.

Rules:

- A batch counts each time that it goes into a request, even if it is split afterwards, as in ``SenderMetrics``: the
  sums over all topics are the producer's numbers. Its errors count when it has its outcome, which observers hear of.
- There are at most ``most`` topics, the first ones with records; the others are summed up as ``OTHER_TOPICS``, so that
  the sums over all topics are right and a program with a topic for each customer stays small.
- Averages and rates look at the last one to two windows of 30 s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...observability.observer import BatchDone, Observer
from ...observability.window import Window

__all__ = ["OTHER_TOPICS", "TopicMetrics"]

OTHER_TOPICS: Final = "*"
"""Stands for a topic's name; no topic can be called like that."""


class TopicMetrics(Observer):
    """The numbers of each topic of one producer."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._topics: dict[str, _Topic] = {}

    def batch_done(self, event: BatchDone) -> None:
        """Count the records of a batch that failed."""
        if event.error is not None:
            now = self._clock()
            topic = self._topic(event.topic, now)
            topic.failed += event.records
            topic.errors.record(event.records, now)

    def sent(self, name: str, records: int, size: int, uncompressed_size: int, now: float) -> None:
        """A batch of the topic went into a request."""
        topic = self._topic(name, now)
        topic.records += records
        topic.bytes += size
        topic.sends.record(records, now)
        topic.sizes.record(size, now)
        topic.compression.record(size / uncompressed_size, now)

    def retried(self, name: str, records: int, now: float) -> None:
        """A batch of the topic is sent again."""
        topic = self._topic(name, now)
        topic.retried += records
        topic.retries.record(records, now)

    def snapshot(self, now: float) -> dict[str, dict[str, float]]:
        """Kafka's names and values at ``now``, by topic."""
        return {name: topic.snapshot(now) for name, topic in sorted(self._topics.items())}

    # internals

    def _topic(self, name: str, now: float) -> _Topic:
        topic = self._topics.get(name)
        if topic is None and len(self._topics) >= self._most:
            name = OTHER_TOPICS
            topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = _Topic(now)
        return topic


class _Topic:
    """The numbers of one topic."""

    __slots__ = ("bytes", "compression", "errors", "failed", "records", "retried", "retries", "sends", "sizes")

    def __init__(self, now: float) -> None:
        self.records = 0
        self.bytes = 0
        self.retried = 0
        self.failed = 0
        self.sends = Window(now)
        self.sizes = Window(now)
        self.compression = Window(now)
        self.retries = Window(now)
        self.errors = Window(now)

    def snapshot(self, now: float) -> dict[str, float]:
        return {
            "record-send-rate": self.sends.rate(now),
            "record-send-total": self.records,
            "byte-rate": self.sizes.rate(now),
            "byte-total": self.bytes,
            "compression-rate": self.compression.average(now),
            "record-retry-rate": self.retries.rate(now),
            "record-retry-total": self.retried,
            "record-error-rate": self.errors.rate(now),
            "record-error-total": self.failed,
        }
