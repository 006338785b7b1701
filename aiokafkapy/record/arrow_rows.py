"""The kernel that reads rows out of columns, in plain Python: the twin of ``arrow_rows.pyx``, byte for byte.

Owns the conversion of a table's buffers into records of a ``RecordBatchBuilder``: the lane of each row (by murmur2 of
its key, or its partition), the order of the rows by lane, and their encoding. It knows no pyarrow, no clock and no
topic names: rows, lanes and topics are numbers. Java has no counterpart.

Rules:

- Every change is made in ``arrow_rows.pyx`` too; tests/unit/record/test_arrow_rows.py compares them.
- Within a lane rows keep their order. Lane 0 is for refused rows, which are never encoded.
- No offset, index or length in a buffer is trusted before it has been checked against the buffer's size.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from operator import gt
from typing import Any, Final

from ..common import Headers
from ..errors import SerializationError
from .builder import RecordBatchBuilder, murmur2
from .columns import NULL_TOPIC, BytesColumn, Columns, HeadersColumn, Layout, NumberColumn, Route

__all__ = ["PLANNED_ROWS", "SLICE_BYTES", "ArrowRows", "order_of"]

PLANNED_ROWS: Final = 8192
"""The most rows that should be planned together."""
STEP_ROWS: Final = 512
STEP_BYTES: Final = 64 * 1024
"""The most rows, and bytes of keys (the last row's excluded), in one step of a plan, to bound the time on the loop."""
SLICE_BYTES: Final = 32 * 1024
"""The most bytes of records to encode at a time, for the same reason."""
ROWS_AT_ONCE: Final = 256
"""Rows whose values are read in one step, and kept until they are encoded."""
MAX_RECORD_OVERHEAD: Final = 40
"""More bytes than a record has besides its value."""
RECORD_COST: Final = 8
"""Estimate of a record's bytes besides its value."""

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


class ArrowRows:
    """Encodes the rows of some columns into batches: ``plan()`` some rows, then ``append_run()`` until all are in.

    A plan sorts its rows by lane; ``position`` is the position in this order of the next row to be encoded, and refused
    rows (lane 0) are skipped. ``now_ms`` is the timestamp of rows that have none. ``encoded_bytes`` is the total that
    ``append_run`` has encoded; ``sticky_bytes`` is an estimate, by topic, of a plan's bytes for the sticky partition.
    """

    __slots__ = (
        "_divisor",
        "_first_read",
        "_hashes_keys",
        "_headers",
        "_key",
        "_lane_ends",
        "_lanes",
        "_longest_read",
        "_most_sticky_bytes",
        "_multiplier",
        "_order",
        "_partition",
        "_read",
        "_read_values",
        "_routes",
        "_row_count",
        "_stop",
        "_timestamp",
        "_topic",
        "_value",
        "encoded_bytes",
        "now_ms",
        "planned",
        "position",
        "refused",
        "start",
        "sticky_bytes",
    )

    def __init__(self, columns: Columns, hashes_keys: bool) -> None:
        # A reader for each column; that of a missing column returns None.
        self._value = _strings(columns.value, "value")
        # a reader of many values at once, if possible; the last values read, the row of the first, and the longest size
        self._read_values = _many_pieces(columns.value)
        self._read: list[bytes] = []
        self._first_read = self._longest_read = 0
        self._key = None if columns.key is None else _strings(columns.key, "key")
        self._headers = None if columns.headers is None else _headers(columns.headers)
        self._partition = None if columns.partition is None else _numbers(columns.partition)
        self._timestamp = None if columns.timestamp is None else _numbers(columns.timestamp)
        self._topic = None if columns.topics is None else _numbers(columns.topics)
        self._row_count = columns.row_count
        self._multiplier = columns.multiplier
        self._divisor = columns.divisor
        self._hashes_keys = hashes_keys and columns.key is not None
        self.now_ms = 0
        self.encoded_bytes = 0
        # the plan
        self.start = self.planned = self.position = self.refused = 0
        self.sticky_bytes: list[int] = []
        self._routes: Sequence[Route] = ()
        self._stop = 0
        self._most_sticky_bytes = 0
        self._lanes: list[int] = []
        self._lane_ends: dict[int, int] = {}
        self._order: Sequence[int] = ()

    # planning

    def plan(self, start: int, stop: int, routes: Sequence[Route], most_sticky_bytes: int) -> bool:
        """Choose a lane for each of the rows from ``start`` on; False if ``plan_on()`` must complete it.

        ``routes`` has a route for each topic number, or one for all rows. The plan ends early when a topic has more
        than ``most_sticky_bytes`` for its sticky partition, since the next plan may use another one. ``planned`` is the
        number of rows in the plan.
        """
        self.start = start
        self.sticky_bytes = [0] * len(routes)
        self._stop = max(start, min(stop, self._row_count))
        self._routes = routes
        self._most_sticky_bytes = most_sticky_bytes
        self._lanes = []
        if self._hashes_keys or self._partition is not None or self._topic is not None:
            return self.plan_on()
        lane = routes[0].first_lane if routes[0].partition_count > 0 else 0
        self._lanes = [lane] * (self._stop - start)
        self._end_plan()
        return True

    def plan_on(self) -> bool:
        """The next step of a plan; True when it is complete."""
        self._choose_lanes()
        if self.start + len(self._lanes) < self._stop:
            return False
        self._end_plan()
        return True

    def refusals(self) -> tuple[array[int], array[int]]:
        """The topic number (or NULL_TOPIC) and the partition (-1 for none) of each refused row, in order."""
        topics, partitions = array("i"), array("q")
        for row in (self.row_at(position) for position in range(self.refused)):
            topics.append(self.topic_of(row))
            partitions.append(self._partition_of(row))
        return topics, partitions

    def lanes(self) -> array[int] | None:
        """The lane of each planned row; None if all are in the same lane."""
        if len(set(self._lanes)) <= 1:
            return None
        most = max(self._lanes)
        return array("B" if most < 256 else "H" if most < 65536 else "i", self._lanes)

    def row_at(self, position: int) -> int:
        """The row at a position of the order."""
        return self.start + self._order[position]

    def lane_at(self, position: int) -> int:
        """The lane of the row at a position of the order."""
        return self._lanes[self._order[position]]

    def end_of_lane(self, position: int) -> int:
        """The first position after ``position`` with a row of another lane."""
        return self._lane_ends[self.lane_at(position)]

    # rows as objects, for the slow path

    def record(self, row: int) -> tuple[int, bytes | None, bytes | None, Headers | None]:
        """A row as timestamp, key, value and headers. Raises SerializationError for a row that is not a
        valid record.
        """
        timestamp_ms = self._timestamp_of(row)
        if timestamp_ms is None:
            raise SerializationError("its timestamp is out of range: expected milliseconds in 64 bits")
        key = None if self._key is None else self._key(row)
        value = self._value(row)
        return timestamp_ms, key, value, None if self._headers is None else self._headers(row)

    def topic_of(self, row: int) -> int:
        """The number of a row's topic, or NULL_TOPIC."""
        topic = 0 if self._topic is None else self._topic(row)
        return NULL_TOPIC if topic is None else topic

    def partition_of(self, row: int) -> int | None:
        """The value of a row's partition column, or None."""
        return None if self._partition is None else self._partition(row)

    # encoding

    def append_run(self, builder: RecordBatchBuilder, stop: int, most_bytes: int) -> int:
        """Encode rows from ``position`` on, at most to ``stop``.

        Returns 0 at ``stop``, when ``encoded_bytes`` has reached ``most_bytes``, when the builder is full, or before a
        row that is not a valid record (``record()`` raises the reason); else the capacity that the next row needs,
        which is more than the builder's allowance.
        """
        start, order, is_plain = self.start, self._order, self._headers is None and self._timestamp is None
        try_append, now_ms = builder.try_append, self.now_ms
        while self.position < stop and self.encoded_bytes < most_bytes:
            if is_plain and self._key is None and self._append_values(builder, stop, most_bytes):
                continue
            row = start + order[self.position]
            try:
                if is_plain:
                    size = try_append(now_ms, None if self._key is None else self._key(row), self._value(row), None)
                else:
                    size = try_append(*self.record(row))
            except SerializationError:
                return 0
            if size <= 0:
                return -size
            self.position += 1
            self.encoded_bytes += size
        return 0

    # internals

    def _append_values(self, builder: RecordBatchBuilder, stop: int, most_bytes: int) -> bool:
        """Encode the next rows that have a value only, in their own order; False if the row after them needs more care,
        for example because there is no room.
        """
        if self._read_values is None or type(self._order) is not range:
            return False
        row = self.start + self.position
        if not self._first_read <= row < self._first_read + len(self._read):
            self._first_read = row
            self._read = self._read_values(row, min(row + ROWS_AT_ONCE, self.start + self.planned))
            if not self._read:
                self._read_values = None  # from now on each value is read by itself
                return False
            self._longest_read = max(map(len, self._read))
        # as many as can all begin before ``most_bytes``
        most = (most_bytes - self.encoded_bytes) // (self._longest_read + MAX_RECORD_OVERHEAD)
        first = row - self._first_read
        last = min(first + min(stop - self.position, most), len(self._read))
        size = builder.size
        end = builder.append_run(self.now_ms, self._read, first, last)
        self.position += end - first
        self.encoded_bytes += builder.size - size
        return first < end == last

    def _choose_lanes(self) -> None:
        routes, lanes = self._routes, self._lanes
        start = self.start + len(lanes)
        hashed = 0
        for row in range(start, min(self._stop, start + STEP_ROWS)):
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
                if hashed >= STEP_BYTES:
                    break
            else:
                lanes.append(first_lane + 1 + sticky_partition)
                self.sticky_bytes[topic] += RECORD_COST + self._value_size_of(row)
                if self.sticky_bytes[topic] >= self._most_sticky_bytes:
                    self._stop = row + 1
                    break

    def _end_plan(self) -> None:
        lanes = self._lanes
        counts = Counter(lanes)
        used = sorted(counts)
        rows = range(len(lanes))
        self._order = rows if len(used) == 1 else sorted(rows, key=lanes.__getitem__)
        self._lane_ends = dict(zip(used, accumulate(counts[lane] for lane in used), strict=True))
        self.planned = len(lanes)
        self.position = self.refused = counts[0]

    def _hashed_key_of(self, row: int) -> bytes | None:
        if not self._hashes_keys or self._key is None:
            return None
        try:
            return self._key(row)
        except SerializationError:
            return None  # the error is raised when the row is encoded

    def _value_size_of(self, row: int) -> int:
        try:
            return len(self._value(row) or b"")
        except SerializationError:
            return 0

    def _partition_of(self, row: int) -> int:
        partition = self.partition_of(row)
        return -1 if partition is None else partition

    def _timestamp_of(self, row: int) -> int | None:
        number = None if self._timestamp is None else self._timestamp(row)
        if number is None:
            return self.now_ms
        timestamp_ms = number * self._multiplier // self._divisor
        return timestamp_ms if INT64_MIN <= timestamp_ms <= INT64_MAX else None


def order_of(lanes: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """The row at each position of the order by lane, and the position of each row."""
    order = sorted(range(len(lanes)), key=lanes.__getitem__)
    places = array("i", bytes(4 * len(lanes)))
    for place, row in enumerate(order):
        places[row] = place
    return array("i", order), places


# readers: functions from a row to its value; ValueError when made for buffers shorter than the column


def _numbers(column: NumberColumn) -> Callable[[int], int | None]:
    rows = column.offset + column.length
    is_null = _nulls(column.validity, column.offset, rows)
    numbers = _integers(column.data, column.width, rows if column.length else 0)
    offset = column.offset
    if is_null is None:
        return lambda row: numbers[offset + row]
    return lambda row: None if is_null(row) else numbers[offset + row]


def _strings(column: BytesColumn, name: str) -> Callable[[int], bytes | None]:
    """As ``_plain_strings``, also with indices. Readers raise SerializationError for an index out of range."""
    read = _plain_strings(column, name)
    if column.indices is None:
        return read
    index_of, length = _numbers(column.indices), column.length

    def read_indexed(row: int) -> bytes | None:
        index = index_of(row)
        if index is None:
            return None
        if not 0 <= index < length:
            raise _outside(name)
        return read(index)

    return read_indexed


def _plain_strings(column: BytesColumn, name: str) -> Callable[[int], bytes | None]:
    offset, rows = column.offset, column.offset + column.length
    is_null = _nulls(column.validity, offset, rows)
    if column.layout == Layout.NULLS or not column.length:
        return lambda row: None
    if column.layout == Layout.FIXED:
        read = _fixed(column, rows)
    elif column.layout == Layout.VIEWS:
        read = _views(column, rows, name)
    else:
        read = _pieces(column, rows, name)
    if is_null is None:
        return read
    return lambda row: None if is_null(row) else read(row)


def _fixed(column: BytesColumn, rows: int) -> Callable[[int], bytes]:
    offset, width = column.offset, column.width
    data = _checked(column.data, rows * width)
    return lambda row: data[(offset + row) * width : (offset + row + 1) * width].tobytes()


def _pieces(column: BytesColumn, rows: int, name: str) -> Callable[[int], bytes]:
    offset = column.offset
    ends = _integers(column.offsets, 4 if column.layout == Layout.SMALL else 8, rows + 1)
    data = _checked(column.data, 0)
    size = len(data)

    def read(row: int) -> bytes:
        start, stop = ends[offset + row], ends[offset + row + 1]
        if not 0 <= start <= stop <= size:
            raise _outside(name)
        return data[start:stop].tobytes()

    return read


def _many_pieces(column: BytesColumn) -> Callable[[int, int], list[bytes]] | None:
    """Reads rows from one to another in one step, none if one of them is not valid. None for a column with nulls,
    indices, or another layout.
    """
    if column.layout not in (Layout.SMALL, Layout.LARGE) or column.validity is not None or column.indices is not None:
        return None
    offset, data = column.offset, _checked(column.data, 0)
    ends = _integers(column.offsets, 4 if column.layout == Layout.SMALL else 8, 0)

    def read(start: int, stop: int) -> list[bytes]:
        found = ends[offset + start : offset + stop + 1].tolist()
        if found[0] < 0 or found[-1] > len(data) or any(map(gt, found, found[1:])):
            return []
        first = found[0]
        piece = data[first : found[-1]].tobytes()
        return [piece[begin - first : end - first] for begin, end in pairwise(found)]

    return read


def _views(column: BytesColumn, rows: int, name: str) -> Callable[[int], bytes]:
    offset = column.offset
    views = _checked(column.offsets, rows * 16)
    numbers = _integers(column.offsets, 4, rows * 4)
    buffers = [_checked(buffer, 0) for buffer in column.buffers]

    def read(row: int) -> bytes:
        place = 4 * (offset + row)
        size = numbers[place]
        if 0 <= size <= 12:
            return views[4 * place + 4 : 4 * place + 4 + size].tobytes()
        index, start = numbers[place + 2], numbers[place + 3]
        if size < 0 or start < 0 or not 0 <= index < len(buffers) or start + size > len(buffers[index]):
            raise _outside(name)
        return buffers[index][start : start + size].tobytes()

    return read


def _headers(column: HeadersColumn) -> Callable[[int], Headers | None]:
    offset, rows, entries = column.offset, column.offset + column.length, column.entries
    is_null = _nulls(column.validity, offset, rows)
    ends = _integers(column.offsets, 4 if column.layout == Layout.SMALL else 8, rows + 1 if column.length else 0)
    names, values = _strings(column.names, "header key"), _strings(column.values, "header value")
    is_entry_null = _nulls(entries.validity, entries.offset, entries.offset + entries.length)
    if not _length_of(column.names) == _length_of(column.values) == entries.length:
        raise ValueError("a table's headers have names and values of different numbers")

    def read(row: int) -> Headers | None:
        if is_null is not None and is_null(row):
            return None
        start, stop = ends[offset + row], ends[offset + row + 1]
        if not 0 <= start <= stop <= entries.length:
            raise SerializationError(f"its headers are {start} to {stop} of {entries.length}")
        found = []
        for entry in range(start, stop):
            if is_entry_null is not None and is_entry_null(entry):
                raise SerializationError(f"header {entry - start} is null: expected a key and a value")
            name = names(entry)
            if name is None:
                raise SerializationError(f"the key of header {entry - start} is null: expected a string")
            try:
                text = name.decode()
            except UnicodeDecodeError:
                raise SerializationError(f"the key of header {entry - start} is not UTF-8") from None
            found.append((text, values(entry)))
        return found

    return read


def _nulls(validity: object, offset: int, rows: int) -> Callable[[int], bool] | None:
    if validity is None:
        return None
    bits = _checked(validity, (rows + 7) // 8)
    return lambda row: not bits[(offset + row) >> 3] >> ((offset + row) & 7) & 1


def _integers(buffer: object, width: int, count: int) -> memoryview:
    data = _checked(buffer, count * width)
    return data[: len(data) // width * width].cast("i" if width == 4 else "q") if width else data


def _checked(buffer: Any, least: int) -> memoryview:
    """A buffer's bytes; raises ValueError when they are fewer than ``least``."""
    data = memoryview(b"" if buffer is None else buffer).cast("B")
    if len(data) < least:
        raise ValueError(f"a table's buffer has {len(data)} bytes where its rows need {least}")
    return data


def _outside(name: str) -> SerializationError:
    return SerializationError(f"its {name} does not lie within the buffers of its column")


def _length_of(column: BytesColumn) -> int:
    """The number of rows of a column, or of its indices if it has any."""
    return column.length if column.indices is None else column.indices.length
