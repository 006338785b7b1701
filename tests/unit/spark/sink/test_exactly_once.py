"""aiokafkapy.spark.sink.exactly_once: the failures of an attempt whose transactional id another one has taken, and the
wait for a transaction that nobody ends.
"""

from __future__ import annotations

import pytest

from aiokafkapy.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
)
from aiokafkapy.spark.sink.exactly_once import is_fenced, most_seconds_to_read
from aiokafkapy.spark.sink.sink_options import SinkOptions


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (ProducerFencedError("p"), True),
        (InvalidProducerEpochError("p"), True),
        (InvalidTxnStateError("p"), True),  # appended after the other attempt's commit, verified before it
        (TopicAuthorizationFailedError("p"), False),
        (KafkaError("p"), False),
    ],
)
def test_a_failure_is_recognized_by_itself_and_by_its_cause(reason: KafkaError, expected: bool) -> None:
    row = RuntimeError("row 0 was not written")
    row.__cause__ = reason
    assert is_fenced(reason) is expected
    assert is_fenced(row) is expected


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(None, 360), (1_000, 360), (600_000, 660)])
def test_markers_are_waited_for_until_a_dead_workers_transaction_is_over(timeout_ms: int | None, seconds: int) -> None:
    """A short time-out of our own says nothing of the other queries on the topic."""
    given = {"kafka.bootstrap.servers": "host:9092", "topic": "t", "exactlyOnce": "true"}
    if timeout_ms is not None:
        given["kafka.transaction.timeout.ms"] = str(timeout_ms)
    assert most_seconds_to_read(SinkOptions.parse(given, is_stream=True)) == seconds
