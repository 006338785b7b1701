"""``send_partition``: one task's rows, from Spark's Arrow batches to acknowledged records.

Owns a task's side of a write: the producer that its process keeps, the handing over of batches, and the report. The
order of batches and their memory are ``TableQueue``'s. Spark's counterpart is ``KafkaRowWriter``.

Rules:

- Spark's thread reads the next batch while the loop encodes and sends those before it.
- The producer is opened at the first batch that has rows. When the call returns, nothing is on its way; when it raises,
  the producer is closed, with all it had, so that a later task of the process sees nothing of this one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext

from ...producer.config import ProducerConfig
from ...producer.producer import KafkaProducer
from ...producer.state import ProducerState
from ..worker.feed import Feed
from ..worker.worker_loop import lease, loop, submit
from .messages import WrittenRows
from .sink_options import SinkOptions
from .table_queue import TableQueue

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["send_partition"]


def send_partition(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    """Send all rows and wait until they are acknowledged. Raises RowFailedError for the first one that is not, and
    KafkaError when no broker can be reached.
    """
    report = WrittenRows(**_task())
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return report
    started = perf_counter()
    feed: Feed[pa.RecordBatch] = Feed(loop())
    job = submit(_send_all(options, feed))
    try:
        is_open = feed.put(first)
        first = None
        while is_open and (batch := next(batches, None)) is not None:
            is_open = not batch.num_rows or feed.put(batch)
        feed.end()
        written = job.result()
    except BaseException:
        job.end()
        raise
    return replace(report, **written, seconds=perf_counter() - started)


async def _send_all(options: SinkOptions, feed: Feed[pa.RecordBatch]) -> dict[str, Any]:
    """Send what comes, on the loop; returns what of the report is known there."""
    try:
        async with _producer(options.properties) as producer:
            retried = producer.metrics()[_RETRIED]
            most_bytes = producer.statistics().buffer_memory // 2
            queue = TableQueue(producer, options.topic, most_bytes, has_timestamps=options.has_timestamps)
            try:
                while (batch := await feed.take()) is not None:
                    await queue.put(batch)
                await queue.finish()
            finally:
                queue.close()
            retries = int(producer.metrics()[_RETRIED] - retried)
            return {"rows": queue.rows, "bytes": queue.bytes, "retries": retries, "ranges": queue.ranges}
    finally:
        feed.close()


@asynccontextmanager
async def _producer(properties: Mapping[str, str]) -> AsyncIterator[KafkaProducer]:
    """The process's producer with these options."""

    async def opened() -> KafkaProducer:
        producer: KafkaProducer = KafkaProducer(config=ProducerConfig.from_properties(properties))
        await producer.start()
        return producer

    key = ("producer", *sorted(properties.items()))
    async with lease(key, opened, lambda producer: producer.close(0), _is_alive) as producer:
        yield producer


def _is_alive(producer: KafkaProducer) -> bool:
    return producer.state is ProducerState.RUNNING


_RETRIED: Final = "record-retry-total"


def _task() -> dict[str, Any]:
    """Which task this is, and of which micro-batch; Spark's names for the latter are not documented."""
    context = TaskContext.get()
    if context is None:
        return {}
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    return {
        "partition_id": context.partitionId(),
        "attempt_number": context.attemptNumber(),
        "task_attempt_id": context.taskAttemptId(),
        "query_id": context.getLocalProperty("sql.streaming.queryId"),
        "batch_id": int(batch_id) if batch_id and batch_id.isdecimal() else None,
    }
