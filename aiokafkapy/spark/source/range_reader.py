"""A task on an executor: reads ranges of offsets as Arrow batches, ahead of Spark.

Owns the order of the steps in one task: assign, fetch while there is room, detect a standstill, and report lost
records. Spark's counterparts are ``KafkaDataConsumer`` and ``KafkaBatchPartitionReader``. ``PartitionReader`` decodes.

Rules:

- All partitions of a task are fetched together, in one request for each broker, while Spark works on earlier records.
- A reader with its connections lives on in the process, for the next task and the next micro-batch.
- Offsets without a record (compaction, transactions) are passed over. Offsets that the log no longer has are a loss.
- A partition that stands still for ``kafkaConsumer.pollTimeoutMs`` is an error with the partition and the cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ...common import TopicPartition
from ...errors import KafkaTimeoutError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from ...reader.partition_reader import PartitionReader
from ..worker import worker_loop
from ..worker.handover import Handover
from ..worker.worker_log import show_warnings
from .data_loss import describe_missing
from .offsets import OffsetRange
from .source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_ranges"]

PREFETCHED_BYTES: Final = 32 * 1024 * 1024
"""Bytes of Arrow columns that wait for Spark, which takes them in bursts, between its work on them and on their
results.
"""
SMALL_BYTES: Final = 1024 * 1024
"""Smaller batches are joined if the next one is at hand: each costs Spark a fixed time."""
_LONGEST_WAIT: Final = 1.0
_MOST_SECONDS_TO_DIAGNOSE: Final = 10.0


def read_ranges(options: SourceOptions, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
    """The records of the ranges as ``pyarrow.RecordBatch``, in order within a partition.

    Raises DataLossError, KafkaTimeoutError for a partition that stands still, and a reader's other errors. A reader
    that leaves early ends the fetching.
    """
    wanted = [one for one in ranges if one.size > 0]
    if not wanted:
        return
    show_warnings()
    handover = Handover(PREFETCHED_BYTES)
    job = worker_loop.submit(_fill(handover, options, wanted))
    try:
        while (batch := handover.take(job.done)) is not None:
            yield batch
        job.result()
    finally:
        job.end()


async def _fill(handover: Handover, options: SourceOptions, ranges: Sequence[OffsetRange]) -> None:
    """Read the ranges into the handover, to their ends."""

    async def opened() -> PartitionReader:
        reader = PartitionReader(config=options.config)
        await reader.start()
        return reader

    try:
        key = ("reader", tuple(sorted(options.properties.items())))
        async with worker_loop.lease(key, opened, PartitionReader.close) as reader:
            await RangeReader(reader, options, ranges).read_into(handover)
            reader.assign(())
    finally:
        handover.end()


class RangeReader:
    """Reads the ranges of one task."""

    def __init__(self, reader: PartitionReader, options: SourceOptions, ranges: Sequence[OffsetRange]) -> None:
        self._reader = reader
        self._options = options
        self._ranges = {one.topic_partition: one for one in ranges}
        self._data_loss = options.data_loss()
        self._poll_timeout = options.poll_timeout_ms / 1000
        # Progress
        self._clock = asyncio.get_running_loop().time
        self._moved_at = self._clock()
        self._positions: list[int | None] = []

    async def read_into(self, handover: Handover) -> None:
        """Hand over all batches; errors as ``read_ranges``."""
        reader = self._reader
        await self._find_topics()
        reader.assign(self._ranges)
        for tp, one in self._ranges.items():
            reader.seek(tp, one.start)
            reader.stop_at(tp, one.end)
        small: list[pa.RecordBatch] = []
        small_bytes = 0
        while self._ranges:
            await handover.room()
            batch = await self._next(0.0 if small else min(_LONGEST_WAIT, self._poll_timeout))
            if batch is not None:
                small.append(batch)
                small_bytes += batch.nbytes
                self._moved_at = self._clock()
            if small and (batch is None or small_bytes >= SMALL_BYTES):
                handover.put(_joined(small), small_bytes)
                small, small_bytes = [], 0
            elif batch is None:
                # Only here: with thousands of partitions a look at each takes a while.
                if reader.is_finished:
                    break
                await self._check_progress()

    # internals

    async def _find_topics(self) -> None:
        """Learn the leaders before fetching: partitions whose leader is not known back off one by one."""
        for topic in {one.topic for one in self._ranges.values()}:
            try:
                await self._reader.partitions_for(topic, self._poll_timeout)
            except UnknownTopicOrPartitionError:
                lost = [one for one in self._ranges.values() if one.topic == topic]
                self._report_deleted(lost[0])
                for one in lost:
                    del self._ranges[one.topic_partition]
            except KafkaTimeoutError as error:
                tp = next(tp for tp in self._ranges if tp.topic == topic)
                raise KafkaTimeoutError(f"{tp}: {error}", topic=topic, partition=tp.partition) from error

    async def _next(self, max_wait: float) -> pa.RecordBatch:
        try:
            return await self._reader.fetch_arrow(max_wait, with_headers=self._options.include_headers)
        except OffsetOutOfRangeError as error:
            if error.topic is None or error.partition is None:
                raise
            await self._pass_over(TopicPartition(error.topic, error.partition))
            return None

    async def _pass_over(self, tp: TopicPartition) -> None:
        """The log does not have the next offset: go on at its first one, if that is wanted."""
        reader, one = self._reader, self._ranges[tp]
        position = reader.position(tp)
        position = one.start if position is None else position
        first = (await reader.beginning_offsets([tp]))[tp]
        end = (await reader.end_offsets([tp]))[tp]
        if first <= position <= end:
            # The partition came back: with a leader without all records, or as a topic that was made again. Fetching
            # will tell.
            await asyncio.sleep(self._options.offset_retry_interval_ms / 1000)
            reader.seek(tp, position)
            return
        self._data_loss.report(describe_missing(tp, one._replace(start=position), first, end))
        reader.seek(tp, first if position < first < one.end else one.end)

    async def _check_progress(self) -> None:
        """Find the reason why no record came, and no gap was passed over, for too long."""
        positions = [self._reader.position(tp) for tp in self._ranges]
        if positions != self._positions:
            self._positions = positions
            self._moved_at = self._clock()
        elif self._clock() - self._moved_at >= self._poll_timeout and not self._reader.is_finished:
            await self._diagnose(self._first_unfinished())

    def _first_unfinished(self) -> OffsetRange:
        for tp, one in self._ranges.items():
            position = self._reader.position(tp)
            if position is None or position < one.end:
                return one._replace(start=one.start if position is None else position)
        raise AssertionError("a reader that is not finished has a partition that is not")

    async def _diagnose(self, one: OffsetRange) -> None:
        """Raise the reason why the partition stands still. Returns if it is an allowed loss."""
        reader, tp = self._reader, one.topic_partition
        if isinstance(reader.metadata.topic_error(tp.topic), UnknownTopicOrPartitionError):
            self._report_deleted(one)
            reader.seek(tp, one.end)
            return
        try:
            end = (await reader.end_offsets([tp], min(self._poll_timeout, _MOST_SECONDS_TO_DIAGNOSE)))[tp]
        except KafkaTimeoutError:
            cause = reader.metadata.describe_failure(tp.topic)
        else:
            if end < one.end:
                first = (await reader.beginning_offsets([tp]))[tp]
                self._data_loss.report(describe_missing(tp, one, first, end))
                # All offsets between here and the end are read.
                self._ranges[tp] = self._ranges[tp]._replace(end=end)
                reader.stop_at(tp, end)
                self._moved_at = self._clock()
                return
            cause = f"the broker has offsets to {end}, but sends none"
        raise KafkaTimeoutError(
            f"{tp}: nothing came from offset {one.start} on for {self._poll_timeout:g} s "
            f"(kafkaConsumer.pollTimeoutMs), offsets to {one.end} were wanted: {cause}",
            topic=tp.topic,
            partition=tp.partition,
        )

    def _report_deleted(self, one: OffsetRange) -> None:
        what = f"the topic was deleted, offsets {one.start} to {one.end} were not read yet"
        self._data_loss.report(f"{one.topic_partition}: {what}")


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    import pyarrow as pa

    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
