"""``ClusterFeed``: records of any cluster, read by a ``PartitionReader`` of its own.

Owns the reader and the records that it had fetched too many of. Where more are written than are shown, it seeks to near
the end, and counts those in between, instead of reading all of a cluster's traffic to throw it away.

Which records were aborted no answer says of those that it has with ``read_uncommitted``. So they are read again with
``read_committed`` by a second reader, which is made when it is first asked: those that it does not give are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ..common import ConsumedRecord, TopicPartition
from ..errors import OffsetOutOfRangeError
from ..reader import PartitionReader, ReaderConfig
from .source import Outcome, Place, Polled, Start

__all__ = ["ClusterFeed"]

FETCH_BYTES: Final = 256 * 1024
WAIT: Final = 0.2
"""Seconds that a poll waits for the first record."""
READ_WAIT: Final = 2.0
"""Seconds without an answer after which a reading from a position is over."""
MOST_BEHIND: Final = 5_000
"""Records of a partition that are read rather than passed over."""


class ClusterFeed:
    """``Feed`` over partitions of one topic."""

    def __init__(
        self, config: ReaderConfig, partitions: Sequence[TopicPartition], *, is_committed: bool = False
    ) -> None:
        smaller = {"max_partition_fetch_bytes": FETCH_BYTES, "fetch_max_bytes": 4 * FETCH_BYTES}
        smaller["fetch_max_wait_ms"] = 200
        committed = {**smaller, "isolation_level": "read_committed", "auto_offset_reset": "none"}
        self._committed_config = config.model_copy(update=committed)
        uncommitted = config.model_copy(update={**smaller, "isolation_level": "read_uncommitted"})
        self._reader = PartitionReader(config=self._committed_config if is_committed else uncommitted)
        self._second: PartitionReader | None = None
        self._partitions = list(partitions)
        self._waiting: deque[ConsumedRecord] = deque()
        self._ends: dict[TopicPartition, int] = {}

    async def start(self, start: Start) -> None:
        """Look up where to begin. Raises KafkaError."""
        reader, wanted = self._reader, self._partitions
        await reader.start()
        try:
            first = await reader.beginning_offsets(wanted)
            self._ends = end = await reader.end_offsets(wanted)
            if start.kind == "time":
                found = await reader.list_offsets(dict.fromkeys(wanted, start.number))
                positions = {place: end[place] if one is None else one.offset for place, one in found.items()}
            else:
                positions = {
                    place: start.offset_in(place.partition, first[place], end[place], len(wanted)) or 0
                    for place in wanted
                }
            reader.assign(wanted)
            for place, offset in positions.items():
                reader.seek(place, offset)
        except BaseException:
            await reader.close()
            raise

    def positions(self) -> Mapping[int, int]:
        """See ``Feed``."""
        found = {place.partition: self._reader.position(place) or 0 for place in self._partitions}
        for record in reversed(self._waiting):  # fetched, and not given yet
            found[record.partition] = record.offset
        return found

    async def poll(self, most: int, *, newest: bool) -> Polled:
        """See ``Feed``."""
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
            self._ends[found.topic_partition] = max(found.end_offset, self._ends[found.topic_partition])
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
        return Polled(records, passed_over, self._is_at_end() and not self._waiting)

    async def outcomes(self, places: Collection[Place]) -> Mapping[Place, Outcome]:
        """See ``Feed``. Raises KafkaError."""
        if not places:
            return {}
        reader = await self._second_reader()
        wanted: dict[TopicPartition, set[int]] = {}
        for place in places:
            wanted.setdefault(TopicPartition(self._partitions[0].topic, place.partition), set()).add(place.offset)
        stable = await reader.end_offsets(wanted)
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

    async def _second_reader(self) -> PartitionReader:
        if self._second is None:
            self._second = PartitionReader(config=self._committed_config)
            await self._second.start()
        return self._second

    @staticmethod
    async def _not_given(reader: PartitionReader, decided: Mapping[TopicPartition, set[int]]) -> list[Place]:
        """Those of the offsets that ``read_committed`` passes over; all lie before the last stable one."""
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
                return []  # nobody answers: of those that are left nothing is known
            for record in () if records is None else records.records:
                left[TopicPartition(record.topic, record.partition)].discard(record.offset)
        return [Place(one.partition, offset) for one, offsets in left.items() for offset in offsets]

    def _is_at_end(self) -> bool:
        return all((self._reader.position(place) or 0) >= self._ends[place] for place in self._partitions)

    def _catch_up(self, place: TopicPartition, end: int, most: int) -> int:
        behind = end - (self._reader.position(place) or 0)
        if behind <= MOST_BEHIND:
            return 0
        target = end - min(most, MOST_BEHIND)
        passed_over = target - (self._reader.position(place) or 0)
        self._reader.seek(place, target)
        return passed_over
