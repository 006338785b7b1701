"""aiokafkapy.record.murmur2: keys go where Java sends them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from aiokafkapy.record.murmur2 import murmur2, partition_for_key

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "murmur2.hex"
LINES = [line.split() for line in GOLDEN.read_text().splitlines()]
VECTORS = [
    (b"" if key == "-" else bytes.fromhex(key), int(hashed), [int(number) for number in partitions])
    for key, hashed, *partitions in LINES
]


def test_keys_hash_as_in_java(kernel: ModuleType) -> None:
    assert len(VECTORS) == 64
    for key, hashed, _ in VECTORS:
        assert kernel.murmur2(key) == murmur2(key) == hashed


def test_keys_go_to_javas_partitions() -> None:
    for key, _, partitions in VECTORS:
        assert [partition_for_key(key, count) for count in (1, 6, 1000)] == partitions


def test_any_buffer_hashes_as_its_bytes(kernel: ModuleType) -> None:
    for key, hashed, _ in VECTORS:
        assert kernel.murmur2(bytearray(key)) == kernel.murmur2(memoryview(key)) == hashed
        spread = memoryview(b"".join(bytes([byte, 0]) for byte in key))[::2]
        assert kernel.murmur2(spread) == hashed


def test_text_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(TypeError):
        kernel.murmur2("text")
