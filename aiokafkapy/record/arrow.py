"""Checks the tables given to ``send_arrow`` and converts them to the form of ``columns``.

Owns the knowledge of pyarrow: the types that a column may have, the place of its buffers, and the reading of a table
one record batch at a time. Of Kafka it knows only the names of a record's parts. Java has no counterpart; the columns
are those of Spark's Kafka sink.

Rules:

- A table's columns and their types are checked before the first row is read.
- Common types are read from their buffers without a copy; rare ones are cast, a window of rows at a time.
- Nothing of a batch is kept except its reader's results. pyarrow is imported with the first table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ..errors import SerializationError
from .columns import BytesColumn, Columns, HeadersColumn, Layout, NumberColumn

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ArrowArray",
    "ArrowStream",
    "BatchReader",
    "ColumnNames",
    "RecordTable",
    "TableSchema",
    "open_table",
    "pyarrow_for",
]


class ArrowStream(Protocol):
    """A table, as polars, pandas, DuckDB and others have it (the Arrow PyCapsule interface)."""

    def __arrow_c_stream__(self) -> object: ...


class ArrowArray(Protocol):
    """A batch of rows, by the same interface."""

    def __arrow_c_array__(self) -> object: ...


class ColumnNames(NamedTuple):
    """The column of each part of a record; None for a part that is not read."""

    value: str = "value"
    key: str | None = "key"
    headers: str | None = "headers"
    topic: str | None = "topic"
    partition: str | None = "partition"
    timestamp: str | None = "timestamp"


_BYTES: Final = "binary or string (large_, _view, fixed_size_binary and dictionary-encoded ones too)"
EXPECTED: Final = {
    "value": _BYTES,
    "key": _BYTES,
    "headers": "list<struct<key: string, value: binary>> or map<string, binary>",
    "topic": "string",
    "partition": "int32",
    "timestamp": "timestamp, or int64 of milliseconds",
}
"""The types a part's column may have, for messages."""

_UNITS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""Timestamp unit → (multiplier, divisor) that convert it to milliseconds."""


class RecordTable(NamedTuple):
    """A table to be sent. ``row_count`` is None for a stream, from which reading may block."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    row_count: int | None


