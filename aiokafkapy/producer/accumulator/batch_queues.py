"""``BatchQueues``: every batch that is not in a request, by topic and partition.

Owns the queues of all partitions, their order and the set of those with batches, the sticky partition of each topic,
and the time at which the oldest batch expires. It knows no memory and sends nothing. Kafka's counterpart is the
``topicInfoMap`` of ``RecordAccumulator``, together with its calls of ``BuiltInPartitioner``.

Rules:

- ``by_leader`` has the queues with batches, and only those, for each leader the one drained longest ago first: a walk
  over them pays nothing for ten thousand idle partitions, and may end when a request to the leader is full.
- ``next_expiry_time`` is never later than the first expiry; it may be earlier, until ``take_expired`` looks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Final, NamedTuple

from ...common import NO_LEADER, TopicPartition
from ...errors import GaplessGuaranteeError, IllegalStateError
from .built_in_partitioner import BuiltInPartitioner
from .partition_queue import PartitionQueue, TopicInfo, TopicSettings
from .producer_batch import ProducerBatch

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster

__all__ = ["NOBODY", "BatchQueues", "Gap", "refused_behind"]

NOBODY: Final[Set[int]] = frozenset()
"""No leader's batches gather: a new batch may be the next to be ready."""

_NEVER: Final = float("inf")


class Gap(NamedTuple):
    """A place in a partition from which records are missing for good: nothing is written behind it (gapless
    guarantee).
    """

    order: int
    """The order of the batch that failed."""
    cause: BaseException


