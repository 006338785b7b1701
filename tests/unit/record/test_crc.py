from __future__ import annotations

from aiokafkapy.record.crc import crc32c, library_crc32c


def test_it_is_the_castagnoli_polynomial() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_checksum_goes_on_from_another() -> None:
    assert crc32c(memoryview(b"6789"), crc32c(b"12345")) == crc32c(b"123456789")


def test_the_library_s_function_is_looked_up_once() -> None:
    assert library_crc32c() is library_crc32c()
