"""The kernel that reads rows out of columns, in plain Python: the twin of `_arrow_kernel.pyx`, byte for byte.

Owns the way from a table's buffers into a `RecordBatchBuilder`: which lane a row goes to (murmur2 of its key, or its
partition), the order of the rows by lane, and their encoding. It knows no pyarrow, no clock and no topic's name: rows,
lanes and topics are numbers. Java has no counterpart.

Rules:
- Whatever is changed here is changed in `_arrow_kernel.pyx` too; tests/unit/record/test_arrow_rows.py compares them.
- Within a lane rows keep their order. Lane 0 is for rows that cannot be sent anywhere; they are never encoded.
- No offset, index or length of a buffer is believed before it has been checked against the bytes that are there.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import Any, Final

from ..common import Headers
from ..errors import SerializationError
from ._kernel_py import RecordBatchBuilder, murmur2
from .columns import NULL_TOPIC, BytesColumn, Columns, HeadersColumn, Layout, NumberColumn, Route

__all__ = ["PLANNED_BYTES", "PLANNED_ROWS", "SLICE_BYTES", "ArrowRows"]

PLANNED_ROWS: Final = 1024
"""The most rows of one plan: what can be done without holding an event loop for long."""
PLANNED_BYTES: Final = 256 * 1024
"""The most bytes of keys that one plan hashes, but for its last key."""
SLICE_BYTES: Final = 64 * 1024
"""The bytes of records to encode at a time, for the same reason."""
RECORD_COST: Final = 8
"""About what a record has besides its value."""

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


class ArrowRows:
    """The rows of some columns on their way into batches: `plan()` some of them, then `append_run()` until all are in.

    A plan puts its rows into the order of their lanes; ``position`` is the place in this order of the next row to be
    encoded, and the refused ones (lane 0) are skipped. ``now_ms`` is the time of rows that have none. ``encoded_bytes``
    counts what was encoded by ``append_run``, ever; ``sticky_bytes``, by topic, about what a plan has for the sticky
    partition.
    """

    __slots__ = (
        "_columns",
        "_hashes_keys",
        "_lanes",
        "_order",
        "encoded_bytes",
        "now_ms",
        "planned",
        "position",
        "refused",
        "start",
        "sticky_bytes",
    )

    def __init__(self, columns: Columns, hashes_keys: bool) -> None:
        for column in (columns.value, columns.key):
            if column is not None:
                _check_bytes(column)
        if columns.headers is not None:
            _check_headers(columns.headers)
        for numbers in (columns.partition, columns.timestamp, columns.topics):
            if numbers is not None:
                _check_numbers(numbers)
        self._columns = columns
        self._hashes_keys = hashes_keys and columns.key is not None
        self.now_ms = 0
        self.encoded_bytes = 0
        # The plan
        self.start = self.planned = self.position = self.refused = 0
        self.sticky_bytes: list[int] = []
        self._lanes: Sequence[int] = ()
        self._order: Sequence[int] = ()

    # --- planning ---

    def plan(self, start: int, stop: int, routes: Sequence[Route], most_sticky_bytes: int) -> None:
        """Choose a lane for each of the rows from ``start`` on, as many as can be done at once; ``planned`` tells how
        many.

        ``routes`` has a route for each topic's number, or one for all rows. A plan ends when a topic has got so many
        bytes for its sticky partition: the next one may have another.
        """
        columns = self._columns
        stop = min(stop, columns.row_count)
        self.sticky_bytes = [0] * len(routes)
        if self._is_uniform:
            lane = routes[0].first_lane if routes[0].partition_count > 0 else 0
            self._lanes = [lane] * max(0, stop - start)
        else:
            self._lanes = self._choose_lanes(start, min(stop, start + PLANNED_ROWS), routes, most_sticky_bytes)
        self._order = sorted(range(len(self._lanes)), key=self._lanes.__getitem__)
        self.start = start
        self.planned = len(self._lanes)
        self.position = self.refused = self._lanes.count(0)

    def refusals(self) -> tuple[array[int], array[int]]:
        """Of the refused rows, in order: the topic's number (or NULL_TOPIC), and the partition (-1 for none)."""
        topics, partitions = array("i"), array("q")
        for row in (self.row_at(position) for position in range(self.refused)):
            topics.append(self.topic_of(row))
            partitions.append(self._partition_of(row))
        return topics, partitions

    def lanes(self) -> array[int] | None:
        """The planned rows' lanes, row by row; None when they are all in one."""
        if len(set(self._lanes)) <= 1:
            return None
        most = max(self._lanes)
        return array("B" if most < 256 else "H" if most < 65536 else "i", self._lanes)

    def row_at(self, position: int) -> int:
        """The row at a place of the order."""
        return self.start + self._order[position]

    def lane_at(self, position: int) -> int:
        """The lane of the row at a place of the order."""
        return self._lanes[self._order[position]]

    def end_of_lane(self, position: int) -> int:
        """The place of the first row of another lane behind ``position``."""
        lane = self.lane_at(position)
        end = position + 1
        while end < self.planned and self.lane_at(end) == lane:
            end += 1
        return end

    # --- rows as objects, for those that cannot go the short way ---

    def record(self, row: int) -> tuple[int, bytes | None, bytes | None, Headers | None]:
        """A row as time stamp, key, value and headers. Raises SerializationError for one that is no record."""
        columns = self._columns
        timestamp_ms = self._timestamp_of(row)
        if timestamp_ms is None:
            raise SerializationError("its timestamp is out of range: expected milliseconds in 64 bits")
        key = None if columns.key is None else _bytes_of(columns.key, row, "key")
        value = _bytes_of(columns.value, row, "value")
        headers = None if columns.headers is None else _headers_of(columns.headers, row)
        return timestamp_ms, key, value, headers

    def topic_of(self, row: int) -> int:
        """The number of a row's topic, or NULL_TOPIC."""
        if self._columns.topics is None:
            return 0
        topic = _number_of(self._columns.topics, row)
        return NULL_TOPIC if topic is None else topic

    def partition_of(self, row: int) -> int | None:
        """What a row says of its partition."""
        return None if self._columns.partition is None else _number_of(self._columns.partition, row)

    # --- encoding ---

    def append_run(self, builder: RecordBatchBuilder, stop: int, most_bytes: int) -> int:
        """Encode the rows from ``position`` to ``stop`` for as long as that goes on.

        Returns 0 when it came there, or ``encoded_bytes`` to ``most_bytes``, when the builder is full, and before a row
        that is no record, of which ``record()`` says why; else the memory that it needs over the builder's allowance.
        """
        while self.position < stop and self.encoded_bytes < most_bytes:
            try:
                record = self.record(self.row_at(self.position))
            except SerializationError:
                return 0
            size = builder.try_append(*record)
            if size <= 0:
                return -size
            self.position += 1
            self.encoded_bytes += size
        return 0

    # internals

    @property
    def _is_uniform(self) -> bool:
        """True when every row of a plan is in the same lane, without a look at it."""
        columns = self._columns
        return not self._hashes_keys and columns.partition is None and columns.topics is None

    def _choose_lanes(self, start: int, stop: int, routes: Sequence[Route], most_sticky_bytes: int) -> list[int]:
        lanes: list[int] = []
        hashed = 0
        for row in range(start, stop):
            topic = self.topic_of(row)
            first_lane, partition_count, sticky_partition = routes[topic] if 0 <= topic < len(routes) else (0, 0, -1)
            partition = self.partition_of(row) if partition_count > 0 else -1
            if partition is not None:
                lanes.append(first_lane + 1 + partition if 0 <= partition < partition_count else 0)
                continue
            key = self._hashed_key_of(row)
            if key is not None:
                lanes.append(first_lane + 1 + (murmur2(key) & 0x7FFFFFFF) % partition_count)
                hashed += len(key)
                if hashed >= PLANNED_BYTES:
                    break
            else:
                lanes.append(first_lane + 1 + sticky_partition)
                self.sticky_bytes[topic] += RECORD_COST + self._value_size_of(row)
                if self.sticky_bytes[topic] >= most_sticky_bytes:
                    break
        return lanes

    def _hashed_key_of(self, row: int) -> bytes | None:
        if not self._hashes_keys or self._columns.key is None:
            return None
        try:
            return _bytes_of(self._columns.key, row, "key")
        except SerializationError:
            return None  # it is told when the row is encoded

    def _value_size_of(self, row: int) -> int:
        try:
            return len(_bytes_of(self._columns.value, row, "value") or b"")
        except SerializationError:
            return 0

    def _partition_of(self, row: int) -> int:
        partition = self.partition_of(row)
        return -1 if partition is None else partition

    def _timestamp_of(self, row: int) -> int | None:
        columns = self._columns
        number = None if columns.timestamp is None else _number_of(columns.timestamp, row)
        if number is None:
            return self.now_ms
        timestamp_ms = number * columns.multiplier // columns.divisor
        return timestamp_ms if INT64_MIN <= timestamp_ms <= INT64_MAX else None