class BatchQueues:
    """The queues of one producer. Times are seconds; ``availability_timeout`` 0 leaves out no node."""

    __slots__ = (
        "_active",
        "_availability_timeout",
        "_count",
        "_is_adaptive",
        "_node_latencies",
        "_settings",
        "_settings_by_topic",
        "_topics",
        "_view",
        "cluster",
        "delivery_timeout",
        "gaps",
        "gathering",
        "has_priorities",
        "next_expiry_time",
    )

    def __init__(
        self,
        settings: TopicSettings,
        settings_by_topic: Mapping[str, TopicSettings],
        delivery_timeout: float,
        *,
        is_adaptive: bool,
        availability_timeout: float,
    ) -> None:
        self._settings = settings
        self._settings_by_topic = settings_by_topic
        self.has_priorities = any(settings.has_priority for settings in settings_by_topic.values())
        self.delivery_timeout = delivery_timeout
        self._topics: dict[str, TopicInfo] = {}
        # The queues with batches, by their leaders in ``_view``
        self._active: dict[int, dict[PartitionQueue, None]] = {}
        self._count = 0
        self._view: Cluster | None = None
        self.next_expiry_time = _NEVER
        # The leaders for which older batches gather: a new batch of theirs is ready later, so it needs no look
        self.gathering: Set[int] = NOBODY
        # Partitions that take no records, see ``RecordAccumulator.leave_gap``
        self.gaps: dict[TopicPartition, Gap] = {}
        # Sticky partitions; ``cluster`` is the view that was seen last
        self.cluster: Cluster | None = None
        self._is_adaptive = is_adaptive
        self._availability_timeout = availability_timeout
        self._node_latencies: dict[int, list[float]] = {}

    # finding

    def topic(self, topic: str) -> TopicInfo:
        """The state of a topic, made when first asked for."""
        info = self._topics.get(topic)
        if info is None:
            settings = self._settings_by_topic.get(topic, self._settings)
            info = self._topics[topic] = TopicInfo(
                topic, BuiltInPartitioner(topic, is_adaptive=self._is_adaptive), settings
            )
        return info

    def queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        """The queue of a partition, made when first asked for."""
        return self.topic(topic_partition[0]).queue(topic_partition[1])

    def by_leader(self, cluster: Cluster) -> dict[int, dict[PartitionQueue, None]]:
        """The queues with batches, by their leaders in ``cluster``; queues without a leader are under ``NO_LEADER``.

        The mapping changes with the queues.
        """
        if cluster is not self._view:
            queues = self.with_batches()
            self._view = self.cluster = cluster
            self._active = {}
            for queue in queues:
                queue.update_leader(cluster)
                info = self._topics[queue.topic_partition[0]]
                if info.sticky_queue is queue and self.is_dead_end(info, queue, cluster):
                    info.sticky_queue = None
                self._active.setdefault(queue.leader, {})[queue] = None
        return self._active

    def with_batches(self) -> list[PartitionQueue]:
        """All queues that have batches, a copy."""
        return [queue for queues in self._active.values() for queue in queues]

    def has_batches(self) -> bool:
        """True when any queue has batches."""
        return self._count > 0

    def count(self) -> int:
        """The number of queues with batches."""
        return self._count

    # sticky partitions

    def sticky_queue(self, info: TopicInfo, cluster: Cluster | None) -> PartitionQueue:
        """The partition for records without one; it changes once a batch's worth of bytes went there (KIP-794)."""
        queue = info.sticky_queue
        if queue is None or (
            info.produced_bytes >= info.batch_size
            # An open batch is filled first, unless records with keys keep it open for ever.
            and (queue.open_batch is None or info.produced_bytes >= 2 * info.batch_size)
        ):
            return self.switch_partition(info, cluster)
        return queue

    def switch_partition(self, info: TopicInfo, cluster: Cluster | None) -> PartitionQueue:
        """Choose the next sticky partition. Raises IllegalStateError before the first cluster was seen."""
        if cluster is None:
            cluster = self.cluster
        if cluster is None:
            raise IllegalStateError("a record without a partition needs a cluster to choose one from")
        is_available = self._is_node_available if self._availability_timeout > 0 else None
        queue = info.queue(info.partitioner.next_partition(cluster, info.queue_sizes, is_available))
        info.sticky_queue = queue
        info.produced_bytes = 0
        return queue

    def is_dead_end(self, info: TopicInfo, queue: PartitionQueue, cluster: Cluster | None) -> bool:
        """True when the partition is gone or has no leader, and another partition of its topic has one."""
        if cluster is None:
            cluster = self.cluster
        if cluster is None:
            return False
        leader = queue.leader if queue.cluster is cluster else queue.leader_in(cluster)
        return leader == NO_LEADER and len(cluster.available_partitions_for_topic(info.topic)) > 0

    def update_node_latency_stats(self, node_id: int, now: float, can_drain: bool) -> None:
        """Note whether a node with ready batches could be sent them."""
        if self._availability_timeout > 0:
            latency = self._node_latencies.setdefault(node_id, [now, now])
            latency[0] = now
            if can_drain:
                latency[1] = now

    # coming and going

    def add_open(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Append an open batch to its queue."""
        queue.open_batch = batch
        queue.batches.append(batch)
        self._activate(queue, batch)

    def put_back(self, batch: ProducerBatch) -> None:
        """Return a batch to its old place in the queue."""
        queue = self.queue(batch.topic_partition)
        queue.insert_in_order(batch)
        self._activate(queue, batch)

    def take_first(self, queue: PartitionQueue) -> ProducerBatch:
        """Take the oldest batch of ``queue``, which goes to the end of the round if it has more."""
        batch = queue.pop_first()
        if queue.batches:
            queues = self._active[queue.leader]
            del queues[queue]
            queues[queue] = None
        else:
            self._deactivate(queue)
        return batch

    def remove(self, batch: ProducerBatch) -> None:
        """Take ``batch`` out if it is here, wherever it stands."""
        queue = self.queue(batch.topic_partition)
        if queue.remove(batch) and not queue.batches:
            self._deactivate(queue)

    def take_behind(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Take out the batches younger than ``batch`` in its partition."""
        queued = self.queue(batch.topic_partition).batches
        behind = [follower for follower in queued if follower.order > batch.order]
        for follower in behind:
            self.remove(follower)
        return behind

    def take_expired(self, now: float) -> list[ProducerBatch]:
        """Take out the batches older than the delivery time-out, oldest first in each partition."""
        expired: list[ProducerBatch] = []
        if now < self.next_expiry_time:
            return expired
        next_expiry = _NEVER
        for queue in self.with_batches():
            while queue.batches and queue.batches[0].has_reached_delivery_timeout(self.delivery_timeout, now):
                expired.append(self.take_first(queue))
            if queue.batches:
                next_expiry = min(next_expiry, queue.batches[0].created + self.delivery_timeout)
        self.next_expiry_time = next_expiry
        return expired

    # internals

    def _activate(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        if self._view is not None:
            queue.update_leader(self._view)
        queues = self._active.get(queue.leader)
        if queues is None:
            queues = self._active[queue.leader] = {}
        known = len(queues)
        queues.setdefault(queue)
        self._count += len(queues) - known
        self.next_expiry_time = min(self.next_expiry_time, batch.created + self.delivery_timeout)

    def _deactivate(self, queue: PartitionQueue) -> None:
        queues = self._active[queue.leader]
        del queues[queue]
        self._count -= 1
        if not self._count:
            self.next_expiry_time = _NEVER

    def _is_node_available(self, node_id: int) -> bool:
        latency = self._node_latencies.get(node_id)
        return latency is None or latency[0] - latency[1] <= self._availability_timeout


def refused_behind(topic_partition: TopicPartition, cause: BaseException) -> GaplessGuaranteeError:
    """The error of a record for a partition with a gap."""
    topic, partition = topic_partition
    error = GaplessGuaranteeError(
        f"{topic_partition} takes no records since one failed (enable_gapless_guarantee); send the failed records "
        "again after "
        f"resume({topic!r}, {partition}): {cause}",
        topic=topic,
        partition=partition,
    )
    error.__cause__ = cause
    return error
