"""``KafkaStreamReader``: a stream's offsets, micro-batch by micro-batch.

Owns the driver's decisions: the start of a query, the end of each micro-batch, and the offsets committed to a group.
Reading is as in a batch. Spark's counterpart is ``KafkaMicroBatchStream``.

Rules:

- An offset has every partition of the query, in the connector's own JSON. A new partition, also of a new topic that
  fits ``subscribePattern``, is read from its first record; one that is gone, or starts again, is a data loss.
- Only another topic id says that a topic was created again. The micro-batch that finds it reads nothing and ends at
  the new logs' first offsets, so that the next one has all records. A log that merely ends before the offset that was
  read to (it was cut, or this process never saw the earlier id) is continued at its end, as the connector does: no
  record is read twice.
- With Trigger.AvailableNow the end is the end of the logs when the query was started.
- Micro-batch 0 does not read a partition whose log ends where the query begins: its end, equal to its start, is then
  in the checkpoint. The connector keeps a query's start itself; a source in Python has no place for it. If micro-batch
  0 has to be done again, Spark asks for the start again, and a log's end has moved meanwhile: records behind the end
  of micro-batch 0 are left to the next one.
- ``commitGroup`` is for monitoring. It gets the start of the next micro-batch when Spark asks for its end: all records
  before that are done. (Spark calls ``commit`` one micro-batch later, and not at all for the last.) The query does not
  wait for it; a failure is logged and the query goes on.

Events: ``source.commit_failed`` (warning; group, error), ``source.partition_added`` (info; partition, first),
``source.start_unknown`` (warning; partitions, reason).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final
from uuid import UUID

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ...common import TopicPartition
from ...errors import KafkaError
from ...observability import get_logger
from ..options import OptionError
from ..worker import worker_loop
from .offset_reader import KafkaOffsetReader, PartitionIds, ResolvedLimit
from .offsets import (
    JsonOffsets,
    OffsetRange,
    PartitionOffsets,
    count_new,
    limit_rate,
    offsets_from_json,
    offsets_to_json,
)
from .read_limits import HAS_READ_LIMITS, ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from .reader import TaskReader, input_partitions
from .source_options import SourceOptions
from .trigger_delay import TriggerDelay

__all__ = ["KafkaStreamReader"]

UNLIMITED: Final = 2**63 - 1
"""Rows of a micro-batch without ``maxOffsetsPerTrigger``. It is a number, so that ReadAllAvailable only comes from
Spark itself: every record until now (Trigger.Once).
"""

_GONE: Final = "there is no such partition any more, or it is no longer subscribed"
_SHORTER: Final = (
    "its last records are gone, or cannot be read yet with kafka.isolation.level='read_committed', or the topic was "
    "deleted and created again; it is read on from there"
)
_START_UNKNOWN: Final = (
    "micro-batch 0 is run again, its start is in no checkpoint, and the start now is not before its end: nothing of it "
    "is read. That is right if it began where the log ended; records are skipped if startingOffsets was another one "
    "before, or if format('kafka') planned it"
)

SECONDS_FOR_THE_LAST_COMMIT: Final = 5.0
"""Seconds that the end of a query waits for its last commit."""

_logger = get_logger(__name__)


class KafkaStreamReader(TaskReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream: on the driver as long as its query, on the executors for one task. Raises OptionError
    when it is made.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = SourceOptions.parse(options, is_stream=True)
        _check_limits(self._options)
        self._driver: StreamDriver | None = None

    def initialOffset(self) -> JsonOffsets:  # noqa: N802
        """The start of a new query. Raises OptionError, UnknownTopicOrPartitionError, and other errors of Kafka."""
        return offsets_to_json(worker_loop.run(self._on_driver().begin()))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """``maxOffsetsPerTrigger``."""
        return ReadMaxRows(self._options.max_offsets_per_trigger or UNLIMITED)

    def latestOffset(self, start: JsonOffsets | None = None, limit: ReadLimit | None = None) -> JsonOffsets:  # noqa: N802
        """The end of the next micro-batch; ``start`` if there is nothing, or not enough, to read. All records before
        ``start`` are done, and committed to ``commitGroup``. Raises DataLossError and errors of Kafka.

        Before PySpark 4.2 Spark gives neither argument: the micro-batch goes to the end.
        """
        if start is None:
            return offsets_to_json(worker_loop.run(self._on_driver().advance_to_end()))
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else UNLIMITED
        is_all_wanted = isinstance(limit, ReadAllAvailable)
        end = worker_loop.run(self._on_driver().advance(offsets_from_json(start), most, is_all_wanted=is_all_wanted))
        return offsets_to_json(end)

    def reportLatestOffset(self) -> JsonOffsets | None:  # noqa: N802
        """The ends of the logs as last requested."""
        latest = self._on_driver().latest
        return offsets_to_json(latest) if latest else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the query end at the present ends of the logs."""
        worker_loop.run(self._on_driver().set_target())

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> list[InputPartition]:
        """The tasks of a micro-batch. Raises DataLossError and errors of Kafka."""
        plan = self._on_driver().plan(offsets_from_json(start), offsets_from_json(end))
        return input_partitions(self._options, worker_loop.run(plan))

    def commit(self, end: JsonOffsets) -> None:
        """A micro-batch is done, as ``latestOffset`` already knew."""

    def stop(self) -> None:
        """The query has ended."""
        driver, self._driver = self._driver, None
        if driver is not None:
            worker_loop.run(driver.close())

    def __getstate__(self) -> dict[str, object]:
        # The executors get only the fields that ``read`` needs.
        return {"_options": self._options, "_driver": None}

    # internals

    def _on_driver(self) -> StreamDriver:
        if self._driver is None:
            self._driver = StreamDriver(self._options)
        return self._driver


