"""Converts consumed records to pyarrow record batches with the columns of Spark's Kafka connector.

Owns the schema and the zero-copy conversion from the kernel's buffers. It knows no batches and no connection. Java has
no counterpart.

Rules:

- Names and types are exactly those of ``spark-sql-kafka-0-10``, so that jobs see no difference.
- pyarrow is imported by the first call.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from .arrow import pyarrow_for
from .columns import ReadHeaders, ReadRecords, ReadStrings

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import ReadableBuffer

__all__ = ["record_batch", "schema"]


@cache
def schema(*, with_headers: bool = False) -> pa.Schema:
    """The columns: key, value, topic, partition, offset, timestamp, timestampType and, if asked for, headers.

    Timestamps are microseconds in UTC; their type is 0 for create time, 1 for log append time. Headers are null for a
    record without any.
    """
    arrow = _pyarrow()
    fields = [
        arrow.field("key", arrow.binary()),
        arrow.field("value", arrow.binary()),
        arrow.field("topic", arrow.string()),
        arrow.field("partition", arrow.int32()),
        arrow.field("offset", arrow.int64()),
        arrow.field("timestamp", arrow.timestamp("us", tz="UTC")),
        arrow.field("timestampType", arrow.int32()),
    ]
    if with_headers:
        fields.append(arrow.field("headers", _headers_type()))
    return arrow.schema(fields)


def record_batch(read: ReadRecords, topic: str, partition: int) -> pa.RecordBatch:
    """The records of one partition; it has headers when they were read."""
    arrow = _pyarrow()
    count = read.row_count
    arrays = [
        _strings(read.keys, arrow.binary(), count),
        _strings(read.values, arrow.binary(), count),
        arrow.repeat(arrow.scalar(topic, arrow.string()), count),
        arrow.repeat(arrow.scalar(partition, arrow.int32()), count),
        _numbers(read.offsets, arrow.int64(), count),
        _numbers(read.timestamps, arrow.timestamp("us", tz="UTC"), count),
        _numbers(read.timestamp_types, arrow.int32(), count),
    ]
    if read.headers is not None:
        arrays.append(_headers(read.headers, count))
    return arrow.RecordBatch.from_arrays(arrays, schema=schema(with_headers=read.headers is not None))


# internals


def _pyarrow() -> ModuleType:
    return pyarrow_for("reading into Arrow")


@cache
def _headers_type() -> pa.DataType:
    arrow = _pyarrow()
    return arrow.list_(arrow.struct([arrow.field("key", arrow.string()), arrow.field("value", arrow.binary())]))


def _buffer(memory: ReadableBuffer | None) -> pa.Buffer | None:
    return None if memory is None else _pyarrow().py_buffer(memory)


def _numbers(memory: ReadableBuffer, kind: pa.DataType, count: int) -> pa.Array:
    return _pyarrow().Array.from_buffers(kind, count, [None, _buffer(memory)], 0)


def _strings(read: ReadStrings, kind: pa.DataType, count: int) -> pa.Array:
    buffers = [_buffer(read.validity), _buffer(read.offsets), _buffer(read.data)]
    return _pyarrow().Array.from_buffers(kind, count, buffers, read.null_count)


def _headers(read: ReadHeaders, count: int) -> pa.Array:
    arrow = _pyarrow()
    kind = _headers_type()
    starts = _numbers(read.offsets, arrow.int32(), count + 1)
    entries = starts[count].as_py()
    names = _strings(read.names, arrow.string(), entries)
    values = _strings(read.values, arrow.binary(), entries)
    pairs = arrow.StructArray.from_arrays([names, values], fields=list(kind.value_type))
    buffers = [_buffer(read.validity), _buffer(read.offsets)]
    return arrow.ListArray.from_buffers(kind, count, buffers, read.null_count, children=[pairs])
