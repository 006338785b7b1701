"""``ClusterFeed``: reads records of any cluster with its own ``PartitionReader``.

Owns the reader and the surplus records that it had fetched. If more records are written than are shown, it seeks to
near the end, and counts those in between, instead of reading all of a cluster's traffic to throw it away.

Partitions without a leader are left out, and noted, for a look-up would wait for one. A follower of a topic describes
it from time to time: there may be a leader again, other partitions, or another topic of that name.

No answer with ``read_uncommitted`` says which records were aborted. A second reader, made on first use, reads them
with ``read_committed``; the records that it does not return were aborted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final

from ..admin.topics import TopicDescription
from ..common import NO_LEADER, ConsumedRecord, PartitionInfo, TopicPartition
from ..errors import KafkaError, KafkaTimeoutError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from ..reader import LATEST, PartitionReader, ReaderConfig
from .source import Outcome, Place, Polled, Start

__all__ = ["ClusterFeed"]

FETCH_BYTES: Final = 256 * 1024
WAIT: Final = 0.2
"""Seconds that a poll waits for the first record."""
READ_WAIT: Final = 2.0
"""Seconds without an answer after which reading from a position ends."""
MOST_BEHIND: Final = 5_000
"""Records of a partition that are read rather than passed over."""
LOOK_UP: Final = 5.0
"""Seconds for offsets: the leader that metadata names may be away."""
LOOK_AGAIN: Final = 2.0
"""Seconds between two descriptions of a followed topic."""
MOST_NAMED: Final = 5
"""The most partitions that a note names; further ones are counted."""
FAR: Final = 10**18 - 1
"""An offset beyond every end: the largest that ``Start`` reads."""


class ClusterFeed:
    """``Feed`` over a topic, or one of its partitions; ``describe`` describes the topic of this name."""

    def __init__(
        self,
        config: ReaderConfig,
        described: TopicDescription,
        partition: int | None,
        describe: Callable[[str], Awaitable[TopicDescription]],
        *,
        is_committed: bool = False,
    ) -> None:
        smaller = {"max_partition_fetch_bytes": FETCH_BYTES, "fetch_max_bytes": 4 * FETCH_BYTES}
        smaller["fetch_max_wait_ms"] = 200
        committed = {**smaller, "isolation_level": "read_committed"}
        self._second_config = config.model_copy(update={**committed, "auto_offset_reset": "none"})
        uncommitted = {**smaller, "isolation_level": "read_uncommitted"}
        self._reader = PartitionReader(config=config.model_copy(update=committed if is_committed else uncommitted))
        self._second: PartitionReader | None = None
        # The topic
        self._topic = described.name
        self._topic_id = described.topic_id
        self._partition = partition
        self._describe = describe
        self._described_at = 0.0
        chosen = self._chosen(described)
        self._partitions = _with_leader(chosen)
        self._unread = {one.partition for one in chosen if one.leader == NO_LEADER}
        """The partitions that had no leader in the beginning."""
        self._note = _note(chosen)
        self._start = Start()
        # Records
        self._waiting: deque[ConsumedRecord] = deque()
        self._ends: dict[TopicPartition, int] = {}

    async def start(self, start: Start) -> None:
        """Look up the offsets to begin at. Raises KafkaError."""
        reader, wanted = self._reader, self._partitions
        self._start = start
        self._described_at = asyncio.get_running_loop().time()
        await reader.start()
        try:
            first = await reader.beginning_offsets(wanted, LOOK_UP)
            self._ends = end = await reader.end_offsets(wanted, LOOK_UP)
            if start.kind == "time":
                found = await reader.list_offsets(dict.fromkeys(wanted, start.number), LOOK_UP)
                positions = {tp: end[tp] if one is None else one.offset for tp, one in found.items()}
            else:
                positions = {tp: start.offset_in(tp.partition, first[tp], end[tp], len(wanted)) or 0 for tp in wanted}
            reader.assign(wanted)
            for tp, offset in positions.items():
                reader.seek(tp, offset)
        except BaseException:
            await reader.close()
            raise

    def positions(self) -> Mapping[int, int]:
        """See ``Feed``."""
        found = {tp.partition: self._reader.position(tp) or 0 for tp in self._partitions}
        for partition in self._unread - found.keys():
            # It may have a leader by the next page, which goes on from here.
            offset = self._start.offset_in(partition, 0, FAR, len(self._partitions))
            if offset is not None:
                found[partition] = offset
        for record in reversed(self._waiting):  # fetched and not returned yet
            found[record.partition] = record.offset
        return found

    async def poll(self, most: int, *, newest: bool) -> Polled:
        """See ``Feed``."""
        if newest:
            await self._look_again()
        passed_over = 0
        wait = WAIT if newest else READ_WAIT
        while newest or len(self._waiting) < most:
            if not newest and self._is_at_end():
                break
            found = await self._reader.fetch_partition(wait)
            if found is None:
                break
            wait = WAIT if not newest else 0.0
            self._waiting += found.records
            self._ends[found.topic_partition] = max(found.end_offset, self._ends.get(found.topic_partition, 0))
            if newest:
                passed_over += self._catch_up(found.topic_partition, found.end_offset, most)
                if len(self._waiting) >= most:
                    break
        if newest and len(self._waiting) > most:
            over = len(self._waiting) - most
            passed_over += over
            for _ in range(over):
                self._waiting.popleft()
        records = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        return Polled(records, passed_over, self._is_at_end() and not self._waiting, self._note)

    async def outcomes(self, places: Collection[Place]) -> Mapping[Place, Outcome]:
        """See ``Feed``. Raises KafkaError."""
        if not places:
            return {}
        reader = await self._second_reader()
        wanted: dict[TopicPartition, set[int]] = {}
        for place in places:
            wanted.setdefault(TopicPartition(self._topic, place.partition), set()).add(place.offset)
        try:
            stable = await reader.end_offsets(wanted, READ_WAIT)
        except KafkaTimeoutError:  # a partition has no leader: no broker can tell, and its records stay pending
            return dict.fromkeys(places, "pending")
        found: dict[Place, Outcome] = {
            Place(one.partition, offset): "pending"
            for one, offsets in wanted.items()
            for offset in offsets
            if offset >= stable[one]
        }
        decided = {one: {each for each in offsets if each < stable[one]} for one, offsets in wanted.items()}
        missing = await self._not_given(reader, {one: offsets for one, offsets in decided.items() if offsets})
        return found | dict.fromkeys(missing, "aborted")

    async def close(self) -> None:
        """Close the readers."""
        try:
            await self._reader.close()
        finally:
            if self._second is not None:
                await self._second.close()

    # internals

    def _chosen(self, described: TopicDescription) -> list[PartitionInfo]:
        return [one for one in described.partitions if self._partition in (None, one.partition)]

    async def _look_again(self) -> None:
        """Describe the topic, if the last time is long enough ago, and read its present partitions."""
        now = asyncio.get_running_loop().time()
        if now < self._described_at + LOOK_AGAIN:
            return
        try:
            self._take(await self._describe(self._topic))
        except UnknownTopicOrPartitionError:
            self._note = f"there is no topic {self._topic!r}"
        except KafkaError as error:
            self._note = str(error)
        self._described_at = asyncio.get_running_loop().time()

    def _take(self, described: TopicDescription) -> None:
        chosen = self._chosen(described)
        self._note = _note(chosen)
        before, self._topic_id = self._topic_id, described.topic_id
        if None not in (before, self._topic_id) and before != self._topic_id:  # made again under the same name
            self._reader.assign(())
            for forgotten in (self._partitions, self._unread, self._ends):
                forgotten.clear()
        added = [tp for tp in _with_leader(chosen) if tp not in self._ends]
        if not added:
            return
        self._partitions += added
        self._ends |= dict.fromkeys(added, 0)
        self._reader.assign(self._partitions)
        for tp in added:
            if tp.partition in self._unread:
                self._reader.seek_to_time(tp, LATEST)  # its earlier records were not followed
            else:
                self._reader.seek(tp, 0)

    async def _second_reader(self) -> PartitionReader:
        if self._second is None:
            self._second = PartitionReader(config=self._second_config)
            await self._second.start()
        return self._second

    @staticmethod
    async def _not_given(reader: PartitionReader, decided: Mapping[TopicPartition, set[int]]) -> list[Place]:
        """The offsets that ``read_committed`` passes over; all lie before the last stable one."""
        reader.assign(decided)
        for one, offsets in decided.items():
            reader.seek(one, min(offsets))
            reader.stop_at(one, max(offsets) + 1)
        left = {one: set(offsets) for one, offsets in decided.items()}
        while decided and not reader.is_finished:
            try:
                records = await reader.fetch_partition(READ_WAIT)
            except OffsetOutOfRangeError:
                return []  # they were deleted meanwhile
            if records is None and not reader.is_finished:
                return []  # no broker answers: the outcomes of the rest are unknown
            for record in () if records is None else records.records:
                left[TopicPartition(record.topic, record.partition)].discard(record.offset)
        return [Place(one.partition, offset) for one, offsets in left.items() for offset in offsets]

    def _is_at_end(self) -> bool:
        return all((self._reader.position(tp) or 0) >= self._ends[tp] for tp in self._partitions)

    def _catch_up(self, tp: TopicPartition, end: int, most: int) -> int:
        behind = end - (self._reader.position(tp) or 0)
        if behind <= MOST_BEHIND:
            return 0
        target = end - min(most, MOST_BEHIND)
        passed_over = target - (self._reader.position(tp) or 0)
        self._reader.seek(tp, target)
        return passed_over


def _with_leader(partitions: Iterable[PartitionInfo]) -> list[TopicPartition]:
    return [TopicPartition(one.topic, one.partition) for one in partitions if one.leader != NO_LEADER]


def _note(partitions: Iterable[PartitionInfo]) -> str:
    """A note on the partitions without a leader; empty if all have one."""
    without = [str(one.partition) for one in partitions if one.leader == NO_LEADER]
    if len(without) > MOST_NAMED:
        return f"{len(without)} partitions have no leader"
    if len(without) > 1:
        return f"partitions {', '.join(without)} have no leader"
    return f"partition {without[0]} has no leader" if without else ""
