"""``BrokerFeed``: reads records of a dev broker's logs, and decodes them in place.

Owns the positions, and the bounds of a poll. It takes the loop for one batch at a time. If more records are written
than it may decode, it goes on near the end, and counts the records in between: it never falls behind for good. If only
committed records are read, the end is the last stable offset, as for a consumer with ``read_committed``.

A follower of a topic looks it up with each poll: it may have got partitions, or be another topic of the same name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from ..broker.storage.log import PartitionLog
from ..broker.storage.topics import Partition, Topic
from ..common import ConsumedRecord
from ..errors import KafkaError
from ..record.batch import RecordBatch, iter_batches
from .source import Outcome, Place, Polled, Start

__all__ = ["BrokerFeed"]

READ_BYTES: Final = 256 * 1024
"""Bytes of a partition at once; a larger batch comes alone."""


class BrokerFeed:
    """``Feed`` over a topic, or one of its partitions; ``find`` looks the topic up by its name."""

    def __init__(
        self,
        topic: Topic,
        partition: int | None,
        start: Start,
        find: Callable[[str], Topic | None],
        *,
        is_committed: bool = False,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._find = find
        self._is_committed = is_committed
        self._partitions = list(self._chosen())
        self._positions = {each.index: self._first(each, start) for each in self._partitions}
        self._turn = 0
        self._unreadable = 0  # in this poll

    def positions(self) -> Mapping[int, int]:
        """See ``Feed``."""
        return dict(self._positions)

    async def poll(self, most: int, *, newest: bool) -> Polled:
        """See ``Feed``."""
        note = self._look_again() if newest else ""
        passed_over = self._go_near_the_end(most) if newest else 0
        self._unreadable = 0
        found: list[ConsumedRecord] = []
        waiting = list(self._partitions)
        # Each round begins at another partition, so that no partition is always last.
        self._turn += 1
        turn = self._turn % len(waiting) if waiting else 0
        waiting = waiting[turn:] + waiting[:turn]
        while waiting and len(found) < most:
            rest = []
            for partition in waiting:
                if len(found) < most and self._take(partition, found, most):
                    rest.append(partition)
                    await asyncio.sleep(0)
            waiting = rest
        is_at_end = all(self._positions[each.index] >= self._end(each) for each in self._partitions)
        return Polled(found, passed_over, is_at_end, note, self._unreadable)

    async def outcomes(self, places: Collection[Place]) -> Mapping[Place, Outcome]:
        """See ``Feed``."""
        logs = {each.index: each.log for each in self._partitions}
        found: dict[Place, Outcome] = {}
        for place in places:
            log = logs.get(place.partition)
            if log is None:  # the topic was made again, with fewer partitions
                continue
            if place.offset >= log.last_stable_offset:
                found[place] = "pending"
            elif _is_aborted(log, place.offset):
                found[place] = "aborted"
        return found

    async def close(self) -> None:
        """Does nothing: no connection is open."""

    # internals

    def _chosen(self) -> Sequence[Partition]:
        partitions, index = self._topic.partitions, self._partition
        return partitions if index is None else partitions[index : index + 1]

    def _look_again(self) -> str:
        """Look up the topic's present partitions, and read each new one from its beginning; returns the reason if the
        topic cannot be read.
        """
        topic = self._find(self._topic.name)
        if topic is None:
            return f"there is no topic {self._topic.name!r}"
        if topic is not self._topic:
            self._topic = topic
            self._partitions.clear()
            self._positions.clear()
        for partition in self._chosen()[len(self._partitions) :]:
            self._partitions.append(partition)
            self._positions[partition.index] = partition.log.start_offset
        return ""

    def _end(self, partition: Partition) -> int:
        return partition.log.last_stable_offset if self._is_committed else partition.log.end_offset

    def _first(self, partition: Partition, start: Start) -> int:
        log, end = partition.log, self._end(partition)
        offset = start.offset_in(partition.index, log.start_offset, end, len(self._partitions))
        if offset is not None:
            return offset
        found = log.offset_for_time(start.number)
        return end if found is None else min(found.offset, end)

    def _go_near_the_end(self, most: int) -> int:
        behind = {each.index: max(0, self._end(each) - self._positions[each.index]) for each in self._partitions}
        total = sum(behind.values())
        if total <= most:
            return 0
        for index, count in behind.items():
            self._positions[index] += count - count * most // total
        return total - sum(max(0, self._end(each) - self._positions[each.index]) for each in self._partitions)

    def _take(self, partition: Partition, found: list[ConsumedRecord], most: int) -> bool:
        """Decode a batch; returns whether another may follow."""
        log, position, end = partition.log, self._positions[partition.index], self._end(partition)
        if position < log.start_offset:  # records were deleted
            position = log.start_offset
        if partition.is_deleted or position >= end:
            return False
        try:
            batch = _batch_at(log, position)
            if batch is None:
                return False
        except KafkaError:  # the log was cut meanwhile, or cannot be read
            self._positions[partition.index] = end
            return False
        for record in self._records_of(batch, partition, position):
            if record.offset >= position:
                if len(found) == most:
                    self._positions[partition.index] = record.offset
                    return False
                found.append(record)
        self._positions[partition.index] = batch.next_offset
        return batch.next_offset < end

    def _records_of(self, batch: RecordBatch, partition: Partition, position: int) -> list[ConsumedRecord]:
        if batch.is_control or (self._is_committed and partition.log.is_aborted(batch)):
            return []
        try:
            return batch.records(self._topic.name, partition.index)
        except KafkaError:
            # Any producer may write such a batch: the broker checks only the header, which tells where the next batch
            # begins.
            self._unreadable += batch.next_offset - max(position, batch.base_offset)
            return []


def _is_aborted(log: PartitionLog, offset: int) -> bool:
    if not log.aborted_transactions(offset, offset + 1):
        return False
    try:
        batch = _batch_at(log, offset)
        return batch is not None and log.is_aborted(batch)
    except KafkaError:  # the log was cut meanwhile
        return False


def _batch_at(log: PartitionLog, offset: int) -> RecordBatch | None:
    # A large batch lies in two pieces, and any read may end within one.
    pieces = log.read(offset, READ_BYTES)
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return next(iter(iter_batches(data)), None)
