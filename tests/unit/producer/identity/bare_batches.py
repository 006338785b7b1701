"""Batches without bytes, and their partitions."""

from __future__ import annotations

from aiokafkapy.common import TopicPartition
from aiokafkapy.producer.identity.sequenced_batch import SequencedBatch

__all__ = ["A", "B", "Batch"]

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Batch(SequencedBatch):
    """A batch without bytes."""

    def __init__(self, topic_partition: TopicPartition = A, record_count: int = 10) -> None:
        super().__init__(record_count=record_count)
        self.topic_partition = topic_partition

    def destination(self) -> TopicPartition:
        return self.topic_partition
