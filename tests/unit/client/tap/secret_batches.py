"""A batch of records with a secret in it."""

from __future__ import annotations

from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression, compress

__all__ = ["SECRET", "batch"]

SECRET = b"a secret payload"


def batch(codec: Compression = Compression.NONE, value: bytes = SECRET) -> bytes:
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(1_700_000_000_000, b"a key", value, [("a header", b"its value"), ("none", None)])
    builder.try_append(1_700_000_000_005, None, None, None)
    builder.seal(codec, compress(codec, builder.records_view()) if codec else None)
    builder.stamp(5, 1, 10)
    return b"".join(builder.buffers())
