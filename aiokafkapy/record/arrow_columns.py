"""Converts consumed records to pyarrow record batches with the columns of Spark's Kafka connector.

Owns the schema and the zero-copy conversion from the kernel's buffers. It knows no batches and no connection. Java has
no counterpart.

Rules:

- Names and types are exactly those of ``spark-sql-kafka-0-10``, so that jobs see no difference.
- pyarrow is imported by the first call.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .arrow import pyarrow_for
from .columns import ReadHeaders, ReadRecords, ReadStrings

__all__ = ["record_batch", "schema"]


@cache
def schema(with_headers: bool = False) -> Any:
    """The ``pyarrow.Schema``: key, value, topic, partition, offset, timestamp, timestampType and, if asked for,
    headers.

    Time stamps are microseconds in UTC; their type is 0 for create time, 1 for log append time. Headers are null for a
    record without any.
    """
    pa = _pyarrow()
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if with_headers:
        fields.append(pa.field("headers", _headers_type()))
    return pa.schema(fields)


def record_batch(read: ReadRecords, topic: str, partition: int) -> Any:
    """The ``pyarrow.RecordBatch`` of records of one partition; it has headers when they were read."""
    pa = _pyarrow()
    count = read.row_count
    arrays = [
        _strings(read.keys, pa.binary(), count),
        _strings(read.values, pa.binary(), count),
        pa.repeat(pa.scalar(topic, pa.string()), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        _numbers(read.offsets, pa.int64(), count),
        _numbers(read.timestamps, pa.timestamp("us", tz="UTC"), count),
        _numbers(read.timestamp_types, pa.int32(), count),
    ]
    if read.headers is not None:
        arrays.append(_headers(read.headers, count))
    return pa.RecordBatch.from_arrays(arrays, schema=schema(read.headers is not None))


# internals


def _pyarrow() -> Any:
    return pyarrow_for("reading into Arrow")


@cache
def _headers_type() -> Any:
    pa = _pyarrow()
    return pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def _buffer(memory: object) -> Any:
    return None if memory is None else _pyarrow().py_buffer(memory)


def _numbers(memory: object, kind: object, count: int) -> Any:
    return _pyarrow().Array.from_buffers(kind, count, [None, _buffer(memory)], 0)


def _strings(read: ReadStrings, kind: object, count: int) -> Any:
    buffers = [_buffer(read.validity), _buffer(read.offsets), _buffer(read.data)]
    return _pyarrow().Array.from_buffers(kind, count, buffers, read.null_count)


def _headers(read: ReadHeaders, count: int) -> Any:
    pa = _pyarrow()
    kind = _headers_type()
    starts = _numbers(read.offsets, pa.int32(), count + 1)
    entries = starts[count].as_py()
    names = _strings(read.names, pa.string(), entries)
    values = _strings(read.values, pa.binary(), entries)
    pairs = pa.StructArray.from_arrays([names, values], fields=list(kind.value_type))
    buffers = [_buffer(read.validity), _buffer(read.offsets)]
    return pa.ListArray.from_buffers(kind, count, buffers, read.null_count, children=[pairs])
