from __future__ import annotations

import pytest

from aiokafkapy.errors import RecordTooLargeError
from aiokafkapy.observability.observer import BatchDone
from aiokafkapy.producer.observation.topic_metrics import OTHER_TOPICS, TopicMetrics
from aiokafkapy.testing.clock import VirtualClock

KAFKAS_NAMES = {
    "record-send-rate", "record-send-total", "byte-rate", "byte-total", "compression-rate", "record-retry-rate",
    "record-retry-total", "record-error-rate", "record-error-total",
}  # fmt: skip


def failed(topic: str, records: int = 10, attempts: int = 1) -> BatchDone:
    error = RecordTooLargeError("too large")
    return BatchDone(topic, 0, records, 50 * records, 100 * records, attempts, 0.0, 0.0, 0.0, 0, error)


def test_each_topic_has_its_own_numbers_under_kafkas_names() -> None:
    now = VirtualClock().time()
    metrics = TopicMetrics(10, VirtualClock().time)
    metrics.sent("a", 10, 500, 1000, now)
    metrics.sent("b", 10, 500, 1000, now)
    metrics.sent("a", 20, 1000, 2000, now)
    metrics.retried("a", 20, now)
    metrics.sent("a", 20, 1000, 2000, now)
    found = metrics.snapshot(now)
    assert list(found) == ["a", "b"]
    assert set(found["a"]) == KAFKAS_NAMES
    assert found["a"]["record-send-total"] == 50, "each attempt, as in Java"
    assert found["a"]["record-send-rate"] == pytest.approx(50 / 30)
    assert (found["a"]["byte-total"], found["a"]["compression-rate"]) == (2500, 0.5)
    assert found["a"]["record-retry-total"] == 20
    assert found["b"]["record-retry-total"] == found["b"]["record-error-total"] == 0


def test_records_that_failed_count_as_errors_and_as_sent_only_when_they_were() -> None:
    metrics = TopicMetrics(10, VirtualClock().time)
    metrics.batch_done(failed("a", attempts=0))
    metrics.sent("a", 10, 500, 1000, 0.0)
    metrics.batch_done(failed("a"))
    found = metrics.snapshot(0.0)["a"]
    assert (found["record-error-total"], found["record-send-total"]) == (20, 10)


def test_topics_beyond_the_limit_are_summed_up() -> None:
    metrics = TopicMetrics(2, VirtualClock().time)
    for number in range(1000):
        metrics.sent(f"t{number}", 10, 500, 1000, 0.0)
    metrics.sent("t1", 10, 500, 1000, 0.0)
    found = metrics.snapshot(0.0)
    assert list(found) == [OTHER_TOPICS, "t0", "t1"]
    assert found["t1"]["record-send-total"] == 20
    assert found[OTHER_TOPICS]["record-send-total"] == 9_980
    assert sum(each["record-send-total"] for each in found.values()) == 10_010
