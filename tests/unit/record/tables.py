"""Tables for tests: rows drawn at random, and every way in which Arrow may hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from aiokafkapy.record.arrow import BatchReader, ColumnNames, TableSchema
from aiokafkapy.record.columns import Columns

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.binary())]
TIMES = [
    pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.timestamp("ns", "Europe/Berlin"), pa.int64(),
]  # fmt: skip
ODD_HEADER = pa.struct(
    [("value", pa.binary_view()), ("more", pa.int8()), ("key", pa.dictionary(pa.int8(), pa.string()))]
)
HEADERS = [
    pa.list_(ODD_HEADER),
    pa.list_(HEADER),
    pa.large_list(HEADER),
    pa.map_(pa.string(), pa.binary()),
]

field = st.none() | st.binary(max_size=40)
text = st.none() | st.text(max_size=15)
header_list = st.none() | st.lists(st.tuples(st.text(max_size=15), field), max_size=3)
times = st.none() | st.integers(-(2**31), 2**31)

Row = tuple[bytes | None, bytes | None, Any, int | None]
"""Value, key, headers, time as its column has it."""

rows = st.lists(st.tuples(field, field, header_list, times), max_size=30)


@st.composite
def slices(draw: st.DrawFn, wanted: Sequence[Any], kind: Any) -> Any:
    """An array that has these values somewhere in it, as a slice."""
    before, after = draw(st.integers(0, 9)), draw(st.integers(0, 2))
    filler = wanted[0] if wanted else None
    return array_of([filler] * before + list(wanted) + [None] * after, kind).slice(before, len(wanted))


def array_of(values: Sequence[Any], kind: Any) -> Any:
    """An array of this type."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_list(kind) and kind.value_type.num_fields == 3:
        return _odd_headers(values, kind)
    return pa.array(values, kind)


def _odd_headers(values: Sequence[Any], kind: Any) -> Any:
    offsets = [0]
    entries: list[Any] = []
    for each in values:
        entries.extend(each or ())
        offsets.append(len(entries))
    struct = pa.StructArray.from_arrays(
        [
            array_of([value for _, value in entries], pa.binary_view()),
            pa.array([1] * len(entries), pa.int8()),
            array_of([key for key, _ in entries], pa.dictionary(pa.int8(), pa.string())),
        ],
        fields=list(kind.value_type),
    )
    mask = pa.array([each is None for each in values], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), struct, mask=mask)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Row], Any, int]:
    """Rows, a record batch that has them, and the factor of its times (at most 1: divide)."""
    wanted = draw(rows)
    time = draw(st.sampled_from(TIMES))
    columns = {
        "value": draw(slices([row[0] for row in wanted], draw(st.sampled_from(BYTES)))),
        "key": draw(slices([row[1] for row in wanted], draw(st.sampled_from(BYTES)))),
        "headers": draw(slices([row[2] for row in wanted], draw(st.sampled_from(HEADERS)))),
        "timestamp": draw(slices([row[3] for row in wanted], time)),
    }
    dropped = draw(st.sets(st.sampled_from(["key", "headers", "timestamp"])))
    plain = [
        (
            row[0],
            None if "key" in dropped else row[1],
            None if "headers" in dropped else row[2],
            None if "timestamp" in dropped else in_milliseconds(row[3], time),
        )
        for row in wanted
    ]
    batch = pa.record_batch({name: column for name, column in columns.items() if name not in dropped})
    return plain, batch, len(plain)


def in_milliseconds(number: int | None, kind: Any) -> int | None:
    """The record in Kafka: rounded down."""
    if number is None:
        return None
    multiplier, divisor = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}[
        getattr(kind, "unit", "ms")
    ]
    return number * multiplier // divisor


def columns_of(batch: Any, topic: str | None = "t", **names: str | None) -> tuple[Columns, Any]:
    """All rows of a batch, as the kernel gets them."""
    schema = TableSchema(batch.schema, ColumnNames(**names), topic)  # type: ignore[arg-type]
    return BatchReader(batch, schema).window(0, batch.num_rows)
