"""``BuiltInPartitioner``: chooses the partition for records without a key, for a while each (KIP-480, KIP-794).

Owns one topic's sticky partition and the moment to leave it. It knows no batches: queue lengths are asked for through a
function, all of them at once. Kafka's counterpart is ``BuiltInPartitioner``.

Rules:

- Records without a key stay with one partition until it got a batch's worth of bytes, and then move on, so that batches
  are full. When all queues are equally long the partitions come in a shuffled order, each once a round: uniform by
  bytes to within one batch. Otherwise the choice is random and weighted as Java weighs it: the longer a queue, the
  rarer. Partitions without a leader, or whose broker was not ready for ``partitioner_availability_timeout_ms``, are
  passed over.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from ...errors import UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster
    from ...common import PartitionInfo

__all__ = ["UNKNOWN_PARTITION", "BuiltInPartitioner"]

UNKNOWN_PARTITION: Final = -1
"""Tells ``RecordAccumulator.append`` to use the sticky partition of that moment."""

PARTITIONS_PER_LOOK: Final = 64
"""Queue lengths are read again after one switch for each 64 partitions, so that a switch is cheap with thousands."""


class BuiltInPartitioner:
    """Chooses one topic's next sticky partition. ``is_adaptive`` is ``partitioner_adaptive_partitioning_enable``."""

    __slots__ = (
        "_candidates",
        "_cumulative",
        "_looked_for",
        "_partition_ids",
        "_round",
        "_weighed",
        "_weighed_ids",
        "is_adaptive",
        "topic",
    )

    def __init__(self, topic: str, *, is_adaptive: bool = True) -> None:
        self.topic = topic
        self.is_adaptive = is_adaptive
        # Partitions still to come in this round, of those the metadata had
        self._candidates: Sequence[PartitionInfo] = ()
        self._round: list[int] = []
        # Java's PartitionLoadStats: None while all are alike
        self._cumulative: list[int] | None = None
        self._partition_ids: list[int] = []
        self._looked_for = 0
        # The numbers of the partitions that were weighed last
        self._weighed: Sequence[PartitionInfo] = ()
        self._weighed_ids: list[int] = []

    def next_partition(
        self,
        cluster: Cluster,
        queue_sizes: Callable[[list[int]], list[int]],
        is_available: Callable[[int], bool] | None = None,
    ) -> int:
        """The partition to stick to next. ``queue_sizes`` of these partitions; ``is_available`` by node id.

        Raises UnknownTopicOrPartitionError if the cluster knows no partition of the topic.
        """
        candidates = cluster.available_partitions_for_topic(self.topic)
        if not candidates:
            everything = cluster.partitions_for_topic(self.topic)
            if not everything:
                raise UnknownTopicOrPartitionError(
                    f"topic {self.topic!r} has no partitions in the metadata", topic=self.topic
                )
            return self._next_of_round(everything)
        if self.is_adaptive and len(candidates) > 1:
            self._looked_for -= 1
            if self._looked_for < 0 or candidates is not self._weighed:
                self._looked_for = len(candidates) // PARTITIONS_PER_LOOK
                self.update_partition_load_stats(candidates, queue_sizes, is_available)
            if self._cumulative is not None:
                return self._weighted(self._cumulative)
        return self._next_of_round(candidates)

    def update_partition_load_stats(
        self,
        candidates: Sequence[PartitionInfo],
        queue_sizes: Callable[[list[int]], list[int]],
        is_available: Callable[[int], bool] | None = None,
    ) -> None:
        """Weigh each partition with the longest queue's length plus one, less its own queue's, as Java does."""
        if candidates is not self._weighed:
            self._weighed, self._weighed_ids = candidates, [info.partition for info in candidates]
        ids = self._weighed_ids
        if is_available is not None:
            ids = [info.partition for info in candidates if is_available(info.leader)]
        sizes = queue_sizes(ids)
        if not sizes or (len(ids) == len(candidates) and sizes.count(sizes[0]) == len(sizes)):
            self._cumulative = None
            return
        most = max(sizes) + 1
        self._cumulative, self._partition_ids = list(accumulate([most - size for size in sizes])), ids

    # internals

    def _weighted(self, cumulative: Sequence[int]) -> int:
        index = bisect_right(cumulative, int(random.random() * cumulative[-1]))
        return self._partition_ids[index]

    def _next_of_round(self, candidates: Sequence[PartitionInfo]) -> int:
        if candidates is not self._candidates:
            # Other metadata: partitions without a leader are left out, new ones come with the next round.
            self._candidates = candidates
            numbers = {info.partition for info in candidates}
            self._round = [partition for partition in self._round if partition in numbers]
        if not self._round:
            self._round = [info.partition for info in candidates]
            random.shuffle(self._round)
        return self._round.pop()
