"""The batches of one partition in their order, and the accumulator's state of one topic.

Owns the order within a partition: batches are sent as they were filled, and those that come back find their old
place. It knows no memory, no time and no broker. Kafka's counterparts are the ``Deque<ProducerBatch>`` and
``TopicInfo`` inside ``RecordAccumulator``.
"""

from __future__ import annotations

from bisect import insort_left
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from ...common import NO_LEADER, NO_LEADER_EPOCH, TopicPartition
from ...record.layout import MAX_BATCH_SIZE
from .producer_batch import ProducerBatch

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster
    from .built_in_partitioner import BuiltInPartitioner

__all__ = ["NO_LINGER", "PartitionQueue", "TopicInfo", "TopicSettings"]

NO_LINGER: Final = -1.0
"""Stands for the linger of a topic without one of its own."""


class TopicSettings(NamedTuple):
    """The settings of a topic's batches. ``linger`` is in seconds, infinity until a flush, or NO_LINGER;
    ``bulk_batch_size`` is for calls with many records, 0 if it is ``batch_size``.
    """

    batch_size: int
    compression: int = 0
    compression_level: int | None = None
    linger: float = NO_LINGER
    has_priority: bool = False
    bulk_batch_size: int = 0


class PartitionQueue:
    """One partition's batches that are not in a request, oldest first; only the last one may be open."""

    __slots__ = (
        "batches",
        "cluster",
        "has_priority",
        "is_muted",
        "last_size",
        "leader",
        "leader_epoch",
        "linger",
        "max_message_bytes",
        "next_order",
        "open_batch",
        "topic_partition",
    )

    def __init__(
        self, topic_partition: TopicPartition, linger: float = NO_LINGER, *, has_priority: bool = False
    ) -> None:
        self.topic_partition = topic_partition
        self.linger = linger
        self.has_priority = has_priority
        self.max_message_bytes = MAX_BATCH_SIZE  # its topic's
        self.batches: list[ProducerBatch] = []  # seldom more than two
        # The last batch, as long as it may take records
        self.open_batch: ProducerBatch | None = None
        self.next_order = 0
        # Bytes of records in the batch that left last: the expected size of the next one
        self.last_size = 0
        self.is_muted = False
        # The partition in ``cluster``, the view looked at last
        self.cluster: Cluster | None = None
        self.leader = NO_LEADER
        self.leader_epoch = NO_LEADER_EPOCH

    def insert_in_order(self, batch: ProducerBatch) -> None:
        """Put a batch that came back before all younger ones."""
        insort_left(self.batches, batch, key=attrgetter("order"))

    def replace_first(self, successors: Iterable[ProducerBatch]) -> None:
        """Put these in the place of the oldest batch, which takes no records any more."""
        self.batches[:1] = successors

    def remove(self, batch: ProducerBatch) -> bool:
        """Take ``batch`` out, wherever it is; False when it is not here."""
        if self.open_batch is batch:
            self.open_batch = None
        try:
            self.batches.remove(batch)
        except ValueError:
            return False
        return True

    def pop_first(self) -> ProducerBatch:
        """Take the oldest batch out."""
        batch = self.batches[0]
        del self.batches[0]  # compiled it costs half as much as pop(0)
        self.last_size = batch.builder.records_size
        if self.open_batch is batch:
            self.open_batch = None
        return batch

    def update_leader(self, cluster: Cluster) -> None:
        """Look the leader up, unless this very view was asked before. A leader without an address counts as none."""
        if self.cluster is cluster:
            return
        self.cluster = cluster
        self.leader = self.leader_in(cluster)
        if self.leader != NO_LEADER:
            topic = cluster.topic(self.topic_partition[0])
            assert topic is not None
            self.leader_epoch = topic.leader_epochs[self.topic_partition[1]]

    def leader_in(self, cluster: Cluster) -> int:
        """The node id of the leader in this view, NO_LEADER also for one without an address."""
        name, number = self.topic_partition
        topic = cluster.topic(name)
        leader = NO_LEADER if topic is None else topic.leader(number)
        return NO_LEADER if leader == NO_LEADER or cluster.node_by_id(leader) is None else leader


