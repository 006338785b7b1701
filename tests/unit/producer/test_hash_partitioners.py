"""Other clients' hashes, with the vectors of their own tests."""

from __future__ import annotations

import pytest

from aiokafkapy.producer.hash_partitioners import (
    MURMUR2_NAMES,
    PARTITIONER_NAMES,
    fnv1a,
    fnv1a_reference,
    named_partitioner,
)
from aiokafkapy.producer.intake.partitioners import DefaultPartitioner, partitioner_for

from .sender_fakes import cluster_of

KEYS = (None, b"", b"23456", b"this is another string with more length to it perhaps", b"hejsan")
LIBRDKAFKA = {
    "consistent": (None, 0x0, 0xB1B451D7, 0xB0150DF7, 0xD077037E),
    "consistent_random": (None, None, 0xB1B451D7, 0xB0150DF7, 0xD077037E),
    "murmur2_random": (None, 0x106E08D9, 0x058D780F, 0x4F7703DA, 0x5EC19395),
    "fnv1a": (None, 0x7EE3623B, 0x27E6F469, 0x155E3E5F, 0x17B1E27A),
    "fnv1a_random": (None, 0x7EE3623B, 0x27E6F469, 0x155E3E5F, 0x17B1E27A),
}
"""librdkafka's tests/0048-partitioner.c, but for the keyless, which go to the sticky partition here."""


@pytest.mark.parametrize("name", LIBRDKAFKA)
@pytest.mark.parametrize("count", [1, 7, 17, 100])
def test_keys_go_where_librdkafka_sends_them(name: str, count: int) -> None:
    partitioner = partitioner_for(named_partitioner(name))
    cluster = cluster_of({"t": [1] * count})
    for key, hashed in zip(KEYS, LIBRDKAFKA[name], strict=True):
        expected = None if hashed is None else hashed % count
        assert partitioner.partition("t", key, b"v", key, b"v", cluster) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"kafka", 0x0D33C4E1), (b"giberish123456789", 0x77A58295), (b"1234", 0x023BDD03), (b"234", 0x2DEA3CD2),
        (b"34", 0x740FA83E), (b"4", 0x310CA263), (b"PreAmbleWillBeRemoved,ThePrePartThatIs", 0x65CBD69C),
        (b"reAmbleWillBeRemoved,ThePrePartThatIs", 0x6E49C79A), (b"eAmbleWillBeRemoved,ThePrePartThatIs", 0x69EED356),
        (b"AmbleWillBeRemoved,ThePrePartThatIs", 0x6ABCC023), (b"", 0x7EE3623B),
    ],
)  # fmt: skip
def test_fnv1a_is_go_s_without_its_sign(key: bytes, expected: int) -> None:
    """The vectors of librdkafka's rdfnv1a.c, which were made with Go's hash/fnv."""
    assert fnv1a(key) == expected
    # Sarama's other partitioner leaves the bit of the sign out instead: the two differ for half of the keys.
    assert fnv1a_reference(key) in (expected, (1 << 31) - expected)


def test_the_reference_leaves_out_the_bit_of_the_sign() -> None:
    assert fnv1a_reference(b"") == 0x811C9DC5 & 0x7FFFFFFF


def test_every_name_has_a_partitioner() -> None:
    for name in PARTITIONER_NAMES:
        assert isinstance(partitioner_for(named_partitioner(name)), DefaultPartitioner) is (name in MURMUR2_NAMES)