def _check_bytes(column: BytesColumn) -> None:
    """Raise ValueError for buffers that are shorter than the column."""
    rows = column.offset + column.length
    _check_bits(column.validity, rows)
    if column.layout in (Layout.SMALL, Layout.LARGE) and column.length:
        _check_size(column.offsets, (rows + 1) * (4 if column.layout == Layout.SMALL else 8))
    elif column.layout == Layout.FIXED and column.length:
        _check_size(column.data, rows * column.width)
    elif column.layout == Layout.VIEWS and column.length:
        _check_size(column.offsets, rows * 16)
    if column.indices is not None:
        _check_numbers(column.indices)


def _check_headers(column: HeadersColumn) -> None:
    rows = column.offset + column.length
    _check_bits(column.validity, rows)
    if column.length:
        _check_size(column.offsets, (rows + 1) * (4 if column.layout == Layout.SMALL else 8))
    _check_bytes(column.names)
    _check_bytes(column.values)
    _check_bits(column.entries.validity, column.entries.offset + column.entries.length)
    if not length_of(column.names) == length_of(column.values) == column.entries.length:
        raise ValueError("a table's headers have names and values of different numbers")


def _check_numbers(column: NumberColumn) -> None:
    rows = column.offset + column.length
    _check_bits(column.validity, rows)
    if column.length:
        _check_size(column.data, rows * column.width)


