from __future__ import annotations

import struct

import pytest

from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.crc import crc32c, library_crc32c


def test_it_is_the_castagnoli_polynomial() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_checksum_goes_on_from_another() -> None:
    assert crc32c(memoryview(b"6789"), crc32c(b"12345")) == crc32c(b"123456789")


def test_the_library_s_function_is_looked_up_once() -> None:
    assert library_crc32c() is library_crc32c()


@pytest.mark.parametrize("size", [*range(20), 2_030, 3_900, 4_200, 20_000])
def test_a_batch_s_checksum_is_the_library_s_whatever_its_length(size: int) -> None:
    """The compiled kernel takes the CPU's own instruction for short ones, eight bytes at a time."""
    builder = RecordBatchBuilder(30_000)
    builder.try_append(7, None, bytes(number % 251 for number in range(size)), None)
    builder.seal(0)
    builder.stamp(3, 0, 9)
    batch = b"".join(builder.buffers())
    assert struct.unpack_from(">I", batch, 17)[0] == crc32c(batch[21:])
