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


def done(topic: str, records: int = 10, attempts: int = 1, error: BaseException | None = None) -> BatchDone:
    return BatchDone(topic, 0, records, 50 * records, 100 * records, attempts, 0.0, 0.0, 0.0, 0, error)


def test_each_topic_has_its_own_numbers_under_kafkas_names() -> None:
    clock = VirtualClock()
    metrics = TopicMetrics(10, clock.time)
    metrics.batch_done(done("a"))
    metrics.batch_done(done("a", records=20, attempts=3))
    metrics.batch_done(done("b"))
    found = metrics.snapshot(clock.time())
    assert list(found) == ["a", "b"]
    assert set(found["a"]) == KAFKAS_NAMES
    assert found["a"]["record-send-total"] == 30
    assert found["a"]["record-send-rate"] == pytest.approx(30 / 30)
    assert (found["a"]["byte-total"], found["a"]["compression-rate"]) == (1500, 0.5)
    assert found["a"]["record-retry-total"] == 40
    assert found["b"]["record-retry-total"] == found["b"]["record-error-total"] == 0


def test_records_that_failed_count_as_errors_and_as_sent_only_when_they_were() -> None:
    metrics = TopicMetrics(10, VirtualClock().time)
    metrics.batch_done(done("a", attempts=0, error=RecordTooLargeError("too large")))
    metrics.batch_done(done("a", attempts=1, error=RecordTooLargeError("too large")))
    found = metrics.snapshot(0.0)["a"]
    assert (found["record-error-total"], found["record-send-total"]) == (20, 10)


def test_topics_beyond_the_limit_are_summed_up() -> None:
    metrics = TopicMetrics(2, VirtualClock().time)
    for number in range(1000):
        metrics.batch_done(done(f"t{number}"))
    metrics.batch_done(done("t1"))
    found = metrics.snapshot(0.0)
    assert list(found) == [OTHER_TOPICS, "t0", "t1"]
    assert found["t1"]["record-send-total"] == 20
    assert found[OTHER_TOPICS]["record-send-total"] == 9_980
    assert sum(each["record-send-total"] for each in found.values()) == 10_010
