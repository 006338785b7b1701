"""``send_partition_once``: one task's rows in one transaction, together with their marker.

Owns the order of the steps of ``exactlyOnce``; ``TableQueue`` sends the rows, ``MarkerTopic`` reads the markers.
Spark's connector has no counterpart.

Rules:

- A place, a Spark partition of a query, has one transactional id. An attempt takes it first, which fences and aborts
  every earlier attempt, and then reads the marker: it sees all commits, and no commit can come later.
- Rows and marker are committed together, within the task: no transaction outlives it. The marker tells the next
  attempt whether a commit without an answer took place.
- Rows that are already committed are read to their end, compared with the marker, and not written.
- A fenced attempt waits for the marker of the attempt that fenced it, instead of fencing that in turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Final

from ...admin.marker_topics import SECONDS_TO_ABORT
from ...errors import InvalidProducerEpochError, InvalidTxnStateError, ProducerFencedError
from ...producer.config import ProducerConfig
from ...producer.producer import KafkaProducer
from ..worker.feed import Feed
from ..worker.worker_loop import lease
from .batch_marker import BatchMarker, ExactlyOnceError, RowSum, TaskPlace
from .marker_topic import MarkerTopic
from .messages import SentRows, WrittenRows
from .row_sender import hand_over, send_tables
from .sink_options import TRANSACTION_TIMEOUT, ExactlyOnce, SinkOptions
from .task import Task, current_task

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["is_fenced", "most_seconds_to_read", "send_partition_once"]


def send_partition_once(options: SinkOptions, once: ExactlyOnce, batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    """Commit all rows, unless an earlier attempt has; returns when they are.

    Raises RowFailedError for the first row that cannot be written, ExactlyOnceError if an earlier attempt committed
    other rows or its outcome cannot be known, and KafkaError when no broker can be reached. Nothing of this attempt is
    committed then, except for a commit whose answer was lost.
    """
    task = current_task()
    found = RowSum()
    started = perf_counter()
    attempt = _Attempt(options, once, _place(task, once), found)
    written = hand_over(_summed(batches, found), attempt.write)
    return WrittenRows(**task._asdict(), **written, seconds=perf_counter() - started)


class _Attempt:
    """One task's attempt to write its rows."""

    def __init__(self, options: SinkOptions, once: ExactlyOnce, place: TaskPlace, found: RowSum) -> None:
        self._options = options
        self._once = once
        self._place = place
        self._found = found
        """Complete when the feed has ended."""

    async def write(self, feed: Feed[pa.RecordBatch]) -> SentRows:
        """Write the tables that come, or find them written already; returns the known part of the report."""
        async with self._markers() as markers:
            first = await feed.take()
            if first is None:
                marker = await markers.find(self._place)
                if marker is not None:
                    marker.check(self._place, self._found)
                return {}
            async with self._producer() as producer:
                marker = await markers.find(self._place)
                if marker is None or not marker.covers(self._place):
                    try:
                        return await self._commit(producer, first, feed)
                    except Exception as error:
                        marker = await markers.wait_for(self._place, _seconds(producer)) if is_fenced(error) else None
                        if marker is None:
                            raise
            while await feed.take() is not None:
                pass
            marker.check(self._place, self._found)
            return {"rows_before": self._found.rows}

    # internals

    @asynccontextmanager
    async def _markers(self) -> AsyncIterator[MarkerTopic]:
        """The process's reader of the markers of all its queries: each batch write is a separate query."""
        properties = self._once.reader_properties
        most_seconds = most_seconds_to_read(self._options)

        async def opened() -> MarkerTopic:
            markers = MarkerTopic(properties, self._once.topic, most_seconds)
            try:
                await markers.open(self._place)
            except BaseException:
                await markers.close()
                raise
            return markers

        key = ("markers", self._once.topic, most_seconds, *sorted(properties.items()))
        async with lease(key, opened, MarkerTopic.close) as markers:
            yield markers

    def _producer(self) -> KafkaProducer:
        own = {"transactional.id": self._place.transactional_id(self._once.transactional_id_prefix)}
        return KafkaProducer(config=ProducerConfig.from_properties({**self._options.properties, **own}))

    async def _commit(self, producer: KafkaProducer, first: pa.RecordBatch, feed: Feed[pa.RecordBatch]) -> SentRows:
        async with producer.transaction():
            written = await send_tables(producer, self._options, feed, first)
            marker = BatchMarker.of(self._place, self._found)
            await producer.send(self._once.topic, marker.encode(), key=self._place.key)
        return written


_FENCED: Final = (ProducerFencedError, InvalidProducerEpochError, InvalidTxnStateError)


def _place(task: Task, once: ExactlyOnce) -> TaskPlace:
    if once.job_id is not None:
        return TaskPlace(once.job_id, 0, task.partition_id)
    if task.query_id is None or task.batch_id is None:
        raise ExactlyOnceError("Spark does not tell this task its query and micro-batch: exactlyOnce needs both")
    return TaskPlace(task.query_id, task.batch_id, task.partition_id)


def _summed(batches: Iterator[pa.RecordBatch], found: RowSum) -> Iterator[pa.RecordBatch]:
    """Add each batch to the sum while the loop sends it."""
    for batch in batches:
        yield batch
        found.add(batch)


def most_seconds_to_read(options: SinkOptions) -> float:
    """The longest time for which a dead worker may keep a transaction open in the topic of the markers, in this query
    or in another one with the default.
    """
    own = ProducerConfig.from_properties(options.properties).transaction_timeout_ms
    return max(own, int(TRANSACTION_TIMEOUT["transaction.timeout.ms"])) / 1000 + SECONDS_TO_ABORT


def _seconds(producer: KafkaProducer) -> float:
    return producer.config.transaction_timeout_ms / 1000


def is_fenced(error: BaseException) -> bool:
    """True if another attempt has taken the transactional id; a row's failure has the reason as its cause.

    InvalidTxnStateError is one reason: a broker verified the Produce with the coordinator before the other attempt
    ended its transaction, and appends it after (Kafka's ``UnifiedLog.batchMissingRequiredVerification``).
    """
    return any(isinstance(each, _FENCED) for each in (error, error.__cause__))
