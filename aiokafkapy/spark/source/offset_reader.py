"""The driver's questions to the cluster: the partitions and their offsets.

Owns a ``TopicAdmin`` and a ``PartitionReader``, and the translation of a read's limits into offsets. Spark's
counterparts are ``KafkaOffsetReaderAdmin`` and ``ConsumerStrategy``. It plans no tasks and knows no Spark.

Rules:

- Partitions are requested each time, in one request, so that new ones are seen. Offsets take one request per broker.
- Offsets that a user or a checkpoint names are compared with the log before a task is made of them.
- An answer is not trusted if it lacks a known partition, or if its end lies before the offset known so far: a broker
  may not know everything at once. Both are requested again (``fetchOffset.numRetries``). Other failures that may pass
  are retried by the clients themselves, for ``default.api.timeout.ms``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeAlias, TypeVar
from uuid import UUID

from ...admin import TopicAdmin
from ...common import TopicPartition
from ...errors import UnknownTopicOrPartitionError
from ...reader.offsets import LATEST
from ...reader.partition_reader import PartitionReader
from ..options import OptionError
from ..worker.worker_log import show_warnings
from .data_loss import describe_missing
from .offsets import OffsetRange, PartitionOffsets
from .source_options import OffsetLimit, SourceOptions

__all__ = ["KafkaOffsetReader", "PartitionIds", "ResolvedLimit"]

T = TypeVar("T")

PartitionIds: TypeAlias = dict[TopicPartition, UUID | None]
"""Partitions, each with its topic's id, which changes when a topic is created again; None before Kafka 2.8."""

ATTEMPTS_TO_FIND: Final = 4
"""The number of look-ups of a topic that a broker does not know: a new topic takes a moment to spread."""


class ResolvedLimit(NamedTuple):
    """One end of a read, looked up."""

    offsets: dict[TopicPartition, int]
    at_end: frozenset[TopicPartition]
    """The partitions whose offset is the end of their log at that moment."""


class KafkaOffsetReader:
    """``async with KafkaOffsetReader(options) as offsets: …``; for one task at a time."""

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

    async def partitions(self, *, must_exist: bool) -> PartitionIds:
        """The partitions to read that exist, after a short wait for a named topic. Raises UnknownTopicOrPartitionError
        for a named one that does not exist, if it must.
        """
        subscription = self._options.subscription
        for attempt in range(ATTEMPTS_TO_FIND):
            existing = await self._existing()
            topics = {tp.topic for tp in existing}
            missing = sorted(set(subscription.topic_names) - topics)
            if not missing:
                break
            await asyncio.sleep(self._backoff.delay(attempt))
        missing += [str(tp) for tp in subscription.partitions if tp not in existing and tp.topic in topics]
        if missing and must_exist:
            names = ", ".join(missing)
            raise UnknownTopicOrPartitionError(
                f"there is no topic or partition {names}: create it, or correct the option that names it",
                topic=missing[0],
            )
        return self._read_of(existing)

    async def partitions_with(self, known: Iterable[TopicPartition]) -> PartitionIds:
        """The partitions to read that exist; requested again while a known one is not among them."""
        wanted = set(known)
        existing = await self._ask_until(self._existing, lambda found: wanted <= found.keys())
        return self._read_of(existing)

    async def missing(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Those of these partitions that do not exist, or must not be read."""
        return sorted(set(partitions) - (await self.partitions_with(partitions)).keys())

    async def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition that is still in its log."""
        return await self._reader.beginning_offsets(partitions)

    async def latest(
        self, partitions: Collection[TopicPartition], known: PartitionOffsets | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition; requested again if it lies before the ``known`` one."""
        least = known or {}
        return await self._ask_until(
            lambda: self._reader.end_offsets(partitions),
            lambda found: all(offset >= least.get(tp, 0) for tp, offset in found.items()),
        )

    async def resolve(self, limit: OffsetLimit, partitions: Collection[TopicPartition]) -> ResolvedLimit:
        """The offset of each partition at one end of a read.

        Raises OptionError for offsets of partitions that do not exist, and, if ``startingOffsetsByTimestampStrategy``
        says so, if no record is as young as the start must be.
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
        """The ranges that a batch reads: from start to end, without lost offsets."""
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
        """The ranges without offsets that the logs do not have; only ``doubtful`` partitions are checked. Reports
        losses.
        """
        ranges = list(ranges)
        asked = {one.topic_partition: one.end for one in ranges if one.topic_partition in doubtful}
        if not asked:
            return ranges
        firsts, ends = await self.earliest(asked), await self.latest(asked, asked)
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

    async def _ask_until(self, ask: Callable[[], Awaitable[T]], is_right: Callable[[T], bool]) -> T:
        """The first valid answer, or the last of ``fetchOffset.numRetries``."""
        found = await ask()
        for _ in range(1, self._options.offset_retries):
            if is_right(found):
                break
            await asyncio.sleep(self._options.offset_retry_interval_ms / 1000)
            found = await ask()
        return found

    async def _existing(self) -> PartitionIds:
        """All partitions of the topics that are read, from one request."""
        subscription = self._options.subscription
        if subscription.pattern is None:
            topics = list((await self._admin.describe_existing(subscription.topic_names)).values())
        else:
            listed = await self._admin.list_topics()
            topics = [topic for topic in listed if not topic.is_internal and subscription.has_topic(topic.name)]
        return {
            TopicPartition(topic.name, one.partition): topic.topic_id for topic in topics for one in topic.partitions
        }

    def _read_of(self, existing: PartitionIds) -> PartitionIds:
        wanted = self._options.subscription.partitions
        return {tp: existing[tp] for tp in wanted if tp in existing} if wanted else existing

    def _clamp(self, one: OffsetRange, first: int, end: int) -> OffsetRange:
        if (first <= one.start and one.end <= end) or one.size <= 0:
            return one
        self._data_loss.report(describe_missing(one.topic_partition, one, first, end))
        start = min(max(one.start, first), end)
        return one._replace(start=start, end=max(min(one.end, end), start))
