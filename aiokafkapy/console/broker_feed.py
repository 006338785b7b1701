"""``BrokerFeed``: records of a dev broker's logs, decoded where they lie.

Owns the positions, and the bounds of a poll. It takes the loop for one batch at a time, and where more is written than
it may decode it goes on near the end, and counts the records in between: it never falls behind for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from ..broker.storage.topics import Partition
from ..common import ConsumedRecord
from ..errors import KafkaError, OffsetOutOfRangeError
from ..record.batch import RecordBatch, iter_batches
from .source import Polled, Start

__all__ = ["BrokerFeed"]

READ_BYTES: Final = 256 * 1024
"""Bytes of a partition at once; a batch that is larger comes alone."""


class BrokerFeed:
    """``Feed`` over partitions of one topic."""

    def __init__(self, topic: str, partitions: Sequence[Partition], start: Start) -> None:
        self._topic = topic
        self._partitions = list(partitions)
        self._positions = {each.index: 0 for each in partitions}
        for partition in partitions:
            self._positions[partition.index] = _first(partition, start, len(partitions))
        self._turn = 0

    def positions(self) -> Mapping[int, int]:
        """See ``Feed``."""
        return dict(self._positions)

    async def poll(self, most: int, *, newest: bool) -> Polled:
        """See ``Feed``."""
        passed_over = self._go_near_the_end(most) if newest else 0
        found: list[ConsumedRecord] = []
        waiting = list(self._partitions)
        # A round for each partition in turn, each from another one on, so that none is always last.
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
        is_at_end = all(self._positions[each.index] >= each.log.end_offset for each in self._partitions)
        return Polled(found, passed_over, is_at_end)

    async def close(self) -> None:
        """Nothing is open."""

    # internals

    def _go_near_the_end(self, most: int) -> int:
        behind = {each.index: each.log.end_offset - self._positions[each.index] for each in self._partitions}
        total = sum(behind.values())
        if total <= most:
            return 0
        for index, count in behind.items():
            self._positions[index] += count - count * most // total
        return total - sum(each.log.end_offset - self._positions[each.index] for each in self._partitions)

    def _take(self, partition: Partition, found: list[ConsumedRecord], most: int) -> bool:
        """Decode a batch; whether there may be another."""
        log, position = partition.log, self._positions[partition.index]
        if position < log.start_offset:  # records were deleted
            position = log.start_offset
        if partition.is_deleted or position >= log.end_offset:
            return False
        try:
            batch = _batch_at(log.read(position, READ_BYTES))
            if batch is None:
                return False
            records = [] if batch.is_control else batch.records(self._topic, partition.index)
        except (OffsetOutOfRangeError, KafkaError):
            # The log was cut meanwhile, or holds what cannot be decoded, as any producer may write.
            self._positions[partition.index] = log.end_offset
            return False
        for record in records:
            if record.offset >= position:
                if len(found) == most:
                    self._positions[partition.index] = record.offset
                    return False
                found.append(record)
        self._positions[partition.index] = batch.next_offset
        return batch.next_offset < log.end_offset


def _batch_at(pieces: Sequence[bytes | bytearray | memoryview]) -> RecordBatch | None:
    # A large batch lies in two pieces, and any read may end within one.
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return next(iter(iter_batches(data)), None)


def _first(partition: Partition, start: Start, partitions: int) -> int:
    log = partition.log
    offset = start.offset_in(partition.index, log.start_offset, log.end_offset, partitions)
    if offset is not None:
        return offset
    found = log.offset_for_time(start.number)
    return log.end_offset if found is None else found.offset
