"""Reading partitions: what is where, and the records from there on. No groups: the caller assigns the partitions.

`PartitionReader` is the door. It is what the command line, the demo and the data source read with, and what a service
uses that wants a partition's records without a consumer group.
"""

from __future__ import annotations

from .config import ReaderConfig
from .offset_lookup import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetAndTimestamp
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