def open_table(data: object) -> RecordTable:
    """The batches of a pyarrow Table or RecordBatch, or of any object with the Arrow PyCapsule interface.

    Raises TypeError for anything else, and ModuleNotFoundError without pyarrow.
    """
    pa = _pyarrow()
    if isinstance(data, pa.Table):
        return RecordTable(data.schema, _taken(data.to_batches()), data.num_rows)
    if isinstance(data, pa.RecordBatch):
        return RecordTable(data.schema, _taken([data]), data.num_rows)
    try:
        if hasattr(data, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(data)
            return RecordTable(reader.schema, iter(reader), None)
        if hasattr(data, "__arrow_c_array__"):
            batch = pa.record_batch(data)
            return RecordTable(batch.schema, _taken([batch]), batch.num_rows)
    except pa.ArrowInvalid as error:
        raise TypeError(f"send_arrow() takes a table, not a {type(data).__name__}: {error}") from error
    raise TypeError(
        "send_arrow() takes a pyarrow Table or RecordBatch, or an object with the Arrow PyCapsule interface (polars, "
        f"pandas 2.2), not a {type(data).__name__}"
    )


class TableSchema:
    """The column number of each part of a record. Raises SerializationError for a missing or wrong column.

    A column with the part's default name may be missing; one that was named explicitly must exist.
    """

    def __init__(self, schema: pa.Schema, names: ColumnNames, topic: str | None) -> None:
        self.indices: dict[str, int] = {}
        self.multiplier = self.divisor = 1
        for part, name in names._asdict().items():
            if name is None or (part == "topic" and topic is not None and name == part):
                continue
            found = schema.get_all_field_indices(name)
            if len(found) > 1:
                raise SerializationError(f"the table has {len(found)} columns named {name!r}: expected one")
            if found:
                kind = schema.field(found[0]).type
                if not _CHECKS[part](_plain_type(kind)):
                    raise SerializationError(f"column {name!r} ({part}) is {kind}: expected {EXPECTED[part]}")
                if not (part == "topic" and topic is not None):
                    self.indices[part] = found[0]
            elif part == "value" or name != part:
                raise SerializationError(
                    f"the table has no column {name!r} ({part}): expected one of {EXPECTED[part]}; "
                    f"it has {', '.join(map(repr, schema.names)) or 'no column at all'}"
                )
        if topic is None and "topic" not in self.indices:
            raise SerializationError("no topic is given, and the table has no column of topics: give one of them")
        if "timestamp" in self.indices:
            kind = _plain_type(schema.field(self.indices["timestamp"]).type)
            self.multiplier, self.divisor = _UNITS[getattr(kind, "unit", "ms")]


class BatchReader:
    """One record batch's rows, read a window at a time."""

    def __init__(self, batch: pa.RecordBatch, schema: TableSchema) -> None:
        self.row_count: int = batch.num_rows
        self._arrays = {part: batch.column(index) for part, index in schema.indices.items()}
        self._schema = schema
        self._header_parts: tuple[BytesColumn, BytesColumn, NumberColumn] | None = None
        if "headers" in self._arrays:
            # The arrays below the lists are shared by all windows.
            self._arrays["headers"] = headers = _plain_array(self._arrays["headers"])
            self._header_parts = None if _pyarrow().types.is_null(headers.type) else _header_parts(headers)

    def window(self, start: int, count: int) -> tuple[Columns, Sequence[str | None] | None]:
        """The columns of some rows, and the names behind the topic numbers if there is a topic column."""
        arrays = {part: array.slice(start, count) for part, array in self._arrays.items()}
        topics, names = None, None
        if "topic" in arrays:
            topics, names = _topics_of(arrays["topic"])
        headers = None
        if self._header_parts is not None:
            headers = _headers_of(arrays["headers"], self._header_parts)
        columns = Columns(
            row_count=len(arrays["value"]),
            value=_bytes_of(arrays["value"]),
            key=_bytes_of(arrays["key"]) if "key" in arrays else None,
            headers=headers,
            partition=_integers_of(arrays["partition"]) if "partition" in arrays else None,
            timestamp=_timestamps_of(arrays["timestamp"]) if "timestamp" in arrays else None,
            topics=topics,
            multiplier=self._schema.multiplier,
            divisor=self._schema.divisor,
        )
        return columns, names


def _taken(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Hand the batches out and keep none: each is freed when it has been encoded."""
    batches.reverse()
    while batches:
        yield batches.pop()


def pyarrow_for(user: str) -> ModuleType:
    """The module pyarrow; raises ModuleNotFoundError that says what to install if it is missing."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{user} needs pyarrow: pip install 'aiokafkapy[arrow]'", name=error.name) from error
    found: ModuleType = pyarrow
    return found


def _pyarrow() -> ModuleType:
    return pyarrow_for("send_arrow()")


# types


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """A type without wrappers that make no difference here: extension types and run-end encoding."""
    types = _pyarrow().types
    while True:
        if hasattr(kind, "storage_type"):
            kind = kind.storage_type
        elif types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def _is_text(kind: pa.DataType) -> bool:
    types = _pyarrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind) or _is_view(kind, "string")