def _check_bits(buffer: Any, rows: int) -> None:
    if buffer is not None:
        _check_size(buffer, (rows + 7) // 8)


def _check_size(buffer: Any, size: int) -> None:
    found = 0 if buffer is None else memoryview(buffer).nbytes
    if found < size:
        raise ValueError(f"a table's buffer has {found} bytes where its rows need {size}")


def length_of(column: BytesColumn) -> int:
    """The rows of a column: those of its indices, if it has any."""
    return column.length if column.indices is None else column.indices.length


def _is_null(validity: Any, place: int) -> bool:
    if validity is None:
        return False
    return not memoryview(validity).cast("B")[place >> 3] >> (place & 7) & 1


def _number_of(column: NumberColumn, row: int) -> int | None:
    place = column.offset + row
    if _is_null(column.validity, place):
        return None
    return int.from_bytes(_piece(column.data, place * column.width, column.width), _ORDER, signed=True)


def _bytes_of(column: BytesColumn, row: int, name: str) -> bytes | None:
    if column.indices is not None:
        index = _number_of(column.indices, row)
        if index is None:
            return None
        row = index
    if not 0 <= row < column.length:
        raise _outside(name)
    place = column.offset + row
    if column.layout == Layout.NULLS or _is_null(column.validity, place):
        return None
    if column.layout == Layout.FIXED:
        return _piece(column.data, place * column.width, column.width)
    if column.layout == Layout.VIEWS:
        return _view_of(column, place, name)
    width = 4 if column.layout == Layout.SMALL else 8
    start, stop = _ends(column.offsets, place, width)
    return _checked_piece(column.data, start, stop - start, name)


def _view_of(column: BytesColumn, place: int, name: str) -> bytes:
    view = _piece(column.offsets, place * 16, 16)
    size, index, start = (int.from_bytes(view[at : at + 4], _ORDER, signed=True) for at in (0, 8, 12))
    if 0 <= size <= 12:
        return view[4 : 4 + size]
    if not 0 <= index < len(column.buffers):
        raise _outside(name)
    return _checked_piece(column.buffers[index], start, size, name)


def _headers_of(column: HeadersColumn, row: int) -> Headers | None:
    place = column.offset + row
    if _is_null(column.validity, place):
        return None
    start, stop = _ends(column.offsets, place, 4 if column.layout == Layout.SMALL else 8)
    if not 0 <= start <= stop <= column.entries.length:
        raise SerializationError(f"its headers are {start} to {stop} of {column.entries.length}")
    headers = []
    for entry in range(start, stop):
        if _is_null(column.entries.validity, column.entries.offset + entry):
            raise SerializationError(f"header {entry - start} is null: expected a key and a value")
        name = _bytes_of(column.names, entry, "header key")
        if name is None:
            raise SerializationError(f"the key of header {entry - start} is null: expected a string")
        try:
            text = name.decode()
        except UnicodeDecodeError:
            raise SerializationError(f"the key of header {entry - start} is not UTF-8") from None
        headers.append((text, _bytes_of(column.values, entry, "header value")))
    return headers


def _ends(offsets: Any, place: int, width: int) -> tuple[int, int]:
    ends = _piece(offsets, place * width, 2 * width)
    return (
        int.from_bytes(ends[:width], _ORDER, signed=True),
        int.from_bytes(ends[width:], _ORDER, signed=True),
    )


def _checked_piece(buffer: Any, start: int, size: int, name: str) -> bytes:
    length = 0 if buffer is None else memoryview(buffer).nbytes
    if start < 0 or size < 0 or start + size > length:
        raise _outside(name)
    return _piece(buffer, start, size) if size else b""


def _outside(name: str) -> SerializationError:
    return SerializationError(f"its {name} does not lie within the buffers of its column")


def _piece(buffer: Any, start: int, size: int) -> bytes:
    return bytes(memoryview(buffer).cast("B")[start : start + size])


_ORDER: Final = sys.byteorder
