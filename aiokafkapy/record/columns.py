"""A table's columns as the kernel reads them: buffers and their layout.

Owns the types between ``arrow``, which knows pyarrow, and the kernel, which knows memory: layouts are Arrow's, buffers
are any objects with the buffer protocol. Nothing here reads a value. Java has no counterpart.

Rules:

- A column is a slice of its buffers: ``length`` rows from ``offset`` on.
- ``validity`` has a bit for each row of the buffers, 0 for null, the lowest bit first; None if there are no nulls.
- A column holds its buffers, and the kernel holds the columns: they live until the rows are encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "NULL_TOPIC",
    "BytesColumn",
    "Columns",
    "HeadersColumn",
    "Layout",
    "NumberColumn",
    "ReadHeaders",
    "ReadRecords",
    "ReadStrings",
    "Route",
]

NULL_TOPIC = -1
"""The topic number of a row without a topic."""


class Layout(IntEnum):
    """The memory layouts of byte strings."""

    NULLS = 0  # every row is null; there are no buffers
    SMALL = 1  # 32-bit offsets into ``data``, one more than rows: binary, string
    LARGE = 2  # the same with 64 bits: large_binary, large_string
    FIXED = 3  # ``width`` bytes for each row, one after the other: fixed_size_binary
    VIEWS = 4  # 16 bytes for each row, short strings within, long ones in ``buffers``: binary_view, string_view


class NumberColumn(NamedTuple):
    """Signed integers of 4 or 8 bytes (``width``), in native byte order."""

    length: int
    offset: int
    validity: ReadableBuffer | None
    data: ReadableBuffer | None
    width: int


class BytesColumn(NamedTuple):
    """Byte strings. With ``indices`` (of 4 bytes) these are a dictionary's values, and each row is an index
    into them.
    """

    layout: Layout
    length: int
    offset: int = 0
    validity: ReadableBuffer | None = None
    offsets: ReadableBuffer | None = None  # the views of a column of VIEWS
    data: ReadableBuffer | None = None
    width: int = 0
    buffers: Sequence[ReadableBuffer] = ()
    indices: NumberColumn | None = None


class HeadersColumn(NamedTuple):
    """A list of headers for each row: SMALL or LARGE ``offsets`` into ``names`` and ``values``, in pairs."""

    layout: Layout
    length: int
    offset: int
    validity: ReadableBuffer | None
    offsets: ReadableBuffer
    names: BytesColumn
    values: BytesColumn
    entries: NumberColumn  # without data: it only says which entries are null


class Columns(NamedTuple):
    """The columns of some rows; None for a missing column.

    ``topics`` are numbers into a list of names. A timestamp is its number times ``multiplier``, divided by ``divisor``
    and rounded down, in milliseconds.
    """

    row_count: int
    value: BytesColumn
    key: BytesColumn | None = None
    headers: HeadersColumn | None = None
    partition: NumberColumn | None = None
    timestamp: NumberColumn | None = None
    topics: NumberColumn | None = None
    multiplier: int = 1
    divisor: int = 1


class Route(NamedTuple):
    """The lanes of one topic: that of partition p is ``first_lane`` + p + 1.

    Rows without key and partition go to ``sticky_partition``; while that is -1 they go to ``first_lane`` itself, and
    their partition is chosen when they are appended. Rows of a topic without partitions are refused.
    """

    first_lane: int
    partition_count: int
    sticky_partition: int = -1


class ReadStrings(NamedTuple):
    """Byte strings of consumed records: SMALL ``offsets`` from 0 on, and ``data``; no nulls if ``validity`` is None."""

    validity: ReadableBuffer | None
    null_count: int
    offsets: ReadableBuffer
    data: ReadableBuffer


class ReadHeaders(NamedTuple):
    """Headers of consumed records, null for a record without any: 32-bit ``offsets`` into names and values."""

    validity: ReadableBuffer | None
    null_count: int
    offsets: ReadableBuffer
    names: ReadStrings
    values: ReadStrings


class ReadRecords(NamedTuple):
    """Columns of consumed records; timestamps are microseconds, their types 32-bit integers."""

    row_count: int
    offsets: ReadableBuffer
    timestamps: ReadableBuffer
    timestamp_types: ReadableBuffer
    keys: ReadStrings
    values: ReadStrings
    headers: ReadHeaders | None
