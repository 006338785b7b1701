"""``send_partition``: one task's rows, from Spark's Arrow batches to acknowledged records.

Owns a task's side of a write: the producer that its process keeps, the handing over of batches, and the report.
``TableQueue`` has the order of batches and their memory. Spark's counterpart is ``KafkaRowWriter``.

Rules:

- Spark's thread reads the next batch while the loop encodes and sends those before it.
- The producer is opened at the first batch that has rows. When the call returns, no row is on its way; when it raises,
  the producer is closed with all its records, so that a later task of the process sees no trace of this one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...producer.config import ProducerConfig
from ...producer.producer import KafkaProducer
from ...producer.state import ProducerState
from ..worker.feed import Feed
from ..worker.worker_loop import lease, loop, submit
from .messages import SentRows, WrittenRows
from .sink_options import SinkOptions
from .table_queue import TableQueue
from .task import current_task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["hand_over", "send_partition", "send_tables"]

T = TypeVar("T")


def send_partition(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    """Send all rows and wait until they are acknowledged. Raises RowFailedError for the first row that is not, and
    KafkaError when no broker can be reached.
    """
    report = WrittenRows(**current_task()._asdict())
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return report
    started = perf_counter()
    written = hand_over(chain((first,), batches), partial(_send_all, options))
    return replace(report, **written, seconds=perf_counter() - started)


def hand_over(batches: Iterator[pa.RecordBatch], write: Callable[[Feed[pa.RecordBatch]], Coroutine[Any, Any, T]]) -> T:
    """Run ``write`` on the loop, and give it the batches that have rows; returns its result or raises its error."""
    feed: Feed[pa.RecordBatch] = Feed(loop())
    job = submit(_closing(feed, write))
    try:
        is_open = True
        while is_open and (batch := next(batches, None)) is not None:
            is_open = not batch.num_rows or feed.put(batch)
        feed.end()
        return job.result()
    except BaseException:
        job.end()
        raise


async def send_tables(
    producer: KafkaProducer, options: SinkOptions, feed: Feed[pa.RecordBatch], first: pa.RecordBatch | None = None
) -> SentRows:
    """Send the tables that come, on the loop, and wait until they are acknowledged; returns the part of the report
    that the loop knows.
    """
    retried = producer.metrics()[_RETRIED]
    most_bytes = producer.statistics().buffer_memory // 2
    queue = TableQueue(producer, options.topic, most_bytes, has_timestamps=options.has_timestamps)
    try:
        batch, first = first if first is not None else await feed.take(), None
        while batch is not None:
            await queue.put(batch)
            batch = await feed.take()
        await queue.finish()
    finally:
        queue.close()
    retries = int(producer.metrics()[_RETRIED] - retried)
    return {"rows": queue.rows, "bytes": queue.bytes, "retries": retries, "ranges": queue.ranges}


async def _send_all(options: SinkOptions, feed: Feed[pa.RecordBatch]) -> SentRows:
    async with _producer(options.properties) as producer:
        return await send_tables(producer, options, feed)


async def _closing(feed: Feed[pa.RecordBatch], write: Callable[[Feed[pa.RecordBatch]], Coroutine[Any, Any, T]]) -> T:
    """Run ``write``, and release the thread that feeds it, however it ends."""
    try:
        return await write(feed)
    finally:
        feed.close()


@asynccontextmanager
async def _producer(properties: Mapping[str, str]) -> AsyncIterator[KafkaProducer]:
    """The producer of this process with these options."""

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
