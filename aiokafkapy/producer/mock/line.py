"""``MockLine``: the records of a ``MockProducer`` that cannot be accepted yet, in call order.

Owns their places, and the set of topics and partitions. A record waits only for an async serializer, its own or that
of an earlier record of its topic: there is always room, and a topic that the cluster lacks will not come, so that its
records are refused at once, with the error that the producer has after ``max_block_ms``. The producer's counterpart is
``Admission``; Java has none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from weakref import WeakKeyDictionary

from ...cluster.cluster import Cluster, TopicMetadata
from ...common import Node, PartitionInfo, TopicPartition
from ...errors import DeliveryTimeoutError, KafkaError, MetadataTimeoutError
from ..deliveries.delivery import Delivery
from ..intake.partitioners import Partitioner, choose_partition
from ..intake.pending_record import PendingRecord
from ..intake.waiting_errors import metadata_not_ready_error, serializer_timeout_error
from ..records import ProducerRecord

__all__ = ["MockLine", "MockTopics"]

Append = Callable[[PendingRecord, ProducerRecord, TopicPartition], Delivery]


class MockTopics:
    """The topics and their partitions: of a cluster, of a mapping to numbers, or, with None, any topic with one
    partition.
    """

    def __init__(self, cluster: Cluster | Mapping[str, int] | None) -> None:
        self._makes_any = cluster is None
        self.cluster = cluster if isinstance(cluster, Cluster) else _cluster(cluster or {})

    def look(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The topic's partitions; empty when there is no such topic."""
        found = self.cluster.partitions_for_topic(topic)
        if not found and self._makes_any:
            counts = {name: len(known.partitions) for name, known in self.cluster.topics.items()}
            self.cluster = _cluster({**counts, topic: 1})
            found = self.cluster.partitions_for_topic(topic)
        return found

    def missing(self, topic: str) -> MetadataTimeoutError:
        """The error of a topic that does not exist."""
        return MetadataTimeoutError(f"topic {topic!r}: the cluster of the MockProducer has no such topic", topic=topic)


class MockLine:
    """The line. ``append`` accepts a record for good."""

    def __init__(self, topics: MockTopics, partitioner: Partitioner, max_block: float, append: Append) -> None:
        self._topics = topics
        self._partitioner = partitioner
        self._max_block = max_block
        self._append = append
        self._waiting: OrderedDict[PendingRecord, None] = OrderedDict()
        self.given: WeakKeyDictionary[PendingRecord, ProducerRecord] = WeakKeyDictionary()
        """The records as they were called in."""
        self.on_refusal: Callable[[KafkaError], object] = lambda _: None

    @property
    def waiting(self) -> int:
        """The number of waiting records."""
        return len(self._waiting)

    def snapshot(self) -> list[PendingRecord]:
        """The records that wait now."""
        return list(self._waiting)

    def append_now(self, record: PendingRecord) -> Delivery | None:
        """Accept a record that has no place yet; None when it has to wait, or will be refused. Raises a partitioner's
        error, and RecordTooLargeError.
        """
        behind = any(each.topic == record.topic for each in self._waiting)
        return None if behind or not record.is_serialized or self._missing(record) else self._accepted(record)

    # as the record's own line

    def enter(self, record: PendingRecord, now: float) -> None:
        """The record takes its place, or is refused."""
        record.deadline = min(now + self._max_block, record.own_deadline)
        self._waiting[record] = None
        self._pump(record.topic)

    def append_at_once(self, record: PendingRecord) -> None:
        """Never: nothing is dropped for want of room."""
        return

    def why_not_at_once(self, record: PendingRecord) -> KafkaError:
        """The condition that a record would have waited for, had it been allowed to."""
        return metadata_not_ready_error(record.topic)

    def proceed(self, record: PendingRecord, now: float) -> None:
        """The record is serialized."""
        record.is_serialized = True
        self._pump(record.topic)

    def refuse(self, record: PendingRecord, error: BaseException) -> None:
        """The record cannot be sent."""
        record.refuse(error)
        self._leave(record)

    def expire(self, record: PendingRecord) -> None:
        """The time of the record is over."""
        topic = record.topic
        error: KafkaError
        if record.deadline == record.own_deadline:
            error = DeliveryTimeoutError(f"topic {topic!r}: the record's delivery_timeout_ms is over", topic=topic)
        else:
            error = serializer_timeout_error(topic, f"max_block_ms={round(self._max_block * 1000)}")
        self.on_refusal(error)
        self.refuse(record, error)

    def on_cancelled(self, record: PendingRecord) -> None:
        """The record was taken back."""
        self._leave(record)

    # internals

    def _leave(self, record: PendingRecord) -> None:
        if record in self._waiting:
            del self._waiting[record]
            self._pump(record.topic)

    def _pump(self, topic: str) -> None:
        """Accept records from the head of the topic's line, as many as can be."""
        for record in [each for each in self._waiting if each.topic == topic]:
            if not record.is_serialized:
                return
            if record not in self._waiting:
                continue
            del self._waiting[record]
            try:
                error: Exception | None = self._missing(record)
                if error is None:
                    record.accept(self._accepted(record))
                    continue
            except Exception as failure:  # the error is this record's alone; the next goes on
                error = failure
            if isinstance(error, KafkaError):
                self.on_refusal(error)
            record.refuse(error)

    def _accepted(self, record: PendingRecord) -> Delivery:
        topic, partition = record.topic, record.partition
        if partition is None:
            partition = choose_partition(
                self._partitioner, topic, record.key, record.value, *record.original, self._topics.cluster
            )
            if partition < 0:  # the sticky one: as in Java's mock, always the first
                partition = self._topics.look(topic)[0].partition
            record.partition = partition
        return self._append(record, self.given.pop(record), TopicPartition(topic, partition))

    def _missing(self, record: PendingRecord) -> KafkaError | None:
        topic, partition = record.topic, record.partition
        count = len(self._topics.look(topic))
        if not count:
            return self._topics.missing(topic)
        if partition is not None and partition >= count:
            return MetadataTimeoutError(
                f"{topic}-{partition}: no such partition: in the MockProducer's cluster the topic has partitions 0 to "
                f"{count - 1}",
                topic=topic,
                partition=partition,
            )
        return None


def _cluster(counts: Mapping[str, int]) -> Cluster:
    for topic, count in counts.items():
        if count < 1:
            raise ValueError(f"cluster: topic {topic!r} has {count} partitions: write 1 or more")
    topics = {
        topic: TopicMetadata(topic, [PartitionInfo(topic, number, 0, 0, (0,), (0,)) for number in range(count)])
        for topic, count in counts.items()
    }
    return Cluster([Node(0, "localhost", 9092)], topics, cluster_id="mock", controller_id=0)