def _check_limits(options: SourceOptions) -> None:
    if HAS_READ_LIMITS:
        return
    limits = {
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "minOffsetsPerTrigger": options.min_offsets_per_trigger,
    }
    for name, value in limits.items():
        if value is not None:
            expected = f"it to be left out: PySpark {pyspark.__version__} has no limits for sources in Python, 4.2 has"
            raise OptionError(name, value, expected)


class StreamDriver:
    """The state of a query on its driver. Everything but ``latest`` is called on the worker's loop."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._data_loss = options.data_loss()
        self._offsets: KafkaOffsetReader | None = None
        self.latest: dict[TopicPartition, int] = {}
        # The start of the query, if it began in this process, and its end.
        self._begun: ResolvedLimit | None = None
        self._target: dict[TopicPartition, int] | None = None
        # The last end of a micro-batch that Spark was told, and the start of the one after the last planned.
        self._told: PartitionOffsets | None = None
        self._position: PartitionOffsets = {}
        # The ids that each topic has had: a broker that is behind may still tell an earlier one.
        self._topic_ids: dict[str, set[UUID]] = {}
        # First offsets of partitions that appeared, kept for the plan that follows.
        self._firsts: dict[TopicPartition, int] = {}
        least = options.min_offsets_per_trigger
        self._delay = None if least is None else TriggerDelay(least, options.max_trigger_delay_ms / 1000)
        # The group's next offsets, its last ones, and the task that commits them.
        self._to_commit: PartitionOffsets | None = None
        self._committed: PartitionOffsets | None = None
        self._committing: asyncio.Task[None] | None = None

    async def begin(self) -> dict[TopicPartition, int]:
        """The starting offsets."""
        offsets = await self._connected()
        partitions = await offsets.partitions(must_exist=True)
        self._recreated(partitions)
        begun = await offsets.resolve(self._options.starting, partitions)
        if self._told is not None:
            # The end of Trigger.AvailableNow, before PySpark 4.2: a query from the end of a log begins there.
            now = {tp: self._told[tp] for tp in begun.at_end if tp in self._told}
            begun = begun._replace(offsets={**begun.offsets, **now})
        self._begun = begun
        self._position = begun.offsets
        return begun.offsets

    async def set_target(self) -> None:
        """Read no further than the present ends."""
        offsets = await self._connected()
        self._target = await offsets.latest(await offsets.partitions(must_exist=False))

    async def advance(self, start: PartitionOffsets, most: int, *, is_all_wanted: bool) -> dict[TopicPartition, int]:
        """The end of the next micro-batch."""
        end = await self._end(start, most, is_all_wanted=is_all_wanted)
        self._told = end
        return end

    async def advance_to_end(self) -> dict[TopicPartition, int]:
        """As ``advance``, if Spark does not tell the micro-batch's start, which is unknown after a restart."""
        return await self.advance(self._position, UNLIMITED, is_all_wanted=True)

    async def _end(self, start: PartitionOffsets, most: int, *, is_all_wanted: bool) -> dict[TopicPartition, int]:
        is_first = self._told is None
        offsets = await self._connected()
        self._commit_soon(start)
        if self._target is None:
            partitions = await offsets.partitions_with(start)
            recreated = [tp for tp in self._recreated(partitions) if start.get(tp)]
            if recreated:
                return await self._begin_anew(start, recreated)
            self.latest = await offsets.latest(partitions, start)
        else:
            if is_first:
                await self._move_target(self._target, start)
            self.latest = self._target
        end = self.latest
        if is_first and self._begun is not None and start == self._begun.offsets:
            end = {tp: start[tp] if tp in self._begun.at_end else end[tp] for tp in start if tp in end}
        if is_all_wanted:
            return end
        begins = await self._begins(start, end)
        delay = None if self._target is not None else self._delay
        if delay is not None and delay.must_wait(count_new(begins, end), time.monotonic()):
            return dict(start)
        return limit_rate(most, begins, end)

    async def plan(self, start: PartitionOffsets, end: PartitionOffsets) -> list[OffsetRange]:
        """The ranges of a micro-batch."""
        self._position = end
        is_again = end != self._told
        if is_again and self._begun is not None and start == self._begun.offsets:
            start = self._start_again(start, end)
        # Ends of logs that this process saw need not be requested again; those of a checkpoint must be.
        doubtful = [tp for tp, offset in end.items() if offset > self.latest.get(tp, -1)]
        if doubtful:
            missing = await self._missing(start, end)
            start, end = ({tp: each[tp] for tp in each if tp not in missing} for each in (start, end))
        begins = await self._begins(start, end)
        ranges = [OffsetRange(*tp, begins[tp], offset) for tp, offset in sorted(end.items()) if tp in begins]
        return await (await self._connected()).existing(ranges, doubtful)

    async def close(self) -> None:
        """Commit the last offsets for the group, if that does not take long, and close the connections."""
        if self._committing is not None:
            await asyncio.wait({self._committing}, timeout=SECONDS_FOR_THE_LAST_COMMIT)
            self._committing.cancel()
        if self._offsets is not None:
            await self._offsets.close()

    # internals

    async def _connected(self) -> KafkaOffsetReader:
        if self._offsets is None:
            self._offsets = KafkaOffsetReader(self._options)
            await self._offsets.__aenter__()
        return self._offsets

    async def _move_target(self, target: dict[TopicPartition, int], start: PartitionOffsets) -> None:
        """A query may begin behind its target, because its start was requested later: that is not a loss, and there is
        nothing to read.
        """
        doubtful = {tp for tp, offset in start.items() if target.get(tp, -1) < offset}
        if doubtful:
            offsets = await self._connected()
            now = await offsets.latest(doubtful & (await offsets.partitions_with(start)).keys(), start)
            # A partition that the target lacks is new, or was not known to the broker that was asked then.
            target |= {tp: min(start[tp], offset) if tp in target else offset for tp, offset in now.items()}

    def _recreated(self, partitions: PartitionIds) -> list[TopicPartition]:
        """The partitions of topics with a known id that now have a new id. The ids are remembered."""
        found = [tp for tp, one in partitions.items() if one and one not in self._topic_ids.get(tp.topic, {one})]
        for tp, one in partitions.items():
            if one is not None:
                self._topic_ids.setdefault(tp.topic, set()).add(one)
        return found

    async def _begin_anew(self, start: PartitionOffsets, recreated: list[TopicPartition]) -> dict[TopicPartition, int]:
        """The end of an empty micro-batch, after which topics that were created again are read from their first
        record. Reports the loss.
        """
        for tp in recreated:
            self._data_loss.report(f"{tp}: was read to {start[tp]}, then the topic was deleted and created again")
        return {**start, **await (await self._connected()).earliest(recreated)}

    def _start_again(self, start: PartitionOffsets, end: PartitionOffsets) -> dict[TopicPartition, int]:
        """The start of micro-batch 0, which has to be done again: no later than its end. ``start`` was requested
        again, and has partitions that came since: the next micro-batch reads them from their first record.
        """
        begins = {tp: min(offset, end[tp]) for tp, offset in start.items() if tp in end}
        behind = {tp for tp in begins if start[tp] >= end[tp] > 0}
        unknown = sorted(tp for tp in behind if self._options.starting.may_move(tp))
        if unknown:
            _logger.warning("source.start_unknown", partitions=", ".join(map(str, unknown)), reason=_START_UNKNOWN)
        for tp in sorted(behind.difference(unknown)):
            if start[tp] > end[tp]:
                what = f"{tp}: micro-batch 0, run again, goes to {end[tp]}, but its start is now {start[tp]}"
                self._data_loss.report(f"{what}: records were deleted, or startingOffsets was changed")
        return begins

    def _commit_soon(self, offsets: PartitionOffsets) -> None:
        if self._options.commit_group is None or not offsets or offsets == self._committed:
            return
        self._to_commit = self._committed = offsets
        if self._committing is None or self._committing.done():
            self._committing = asyncio.get_running_loop().create_task(self._commit(self._options.commit_group))

    async def _commit(self, group: str) -> None:
        """Commit until there is nothing newer."""
        while (offsets := self._to_commit) is not None:
            self._to_commit = None
            try:
                await (await self._connected()).commit(group, offsets)
            except KafkaError as error:
                _logger.warning("source.commit_failed", group=group, error=str(error))

    async def _missing(self, start: PartitionOffsets, end: PartitionOffsets) -> list[TopicPartition]:
        """The partitions of a checkpoint's micro-batch that are gone. Reports those that had records."""
        missing = await (await self._connected()).missing(end)
        for tp in missing:
            if end[tp] > start.get(tp, 0):
                read = f"offsets {start.get(tp, 0)} to {end[tp]} of an earlier micro-batch were not read yet"
                self._data_loss.report(f"{tp}: {_GONE}; {read}")
        return missing

    async def _begins(self, start: PartitionOffsets, end: PartitionOffsets) -> dict[TopicPartition, int]:
        """The offsets at which reading to ``end`` begins: ``start``, but the log's first offset for a new partition,
        and ``end`` if that is before. Reports partitions that are gone, and logs that became shorter.
        """
        gone = sorted(start.keys() - end.keys())
        if gone:
            names = ", ".join(str(tp) for tp in gone)
            self._data_loss.report(f"{names}: {_GONE}; read to {start[gone[0]]}")
        for tp, offset in end.items():
            if offset < start.get(tp, 0):
                self._data_loss.report(f"{tp}: was read to {start[tp]}, but the log ends at {offset}: {_SHORTER}")
        added = [tp for tp in end if tp not in start and tp not in self._firsts]
        if added:
            self._firsts |= await (await self._connected()).earliest(added)
        for tp in added:
            _logger.info("source.partition_added", partition=str(tp), first=self._firsts[tp])
            if self._firsts[tp] > 0:
                self._data_loss.report(f"{tp}: is new, but begins at {self._firsts[tp]}: earlier records are deleted")
        return {tp: min(start[tp], offset) if tp in start else self._firsts[tp] for tp, offset in end.items()}
