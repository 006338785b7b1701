"""``current_task``: the Spark task of this thread, and its micro-batch.

Owns Spark's names for these; Spark does not document those of the query and the micro-batch.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark import TaskContext

__all__ = ["Task", "current_task"]


class Task(NamedTuple):
    """A task's numbers, -1 outside of Spark."""

    partition_id: int = -1
    attempt_number: int = -1
    task_attempt_id: int = -1
    query_id: str | None = None
    """The micro-batch of the streaming query, None in a batch or if Spark does not tell it."""
    batch_id: int | None = None


def current_task() -> Task:
    """The task that runs in this thread."""
    context = TaskContext.get()
    if context is None:
        return Task()
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    return Task(
        context.partitionId(),
        context.attemptNumber(),
        context.taskAttemptId(),
        context.getLocalProperty("sql.streaming.queryId"),
        int(batch_id) if batch_id and batch_id.isdecimal() else None,
    )
