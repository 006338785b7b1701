"""The driver's questions to the cluster: which partitions there are, and their offsets.

Owns a ``TopicAdmin`` and a ``PartitionReader``, and how a read's limits become offsets. Spark's counterparts are
``KafkaOffsetReaderAdmin`` and ``ConsumerStrategy``. It plans no tasks and knows no Spark.

Rules:

- partitions are asked for each time, in one request, so that new ones are seen; offsets are one request per broker;
- offsets that a user or a checkpoint names are held against the log before a task is made of them;
- an end that lies before the offset known so far is asked for again (``fetchOffset.numRetries``): a new leader may
  not know all at once. Other failures that may pass are tried again by the clients themselves, for
  ``default.api.timeout.ms``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from types import TracebackType
from typing import Final, NamedTuple, Self

from ...admin import TopicAdmin
from ...common import TopicPartition
from ...errors import UnknownTopicOrPartitionError
from ...reader.offset_lookup import LATEST
from ...reader.partition_reader import PartitionReader
from ..options import OptionError
from ..worker.worker_log import show_warnings
from .data_loss import describe_missing
from .offsets import OffsetRange, PartitionOffsets
from .source_options import OffsetLimit, SourceOptions

__all__ = ["KafkaOffsetReader", "ResolvedLimit"]

ATTEMPTS_TO_FIND: Final = 4
"""How often a topic is looked for that a broker does not know: one just made takes a moment to spread."""


class ResolvedLimit(NamedTuple):
    """One end of a read, looked up."""

    offsets: dict[TopicPartition, int]
    at_end: frozenset[TopicPartition]
    """The partitions whose offset is the end that the log had at that moment."""


class KafkaOffsetReader:
    """``async with KafkaOffsetReader(options) as offsets: …``; to be used by one task at a time."""

    def __init__(self, options: SourceOptions) -> None:
        show_warnings()
        self._options = options
        config = options.config
        self._admin = TopicAdmin(config=config, timeout=config.default_api_timeout_ms / 1000)
        self._reader = PartitionReader(config=config)
        self._backoff = config.retry_backoff
        self._data_loss = options.data_loss()

    async def __aenter__(self) -> Self:
        await self._admin.__aenter__()
        await self._reader.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._reader.close()
        await self._admin.close()

    # partitions and their ends

    async def partitions(self, *, must_exist: bool) -> set[TopicPartition]:
        """The partitions that are read and exist. Raises UnknownTopicOrPartitionError for one that is named and does
        not, if it must.
        """
        subscription = self._options.subscription
        if subscription.pattern is not None:
            topics = await self._admin.list_topics()
            return {
                TopicPartition(topic.name, one.partition)
                for topic in topics
                if not topic.is_internal and subscription.has_topic(topic.name)
                for one in topic.partitions
            }
        for attempt in range(ATTEMPTS_TO_FIND):
            found = await self._admin.describe_existing(subscription.topic_names)
            if len(found) == len(subscription.topic_names) or not must_exist:
                break
            await asyncio.sleep(self._backoff.delay(attempt))
        existing = {TopicPartition(name, one.partition) for name, topic in found.items() for one in topic.partitions}
        missing = sorted(set(subscription.topic_names) - set(found))
        missing += [str(tp) for tp in subscription.partitions if tp not in existing and tp.topic in found]
        if missing and must_exist:
            names = ", ".join(missing)
            raise UnknownTopicOrPartitionError(
                f"there is no topic or partition {names}: create it, or correct the option that names it",
                topic=missing[0],
            )
        return existing.intersection(subscription.partitions) if subscription.partitions else existing

    async def missing(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of these partitions that do not exist, or are not to be read."""
        wanted = set(partitions)
        for attempt in range(ATTEMPTS_TO_FIND):
            missing = sorted(wanted - await self.partitions(must_exist=False))
            if not missing:
                break
            await asyncio.sleep(self._backoff.delay(attempt))
        return missing

    async def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each that is still in its log."""
        return await self._reader.beginning_offsets(partitions)

    async def latest(
        self, partitions: Collection[TopicPartition], known: PartitionOffsets | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each; asked for again where it lies before the one ``known``."""
        attempts = 0
        while True:
            found = await self._reader.end_offsets(partitions)
            attempts += 1
            is_behind = any(offset < (known or {}).get(tp, 0) for tp, offset in found.items())
            if not is_behind or attempts >= self._options.offset_retries:
                return found
            await asyncio.sleep(self._options.offset_retry_interval_ms / 1000)

    async def resolve(self, limit: OffsetLimit, partitions: Collection[TopicPartition]) -> ResolvedLimit:
        """The offset of each partition at one end of a read.

        Raises OptionError for offsets of partitions that there are not, and where no record is as young as the start
        must be, when ``startingOffsetsByTimestampStrategy`` says so.
        """
        unknown = sorted({*limit.offsets, *limit.timestamps} - set(partitions))
        if unknown:
            names = ", ".join(str(tp) for tp in unknown)
            raise OptionError("startingOffsets or endingOffsets", names, "partitions that exist and are read")
        offsets: dict[TopicPartition, int] = {}
        wanted: dict[TopicPartition, int] = {}
        for tp in partitions:
            time = limit.time_of(tp)
            offset = limit.offsets.get(tp, limit.default) if time is None else time
            (wanted if time is not None or offset < 0 else offsets)[tp] = offset
        found = await self._reader.list_offsets(wanted)
        too_old = [tp for tp, place in found.items() if place is None]
        if too_old and not limit.latest_when_none:
            expected = f"a time that some record of {too_old[0]} has or is later than, or the strategy 'latest'"
            raise OptionError("startingTimestamp or startingOffsetsByTimestamp", wanted[too_old[0]], expected)
        ends = await self._reader.end_offsets(too_old)
        offsets |= {tp: ends[tp] if place is None else place.offset for tp, place in found.items()}
        return ResolvedLimit(offsets, frozenset(tp for tp, time in wanted.items() if time == LATEST or tp in ends))

    # ranges

    async def batch_ranges(self) -> list[OffsetRange]:
        """The ranges that a batch reads: from start to end, without those that are lost."""
        options = self._options
        partitions = await self.partitions(must_exist=True)
        starts = (await self.resolve(options.starting, partitions)).offsets
        ends = (await self.resolve(options.ending, partitions)).offsets
        ranges = [OffsetRange(*tp, starts[tp], ends[tp]) for tp in sorted(partitions)]
        ranges = await self.existing(ranges, {*options.starting.offsets, *options.ending.offsets})
        for one in ranges:
            if one.start > one.end:
                expected = f"no more than the end: {one.topic_partition} begins at {one.start} and ends at {one.end}"
                raise OptionError("startingOffsets", one.start, expected)
        return ranges

    async def existing(self, ranges: Iterable[OffsetRange], doubtful: Collection[TopicPartition]) -> list[OffsetRange]:
        """The ranges without offsets that the logs do not have; only those of ``doubtful`` partitions are looked at.
        Reports losses.
        """
        ranges = list(ranges)
        asked = [one.topic_partition for one in ranges if one.topic_partition in doubtful]
        if not asked:
            return ranges
        firsts, ends = await self.earliest(asked), await self.latest(asked)
        return [
            self._clamp(one, firsts[one.topic_partition], ends[one.topic_partition])
            if one.topic_partition in doubtful
            else one
            for one in ranges
        ]

    async def commit(self, group: str, offsets: PartitionOffsets) -> None:
        """Commit offsets for a consumer group; errors as ``PartitionReader.commit_offsets``."""
        await self._reader.commit_offsets(group, offsets)

    # internals

    def _clamp(self, one: OffsetRange, first: int, end: int) -> OffsetRange:
        if (first <= one.start and one.end <= end) or one.size <= 0:
            return one
        self._data_loss.report(describe_missing(one.topic_partition, one, first, end))
        start = min(max(one.start, first), end)
        return one._replace(start=start, end=max(min(one.end, end), start))
