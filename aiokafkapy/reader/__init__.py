"""Reads partitions without a consumer group: offset look-ups and records. The caller assigns the partitions.

Partitions and positions come in, records and offsets go out. The entry point is ``PartitionReader``, for the command
line, the demo, the data source, and services that need a partition's records without a consumer group. ``fetcher``
and ``fetched`` decide; ``partition_reader`` and ``offset_lookup`` wait. Kafka's counterpart is ``KafkaConsumer`` with
``assign``.
"""

from __future__ import annotations

from .config import ReaderConfig
from .offsets import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetAndTimestamp
from .partition_reader import PartitionReader, PartitionRecords

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "OffsetAndTimestamp",
    "PartitionReader",
    "PartitionRecords",
    "ReaderConfig",
]
