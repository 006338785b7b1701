from __future__ import annotations

import logging
import pickle

import pytest

from aiokafkapy.spark.sink.messages import TopicPartitionRange, WrittenRows, log_aborted, log_committed, rows_by_topic

ONE = WrittenRows(
    rows=3,
    bytes=30,
    retries=1,
    seconds=0.5,
    ranges={("a", 0): TopicPartitionRange(2, 5, 6), ("b", 1): TopicPartitionRange(1, 0, 0)},
    partition_id=0,
    attempt_number=1,
    task_attempt_id=7,
    query_id="q",
    batch_id=4,
)
OTHER = WrittenRows(rows=1, bytes=10, seconds=0.25, ranges={("a", 2): TopicPartitionRange(1, 9, 9)})


def test_a_message_survives_the_way_to_the_driver() -> None:
    assert pickle.loads(pickle.dumps(ONE)) == ONE


def test_rows_are_counted_by_topic() -> None:
    assert rows_by_topic([ONE, OTHER]) == {"a": 3, "b": 1}


def test_a_commit_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "aiokafkapy.spark"):
        log_committed([ONE, OTHER], 4)
        log_committed([OTHER])
    first, second = [record.getMessage().removeprefix("spark.committed ") for record in caplog.records]
    assert first == "query_id=q batch_id=4 rows=4 bytes=40 retries=1 seconds=0.5 tasks=2 topics=\"{'a': 3, 'b': 1}\""
    assert second == "rows=1 bytes=10 retries=0 seconds=0.25 tasks=1 topics=\"{'a': 1}\""


def test_a_failure_is_a_warning_that_names_the_unknown(caplog: pytest.LogCaptureFixture) -> None:
    log_aborted([OTHER, None, None], 5)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "spark.aborted query_id=None batch_id=5 rows=1" in record.getMessage()
    assert "tasks_without_report=2" in record.getMessage()
