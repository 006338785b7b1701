"""Lanes and shards: the rows of a lane keep their order, and one relay publishes a shard.

Pure. Kafka, whose order is that of a partition, has no counterpart: a lane is decided before the partition is known,
and stays when the number of partitions changes.

Rules: the same topic and key have the same lane in every process and version; two lanes may share a number, which
costs parallelism but keeps the order. With a partition named in the row the lane is that partition, for every key.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final
from zlib import crc32

__all__ = ["MAX_SHARDS", "STRIPES", "lane_of", "lock_number", "shard_of"]

MAX_SHARDS: Final = 1_024
STRIPES: Final = 4_096
"""The number of locks for the keys of a table: one transaction may hold them all, and PostgreSQL has room for 6,400 by
default.
"""
_OURS: Final = 0x616B << 44
"""Keeps our lock numbers apart from an application's, which may count up from 0."""


def lane_of(topic: str, key: bytes | None, partition: int | None) -> int:
    """The number of a record's lane, of 64 bits with sign, as in databases."""
    if partition is not None:
        name = b"p%d" % partition
    elif key is not None:
        name = b"k" + key
    else:
        name = b""
    digest = blake2b(topic.encode() + b"\0" + name, digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def shard_of(lane: int, shards: int) -> int:
    """The shard of a lane: 0 to ``shards`` - 1."""
    return lane % shards


def lock_number(table: str, lane: int) -> int:
    """The advisory lock of a lane's key in the table with this full name."""
    return _OURS | crc32(table.encode()) << 12 | lane % STRIPES
