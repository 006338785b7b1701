"""Records that can, and that cannot, be within their topic's limit."""

from __future__ import annotations

import os
from typing import Any

import pytest

from aiokafkapy.producer.accumulator.size_errors import over_limit_error
from aiokafkapy.record.builder import RecordBatchBuilder, record_size_upper_bound
from aiokafkapy.record.compression import Compression, compress

from ..accumulator_harness import Waiter

RECORDS: list[dict[str, Any]] = [
    {"value": b"x" * 5_000},
    {"value": b"x" * 63, "key": b"k" * 70},
    {"value": None, "key": None},
    {"value": b"", "headers": [("", None), ("name", b"content"), ("n", b"")]},
    {"value": b"0" * 300_000, "timestamp_ms": 2**62},
]


def batch_of(record: Waiter) -> RecordBatchBuilder:
    builder = RecordBatchBuilder(1)
    builder.try_append(record.timestamp_ms, record.key, record.value, record.headers)
    return builder


def error_of(record: Waiter, limit: int, codec: int = 0) -> Any:
    most = record_size_upper_bound(record.key, record.value, record.headers)
    return over_limit_error(record, most, codec, limit)


@pytest.mark.parametrize("fields", RECORDS)
def test_without_compression_the_limit_is_exact_to_the_byte(fields: dict[str, Any]) -> None:
    record = Waiter(**({"partition": 3} | fields))
    size = batch_of(record).size
    assert error_of(record, size) is None
    error = error_of(record, size - 1)
    assert (error.size, error.limit, error.topic, error.partition) == (size, size - 1, "t", 3)
    assert f"has {size} bytes in a batch of its own" in str(error)
    assert str(error).endswith(f"max.message.bytes of the topic, {size - 1}")


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
@pytest.mark.parametrize("fields", [*RECORDS, {"value": os.urandom(4_000)}])
def test_a_record_that_a_codec_makes_fit_is_never_refused(codec: Compression, fields: dict[str, Any]) -> None:
    record = Waiter(**fields)
    builder = batch_of(record)
    compressed = len(compress(codec, builder.records_view()))
    assert error_of(record, 61 + min(compressed, builder.records_size), codec) is None


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_a_record_that_no_codec_can_make_fit_is_over_the_limit(codec: Compression) -> None:
    error = error_of(Waiter(bytes(10_000_000), partition=None), 100, codec)
    assert error.size > error.limit == 100
    assert error.partition is None
    assert "at least, compressed," in str(error)
