"""The partition of a keyed record: Kafka's murmur2 hash of the key, modulo the number of partitions.

Must agree with Java exactly, or records of the same key from different clients would go to different partitions.
Kafka's counterparts: ``Utils.murmur2``, ``Utils.toPositive``, ``BuiltInPartitioner.partitionForKey``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .builder import murmur2

if TYPE_CHECKING:
    from ..common import Buffer

__all__ = ["murmur2", "partition_for_key"]


def partition_for_key(key: Buffer, partitions: int) -> int:
    """The partition, from 0 to ``partitions`` - 1, that Java's default partitioner gives this key.

    ``partitions`` counts all partitions of the topic, also those without a leader; it must be positive.
    """
    # The sign bit is masked, not negated: as Java's toPositive.
    return (murmur2(key) & 0x7FFFFFFF) % partitions
