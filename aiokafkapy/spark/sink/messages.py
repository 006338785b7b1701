"""A task's report of its rows: ``WrittenRows``, carried to the driver by Spark.

Owns the form only; a message is pickled, sent with the task's result, and given to ``commit`` or ``abort``. Spark's
connector sends none (``KafkaDataWriterCommitMessage`` is empty).

Rule: there is one message, of the winning attempt, for each Spark partition whose task succeeded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from pyspark.sql.datasource import WriterCommitMessage

from ...observability import EventLogger, get_logger
from ..worker.worker_log import stderr_handler

__all__ = ["SentRows", "TopicPartitionRange", "WrittenRows", "log_aborted", "log_committed", "rows_by_topic"]


@dataclass(frozen=True, slots=True)
class TopicPartitionRange:
    """The rows that one partition of a topic got from one task; other writers' records may lie between the offsets."""

    count: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True)
class WrittenRows(WriterCommitMessage):
    """One task's rows: all of them are acknowledged by brokers, as ``kafka.acks`` asks."""

    rows: int = 0
    bytes: int = 0
    """The size of the records as encoded, before compression."""
    rows_before: int = 0
    """Rows that an earlier attempt had committed, and that were not written again."""
    retries: int = 0
    """Batches of records that were sent again."""
    seconds: float = 0.0
    """The time from the task's first row to its last acknowledgement."""
    ranges: Mapping[tuple[str, int], TopicPartitionRange] = field(default_factory=dict)
    """The written rows, by topic and partition."""
    partition_id: int = -1
    attempt_number: int = -1
    task_attempt_id: int = -1
    query_id: str | None = None
    """The micro-batch of the streaming query, None in a batch or if Spark does not tell it."""
    batch_id: int | None = None


class SentRows(TypedDict, total=False):
    """The part of ``WrittenRows`` that the sender of the rows knows."""

    rows: int
    bytes: int
    rows_before: int
    retries: int
    ranges: Mapping[tuple[str, int], TopicPartitionRange]


def rows_by_topic(messages: Iterable[WrittenRows]) -> dict[str, int]:
    """The number of rows that each topic got, by its name."""
    found: dict[str, int] = {}
    for message in messages:
        for (topic, _), written in message.ranges.items():
            found[topic] = found.get(topic, 0) + written.count
    return dict(sorted(found.items()))


def log_committed(messages: Sequence[object], batch_id: int | None = None) -> None:
    """One line for a batch, or a micro-batch, that was written."""
    _logger().info("spark.committed", **_summary(messages, batch_id))


def log_aborted(messages: Sequence[object], batch_id: int | None = None) -> None:
    """One line for the rows that were written before the rest failed, as far as Spark tells."""
    missing = sum(not isinstance(message, WrittenRows) for message in messages)
    _logger().warning("spark.aborted", **_summary(messages, batch_id), tasks_without_report=missing)


def _summary(messages: Sequence[object], batch_id: int | None) -> dict[str, object]:
    written = [message for message in messages if isinstance(message, WrittenRows)]
    fields: dict[str, object] = {
        "rows": sum(message.rows for message in written),
        "bytes": sum(message.bytes for message in written),
        "retries": sum(message.retries for message in written),
        "seconds": round(max((message.seconds for message in written), default=0.0), 3),
        "tasks": len(written),
        "topics": rows_by_topic(written),
    }
    if rows_before := sum(message.rows_before for message in written):
        fields["rows_before"] = rows_before
    if batch_id is not None:
        query_id = next((message.query_id for message in written if message.query_id), None)
        fields = {"query_id": query_id, "batch_id": batch_id} | fields
    return fields


def _logger() -> EventLogger:
    """The logger; without a configured one, as in Spark's own process for commits, it writes to standard error, which
    is the driver's.
    """
    logger = logging.getLogger("aiokafkapy.spark")
    if logger.getEffectiveLevel() > logging.INFO and logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    if not logging.getLogger().handlers and not logger.handlers:
        logger.addHandler(stderr_handler())
    return get_logger(logger.name)
