"""The kernel that reads batches into columns, in plain Python: the twin of ``record_columns.pyx``, byte for byte.

Owns the conversion of record batches into buffers with Arrow's layout. It knows no pyarrow, no connection and no topic
names. Java has no counterpart.

Rules:

- Every change is made in ``record_columns.pyx`` too; tests/unit/record/test_record_columns.py compares
  them.
- A batch is read as a whole or not at all: if its bytes are invalid, nothing of it is kept.
- The bytes are untrusted: no length and no count is used before it is checked against the remaining bytes.
"""

from __future__ import annotations

from array import array
from typing import Any, Final

from .builder import decode_records
from .columns import ReadHeaders, ReadRecords, ReadStrings
from .encoding import wrapped

__all__ = ["OFFSET_MAX", "RecordColumns"]

MOST_COLUMN_BYTES: Final = 2**31 - 1
"""The most bytes in a column of strings, by its 32-bit offsets."""
OFFSET_MAX: Final = 2**63 - 1
MICROSECONDS: Final = 1000
"""Microseconds in a millisecond."""


class RecordColumns:
    """Collects the records of many batches; ``take`` returns their columns and resets.

    ``row_count`` and ``data_bytes`` (of keys, values and headers) are the current totals.
    """

    __slots__ = (
        "_has_headers",
        "_header_names",
        "_header_starts",
        "_header_values",
        "_headerless",
        "_keys",
        "_offsets",
        "_timestamp_types",
        "_timestamps",
        "_values",
        "data_bytes",
        "row_count",
    )

    def __init__(self, with_headers: bool = False) -> None:
        self._has_headers = with_headers
        self._begin()

    def append(
        self,
        data: Any,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None = None,
        first_offset: int = 0,
        end_offset: int = OFFSET_MAX,
    ) -> int:
        """Read the ``count`` records of an uncompressed records section, which they must fill exactly, except for those
        before ``first_offset`` and those from ``end_offset`` on; returns the number of rows.

        Raises CorruptMessageError, and OverflowError if a column could exceed 2 GiB: call ``take`` first then.
        """
        self._check_room(len(data))
        rows = 0
        for offset, key, value, headers, timestamp_ms, _, _, timestamp_type in decode_records(
            data, count, base_offset, base_timestamp, append_time
        ):
            if not first_offset <= offset < end_offset:
                continue
            rows += 1
            self._offsets.append(offset)
            self._timestamps.append(wrapped(timestamp_ms * MICROSECONDS))
            self._timestamp_types.append(timestamp_type)
            self._keys.append(key)
            self._values.append(value)
            self.data_bytes += len(key or b"") + len(value or b"")
            if self._has_headers:
                self._append_headers(headers)
        self.row_count += rows
        return rows

    def take(self) -> ReadRecords:
        """The columns of all rows since the last call."""
        headers = None
        if self._has_headers:
            headers = ReadHeaders(
                self._headerless.validity(), self._headerless.null_count, self._header_starts.tobytes(),
                self._header_names.take(), self._header_values.take(),
            )  # fmt: skip
        taken = ReadRecords(
            self.row_count, self._offsets.tobytes(), self._timestamps.tobytes(), self._timestamp_types.tobytes(),
            self._keys.take(), self._values.take(), headers,
        )  # fmt: skip
        self._begin()
        return taken

    # internals

    def _begin(self) -> None:
        self.row_count = self.data_bytes = 0
        self._offsets = array("q")
        self._timestamps = array("q")
        self._timestamp_types = array("i")
        self._keys = _Strings()
        self._values = _Strings()
        # The headers of a row without any are null, as in Spark's connector.
        self._headerless = _Validity()
        self._header_starts = array("i", [0])
        self._header_names = _Strings()
        self._header_values = _Strings()

    def _check_room(self, size: int) -> None:
        """Raise OverflowError unless a section of ``size`` bytes fits. Each invalid byte of a header name becomes
        three.
        """
        strings = max(len(self._keys.data), len(self._values.data), len(self._header_values.data))
        if max(strings + size, len(self._header_names.data) + 3 * size) > MOST_COLUMN_BYTES:
            raise OverflowError(f"{size} bytes of records do not fit into columns that have {self.data_bytes} bytes")

    def _append_headers(self, headers: tuple[tuple[str, bytes | None], ...]) -> None:
        self._headerless.append(bool(headers))
        for name, value in headers:
            encoded = name.encode()
            self._header_names.append(encoded)
            self._header_values.append(value)
            self.data_bytes += len(encoded) + len(value or b"")
        self._header_starts.append(self._header_values.count)


class _Validity:
    """A validity bitmap: a bit for each row, the lowest first; 0 is null."""

    __slots__ = ("_bits", "count", "null_count")

    def __init__(self) -> None:
        self._bits = bytearray()
        self.count = 0
        self.null_count = 0

    def append(self, is_there: bool) -> None:
        if self.count % 8 == 0:
            self._bits.append(0)
        if is_there:
            self._bits[-1] |= 1 << self.count % 8
        else:
            self.null_count += 1
        self.count += 1

    def validity(self) -> bytes | None:
        return bytes(self._bits) if self.null_count else None


class _Strings(_Validity):
    """Concatenated byte strings and their offsets."""

    __slots__ = ("_starts", "data")

    def __init__(self) -> None:
        super().__init__()
        self._starts = array("i", [0])
        self.data = bytearray()

    def append(self, item: bytes | None) -> None:  # type: ignore[override]
        super().append(item is not None)
        self.data += item or b""
        self._starts.append(len(self.data))

    def take(self) -> ReadStrings:
        return ReadStrings(self.validity(), self.null_count, self._starts.tobytes(), bytes(self.data))
