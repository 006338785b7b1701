"""What a table's columns are to the kernel: buffers, and how to read a row out of them.

Owns the words between `arrow`, which knows pyarrow, and the kernel, which knows memory: layouts are Arrow's, buffers
are whatever has bytes. Nothing here reads a value. Java has no counterpart.

Rules:
- ``offset`` is where a column that is a slice of a larger one begins in the buffers; it has ``length`` rows.
- ``validity`` has a bit for each row of the buffers, 0 for null, the lowest bit first; None when there is no null.
- A column holds its buffers, and the kernel holds the columns: they live until the rows are encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

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
"""In the place of a topic's number: the row has no topic."""


class Layout(IntEnum):
    """How byte strings lie in their buffers."""

    NULLS = 0  # every row is null; there are no buffers
    SMALL = 1  # 32-bit offsets into `data`, one more than rows: binary, string
    LARGE = 2  # the same with 64 bits: large_binary, large_string
    FIXED = 3  # `width` bytes for each row, one after the other: fixed_size_binary
    VIEWS = 4  # 16 bytes for each row, short strings within, long ones in `buffers`: binary_view, string_view


class NumberColumn(NamedTuple):
    """Signed integers of 4 or 8 bytes (``width``), as the machine has them."""

    length: int
    offset: int
    validity: Any
    data: Any
    width: int


class BytesColumn(NamedTuple):
    """Byte strings; with ``indices`` (of 4 bytes), row by row the number of a string here: a dictionary."""

    layout: Layout
    length: int
    offset: int = 0
    validity: Any = None
    offsets: Any = None  # of VIEWS: the views
    data: Any = None
    width: int = 0
    buffers: Sequence[Any] = ()
    indices: NumberColumn | None = None


class HeadersColumn(NamedTuple):
    """A list of headers for each row: SMALL or LARGE ``offsets`` into ``names`` and ``values``, which go together."""

    layout: Layout
    length: int
    offset: int
    validity: Any
    offsets: Any
    names: BytesColumn
    values: BytesColumn
    entries: NumberColumn  # without data: which entries are null


class Columns(NamedTuple):
    """The columns of some rows; None for one that is not there.

    ``topics`` are numbers into a list of names. A time stamp is its number times ``multiplier``, divided by ``divisor``
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
    """Where the rows of one topic may go, as lanes: partition p is p + 1 lanes behind ``first_lane``.

    Rows without key and partition go to ``sticky_partition``; while that is -1 they are in ``first_lane`` itself, and
    whoever appends them chooses. Without partitions the rows are refused.
    """

    first_lane: int
    partition_count: int
    sticky_partition: int = -1


class ReadStrings(NamedTuple):
    """Byte strings as they were read: SMALL ``offsets`` from 0 on, ``data``; ``validity`` is None without a null."""

    validity: Any
    null_count: int
    offsets: Any
    data: Any


class ReadHeaders(NamedTuple):
    """Each row's headers as they were read, null for a row without any: 32-bit ``offsets`` into names and values."""

    validity: Any
    null_count: int
    offsets: Any
    names: ReadStrings
    values: ReadStrings


class ReadRecords(NamedTuple):
    """Columns of records as they were read; time stamps are microseconds, their types 32-bit integers."""

    row_count: int
    offsets: Any
    timestamps: Any
    timestamp_types: Any
    keys: ReadStrings
    values: ReadStrings
    headers: ReadHeaders | None