class TopicInfo:
    """One topic's queues, the settings of its batches, and the current partition for its records without a key."""

    __slots__ = (
        "_bulk_batch_size",
        "_bulk_calls",
        "batch_size",
        "compression",
        "compression_level",
        "has_priority",
        "limit_until",
        "linger",
        "max_message_bytes",
        "own_batch_size",
        "partitioner",
        "produced_bytes",
        "queues",
        "sticky_queue",
        "topic",
    )

    def __init__(self, topic: str, partitioner: BuiltInPartitioner, settings: TopicSettings) -> None:
        self.topic = topic
        self.batch_size = self.own_batch_size = settings.batch_size
        self.compression, self.compression_level = settings.compression, settings.compression_level
        self.linger, self.has_priority = settings.linger, settings.has_priority
        self._bulk_batch_size, self._bulk_calls = settings.bulk_batch_size, 0
        # The topic's limit for a batch, if known, and the time until which it counts (``topic_limits``)
        self.max_message_bytes = MAX_BATCH_SIZE
        self.limit_until = 0.0
        self.queues: list[PartitionQueue | None] = []  # by their partitions' numbers
        # The sticky partition (KIP-480, KIP-794) and how many bytes it got since it was chosen
        self.partitioner = partitioner
        self.sticky_queue: PartitionQueue | None = None
        self.produced_bytes = 0

    def limit(self, max_message_bytes: int | None, until: float) -> bool:
        """The topic takes batches of so many bytes; None: nothing is known. True if batches are smaller from now on."""
        before = self.batch_size
        self.max_message_bytes = MAX_BATCH_SIZE if max_message_bytes is None else min(max_message_bytes, MAX_BATCH_SIZE)
        for queue in self.queues:
            if queue is not None:
                queue.max_message_bytes = self.max_message_bytes
        self.limit_until = until
        self.fill(self.own_batch_size)
        return self.batch_size < before

    def fill(self, batch_size: int) -> None:
        """Fill new batches with so many bytes, as far as the topic takes them."""
        self.own_batch_size = batch_size
        self._set_batch_size()

    def count_bulk_calls(self, change: int) -> None:
        """So many calls more bring many records at once: while there is one, uncompressed batches are larger."""
        self._bulk_calls += change
        self._set_batch_size()

    def keep_own_batch_size(self) -> None:
        """A broker found a larger batch too large, perhaps for a limit that it tells nobody: fill no more such ones."""
        self._bulk_batch_size = 0
        self._set_batch_size()

    def taken_of(self, batch_size: int) -> int:
        """The bytes, of so many, that the topic takes in a batch."""
        return max(1, min(batch_size, self.max_message_bytes))

    def use_codec(self, compression: int, level: int | None) -> None:
        """Compress new batches with this codec."""
        self.compression, self.compression_level = compression, level
        self._set_batch_size()

    def queue(self, partition: int) -> PartitionQueue:
        """The queue of a partition, made when first asked for."""
        if partition >= len(self.queues):
            self.queues += [None] * (partition + 1 - len(self.queues))
        queue = self.queues[partition]
        if queue is None:
            tp = TopicPartition(self.topic, partition)
            queue = self.queues[partition] = PartitionQueue(tp, self.linger, has_priority=self.has_priority)
            queue.max_message_bytes = self.max_message_bytes
        return queue

    def queue_sizes(self, partitions: list[int]) -> list[int]:
        """The number of batches of each of these partitions that wait to be sent."""
        return [self._queue_size(partition) for partition in partitions]

    # internals

    def _set_batch_size(self) -> None:
        size = self.own_batch_size
        if self._bulk_calls and not self.compression:  # a large batch would be compressed for too long at a time
            size = max(size, self._bulk_batch_size)
        self.batch_size = self.taken_of(size)

    def _queue_size(self, partition: int) -> int:
        queue = self.queues[partition] if partition < len(self.queues) else None
        return 0 if queue is None else len(queue.batches)
