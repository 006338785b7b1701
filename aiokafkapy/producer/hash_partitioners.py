"""Partitioners that find a key's partition as clients of other ecosystems do, by their names there.

Owns the hashes besides murmur2: CRC-32, librdkafka's own default, and FNV-1a, that of Sarama. It knows no batches.
Kafka has no counterpart; librdkafka's are in ``rdkafka_msg.c``, Sarama's in ``partitioner.go``.

Rules: a record with a key goes where that client sends it, bit for bit. A record without a key goes to the sticky
partition; those clients choose a random one, or hash an empty key.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..cluster.cluster import Cluster

__all__ = ["MURMUR2_NAMES", "PARTITIONER_NAMES", "ROUND_ROBIN", "HashPartitioner", "named_partitioner"]

MURMUR2_NAMES: Final = ("murmur2", "murmur2_random")
"""Librdkafka's names for Java's hash, which is the default here."""
ROUND_ROBIN: Final = "round_robin"
"""The name of Java's RoundRobinPartitioner, which hashes nothing."""

_PRIME: Final = 0x01000193
_OFFSET: Final = 0x811C9DC5
_SIGN: Final = 0x80000000


class HashPartitioner:
    """The key's hash modulo the number of partitions. With ``hashes_empty`` an empty key is hashed; otherwise it counts
    as no key.
    """

    __slots__ = ("_hash", "_hashes_empty")

    def __init__(self, hash_of: Callable[[Any], int], *, hashes_empty: bool = True) -> None:
        self._hash = hash_of
        self._hashes_empty = hashes_empty

    def partition(
        self, topic: str, key_bytes: object, value_bytes: object, key: object, value: object, cluster: Cluster
    ) -> int | None:
        """The key's partition; None without a key."""
        if key_bytes is None or not (key_bytes or self._hashes_empty):
            return None
        return self._hash(key_bytes) % cluster.partition_count(topic)


def fnv1a(key: object) -> int:
    """FNV-1a as a signed number without its sign, as Sarama's NewHashPartitioner and librdkafka's ``fnv1a`` have it."""
    hashed = _fnv1a(key)
    return (1 << 32) - hashed if hashed & _SIGN else hashed


def fnv1a_reference(key: object) -> int:
    """FNV-1a without the bit of its sign, as Sarama's NewReferenceHashPartitioner has it."""
    return _fnv1a(key) & (_SIGN - 1)


def _fnv1a(key: Any) -> int:
    hashed = _OFFSET
    for byte in bytes(key):
        hashed = (hashed ^ byte) * _PRIME & 0xFFFFFFFF
    return hashed


_PARTITIONERS: Final[Mapping[str, HashPartitioner]] = {
    "consistent": HashPartitioner(zlib.crc32),
    "consistent_random": HashPartitioner(zlib.crc32, hashes_empty=False),
    "fnv1a": HashPartitioner(fnv1a),
    "fnv1a_random": HashPartitioner(fnv1a),
    "fnv1a_reference": HashPartitioner(fnv1a_reference),
}
PARTITIONER_NAMES: Final = (*MURMUR2_NAMES, *_PARTITIONERS)
"""All hashes that may be written as the option ``partitioner``."""


def named_partitioner(name: str) -> HashPartitioner | None:
    """The partitioner of one of these names; None stands for the default, murmur2."""
    return _PARTITIONERS.get(name)