def _is_bytes(kind: pa.DataType) -> bool:
    types = _pyarrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return (
        _is_text(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or _is_view(kind, "binary")
    )


def _is_view(kind: pa.DataType, name: str) -> bool:
    # Older versions of pyarrow do not have these types.
    check = getattr(_pyarrow().types, f"is_{name}_view", None)
    return check is not None and bool(check(kind))


def _is_headers(kind: pa.DataType) -> bool:
    types = _pyarrow().types
    if types.is_null(kind):
        return True
    if types.is_map(kind):
        return _is_text(_plain_type(kind.key_type)) and _is_bytes(_plain_type(kind.item_type))
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    entry = _plain_type(kind.value_type)
    if not types.is_struct(entry) or min(places := _header_fields(entry)) < 0:
        return False
    name, value = (_plain_type(entry.field(place).type) for place in places)
    return _is_text(name) and _is_bytes(value)


def _header_fields(entry: pa.StructType) -> tuple[int, int]:
    """The field numbers of name and value in a header's struct, -1 if missing. As in Spark, case does not matter."""
    names = [field.name for field in entry]
    lowered = [name.lower() for name in names]
    key, value = (
        names.index(part) if part in names else lowered.index(part) if part in lowered else -1
        for part in ("key", "value")
    )
    return key, value


def _is_partition(kind: pa.DataType) -> bool:
    types = _pyarrow().types
    return bool((types.is_integer(kind) and not types.is_uint64(kind)) or types.is_null(kind))


def _is_timestamp(kind: pa.DataType) -> bool:
    types = _pyarrow().types
    return bool(types.is_timestamp(kind) or types.is_int64(kind) or types.is_null(kind))


_CHECKS: Final = {
    "value": _is_bytes,
    "key": _is_bytes,
    "headers": _is_headers,
    "topic": _is_text,
    "partition": _is_partition,
    "timestamp": _is_timestamp,
}


# arrays


def _plain_array(array: pa.Array) -> pa.Array:
    """An array of a plain type, see ``_plain_type``."""
    pa = _pyarrow()
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif pa.types.is_run_end_encoded(array.type):
            array = _decoded_runs(array)
        else:
            return array


def _decoded_runs(array: pa.Array) -> pa.Array:
    """A run-end encoded array, decoded by ``take``: pyarrow cannot decode runs of dictionaries, lists and structs."""
    import pyarrow as pa
    import pyarrow.compute

    first, count = array.find_physical_offset(), array.find_physical_length()
    places = pa.RunEndEncodedArray.from_buffers(
        pa.run_end_encoded(array.run_ends.type, pa.int32()),
        len(array),
        [None],
        null_count=0,
        offset=array.offset,
        children=[array.run_ends[first : first + count], pa.array(range(count), pa.int32())],
    )
    values = array.values[first : first + count]
    if _is_view(values.type, "string") or _is_view(values.type, "binary"):
        values = values.cast(pa.large_string() if _is_text(values.type) else pa.large_binary())
    return values.take(pyarrow.compute.run_end_decode(places))


def _validity_of(array: pa.Array) -> pa.Buffer | None:
    return array.buffers()[0] if array.null_count else None


def _bytes_of(array: pa.Array) -> BytesColumn:
    """The buffers of an array of byte strings, of a dictionary of them, or of nulls."""
    types = _pyarrow().types
    array = _plain_array(array)
    kind = array.type
    if types.is_dictionary(kind):
        return _bytes_of(array.dictionary)._replace(indices=_integers_of(array.indices))
    if types.is_null(kind):
        return BytesColumn(Layout.NULLS, len(array))
    validity = _validity_of(array)
    buffers = array.buffers()
    if types.is_fixed_size_binary(kind):
        return BytesColumn(Layout.FIXED, len(array), array.offset, validity, None, buffers[1], kind.byte_width)
    if _is_view(kind, "string") or _is_view(kind, "binary"):
        views = BytesColumn(Layout.VIEWS, len(array), array.offset, validity, buffers[1])
        return views._replace(buffers=tuple(buffers[2:]))
    layout = Layout.LARGE if types.is_large_string(kind) or types.is_large_binary(kind) else Layout.SMALL
    return BytesColumn(layout, len(array), array.offset, validity, buffers[1], buffers[2])


def _integers_of(array: pa.Array) -> NumberColumn:
    """The buffers of an array of integers, as they are when they have 32 or 64 bits and a sign."""
    pa = _pyarrow()
    array = _plain_array(array)
    if array.type not in (pa.int32(), pa.int64()):
        fits = array.type.bit_width < 32 if pa.types.is_integer(array.type) else True
        array = array.cast(pa.int32() if fits else pa.int64())
    return _numbers_of(array, array.type.bit_width // 8)


def _timestamps_of(array: pa.Array) -> NumberColumn:
    pa = _pyarrow()
    array = _plain_array(array)
    return _numbers_of(array.cast(pa.int64()) if pa.types.is_null(array.type) else array, 8)


def _numbers_of(array: pa.Array, width: int) -> NumberColumn:
    return NumberColumn(len(array), array.offset, _validity_of(array), array.buffers()[1], width)


def _topics_of(array: pa.Array) -> tuple[NumberColumn, Sequence[str | None]]:
    """Topics as numbers, and the names behind the numbers."""
    pa = _pyarrow()
    array = _plain_array(array)
    if not pa.types.is_dictionary(array.type):
        if array.type not in (pa.string(), pa.large_string()):
            array = array.cast(pa.large_string())
        array = array.dictionary_encode()
    return _integers_of(array.indices), array.dictionary.to_pylist()


def _header_parts(lists: pa.Array) -> tuple[BytesColumn, BytesColumn, NumberColumn]:
    """Names and values of all headers of all rows, and which of them are null."""
    if _pyarrow().types.is_map(lists.type):
        names, values = lists.keys, lists.items
        return _bytes_of(names), _bytes_of(values), NumberColumn(len(names), 0, None, None, 0)
    entries = _plain_array(lists.values)
    kind = entries.type
    names, values = (entries.field(place) for place in _header_fields(kind))
    nulls = NumberColumn(len(entries), entries.offset, _validity_of(entries), None, 0)
    return _bytes_of(names), _bytes_of(values), nulls


def _headers_of(lists: pa.Array, parts: tuple[BytesColumn, BytesColumn, NumberColumn]) -> HeadersColumn:
    layout = Layout.LARGE if _pyarrow().types.is_large_list(lists.type) else Layout.SMALL
    return HeadersColumn(layout, len(lists), lists.offset, _validity_of(lists), lists.buffers()[1], *parts)
