"""Shared by the broker's tests: batches as a producer makes them, topics and logs, and a scheduler without time."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence

from aiokafkapy.broker.coordination.share_partition import SharePartition
from aiokafkapy.broker.storage.log import PartitionLog
from aiokafkapy.broker.storage.topics import Topic, TopicRegistry
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression, compress
from aiokafkapy.testing.clock import VirtualClock

__all__ = ["VirtualScheduler", "acquired_by", "log_of", "make_batch", "topic_of"]


def topic_of(topics: TopicRegistry, name: str = "t") -> Topic:
    """A topic that is there."""
    topic = topics.get(name)
    assert topic is not None, name
    return topic


def log_of(topics: TopicRegistry, name: str = "t", partition: int = 0) -> PartitionLog:
    """The log of a partition that is there."""
    return topic_of(topics, name).partitions[partition].log


def acquired_by(share: SharePartition, member_id: str) -> list[int]:
    """The offsets of the records that are with a member."""
    return [offset for offset, record in share.in_flight() if record.member_id == member_id]


def make_batch(
    values: Sequence[bytes | None] = (b"value",),
    *,
    producer: tuple[int, int, int] = (-1, -1, -1),
    timestamps: Sequence[int] | None = None,
    key: bytes | None = b"key",
    compression: Compression = Compression.NONE,
    is_transactional: bool = False,
) -> bytes:
    """A batch as it comes in a Produce request; ``producer`` is (id, epoch, base sequence)."""
    builder = RecordBatchBuilder(2**30)
    for index, value in enumerate(values):
        builder.try_append(1_000 if timestamps is None else timestamps[index], key, value, ())
    payload = compress(compression, bytes(builder.records_view()), None) if compression else None
    builder.seal(compression, payload)
    builder.stamp(*producer, is_transactional)
    return b"".join(builder.buffers())


class _Handle:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class VirtualScheduler:
    """A ``Scheduler`` whose calls are made by ``advance``, each at its own time and in order."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._calls: list[tuple[float, int, _Handle, Callable[[], object]]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self.clock.time()

    def call_at(self, when: float, callback: Callable[[], object], /) -> _Handle:
        handle = _Handle()
        heapq.heappush(self._calls, (when, next(self._numbers), handle, callback))
        return handle

    @property
    def pending(self) -> int:
        """Calls that are still to be made."""
        return sum(not handle.is_cancelled for _, _, handle, _ in self._calls)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        end = self.clock.time() + seconds
        while self._calls and self._calls[0][0] <= end:
            when, _, handle, callback = heapq.heappop(self._calls)
            if not handle.is_cancelled:
                self.clock.advance_to(max(when, self.clock.time()))
                handle.cancel()
                callback()
        self.clock.advance_to(end)
