"""Kafka's metrics of each topic: the group ``producer-topic-metrics``, kept as an observer of the batches.

Owns the numbers. It knows no partition and reads the clock that it is given. Kafka's counterpart is
``SenderMetricsRegistry``, whose names and units these are.

Rules:

- A batch counts when it has its outcome, under Kafka's names: Java counts it as sent when it goes into a request.
- There are at most ``most`` topics, the first that were sent to; the others are summed up as ``OTHER_TOPICS``, so that
  the sums over all topics are right and a program with a topic for each customer stays small.
- Averages and rates look at the last one to two windows of 30 s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...observability.observer import BatchDone, Observer
from ..metrics import Window

__all__ = ["OTHER_TOPICS", "TopicMetrics"]

OTHER_TOPICS: Final = "*"
"""In the place of a topic's name; no topic can be called like that."""


class TopicMetrics(Observer):
    """The numbers of each topic of one producer."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._topics: dict[str, _Topic] = {}

    def batch_done(self, event: BatchDone) -> None:
        """Count a batch."""
        now = self._clock()
        topic = self._topic(event.topic, now)
        if event.attempts > 0:
            topic.records += event.records
            topic.bytes += event.size
            topic.sends.record(event.records, now)
            topic.sizes.record(event.size, now)
            topic.compression.record(event.size / event.uncompressed_size, now)
        if event.attempts > 1:
            retried = event.records * (event.attempts - 1)
            topic.retried += retried
            topic.retries.record(retried, now)
        if event.error is not None:
            topic.failed += event.records
            topic.errors.record(event.records, now)

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
