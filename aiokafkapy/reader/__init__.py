"""Reads partitions without a consumer group: offset look-ups and records. The caller assigns the partitions.

The entry point is ``PartitionReader``, which the command line, the demo and the data source use, and services that need
a partition's records without a consumer group.
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
