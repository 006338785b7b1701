"""The kernel that reads batches into columns: both forms, against each other and against records decoded one by one."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import CorruptMessageError
from aiokafkapy.record.builder import RecordBatchBuilder, decode_records
from aiokafkapy.record.columns import ReadRecords, ReadStrings
from tests.forms import compiled_form, plain_form

from .conftest import RECORDS, Item

COLUMNS = "aiokafkapy.record.record_columns"
BASE = 1_700_000_000_000


@pytest.fixture(scope="session")
def forms() -> tuple[ModuleType, ModuleType]:
    """Compiled and interpreted."""
    return compiled_form(COLUMNS), plain_form(COLUMNS)


@pytest.fixture(params=["compiled", "interpreted"])
def form(request: pytest.FixtureRequest) -> ModuleType:
    return (compiled_form if request.param == "compiled" else plain_form)(COLUMNS)


def section(items: list[Item]) -> tuple[bytes, int]:
    """The records section of these, and its base timestamp."""
    builder = RecordBatchBuilder(1 << 30)
    for timestamp_ms, key, value, headers in items:
        assert builder.try_append(timestamp_ms, key, value, headers) > 0
    return bytes(builder.records_view()), builder.base_timestamp


def strings(read: ReadStrings, count: int) -> list[bytes | None]:
    buffers = [None if read.validity is None else pa.py_buffer(read.validity), pa.py_buffer(read.offsets),
               pa.py_buffer(read.data)]  # fmt: skip
    found = pa.Array.from_buffers(pa.binary(), count, buffers, read.null_count)
    found.validate(full=True)
    values: list[bytes | None] = found.to_pylist()
    return values


def numbers(data: Any, kind: pa.DataType, count: int) -> list[int]:
    values: list[int] = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)]).to_pylist()
    return values


def rows(read: ReadRecords) -> list[tuple[Any, ...]]:
    """Offset, key, value, headers (None without any), microseconds, type of timestamp."""
    count = read.row_count
    headers: list[Any] = [None] * count
    if read.headers is not None:
        starts = numbers(read.headers.offsets, pa.int32(), count + 1)
        names = strings(read.headers.names, starts[-1])
        values = strings(read.headers.values, starts[-1])
        assert read.headers.null_count == sum(start == stop for start, stop in pairwise(starts))
        for row, (start, stop) in enumerate(pairwise(starts)):
            if stop > start:
                headers[row] = list(zip(names[start:stop], values[start:stop], strict=True))
    return list(
        zip(
            numbers(read.offsets, pa.int64(), count), strings(read.keys, count), strings(read.values, count), headers,
            numbers(read.timestamps, pa.int64(), count), numbers(read.timestamp_types, pa.int32(), count), strict=True,
        )
    )  # fmt: skip


def as_bytes(read: Any) -> Any:
    if isinstance(read, tuple):
        return tuple(as_bytes(part) for part in read)
    return read if read is None or isinstance(read, int) else bytes(read)


@pytest.mark.parametrize("with_headers", [False, True])
@pytest.mark.parametrize("name", RECORDS)
def test_rows_are_the_records(form: ModuleType, name: str, with_headers: bool) -> None:
    columns = form.RecordColumns(with_headers)
    items = RECORDS[name]()
    data, base = section(items)
    expected = []
    whole = 2**63 - 1
    for base_offset, append_time, first, end in (
        (100, None, 0, whole), (10_000, 5, 10_002, whole), (2**40, None, 2**41, whole), (70, None, 71, 72)
    ):  # fmt: skip
        records = decode_records(data, len(items), base_offset, base, append_time)
        kept = [record for record in records if first <= record[0] < end]
        assert columns.append(data, len(items), base_offset, base, append_time, first, end) == len(kept)
        for offset, key, value, headers, timestamp_ms, _, _, kind in kept:
            named = [(header.encode(), content) for header, content in headers] or None
            expected.append((offset, key, value, named if with_headers else None, timestamp_ms * 1000, kind))
    assert columns.row_count == len(expected)
    assert rows(columns.take()) == expected
    assert columns.row_count == columns.data_bytes == 0
    assert rows(columns.take()) == []


def test_a_batch_that_is_damaged_leaves_nothing(form: ModuleType) -> None:
    columns = form.RecordColumns(True)
    items = RECORDS["mixed"]()
    data, base = section(items)
    columns.append(data, len(items), 0, base)
    size = columns.data_bytes
    for end in range(0, len(data), 7):
        with pytest.raises(CorruptMessageError):
            columns.append(data[:end], len(items), 50, base)
    for count in (-1, len(items) - 1, len(items) + 1, 2**31):
        with pytest.raises(CorruptMessageError):
            columns.append(data, count, 50, base)
    assert (columns.row_count, columns.data_bytes) == (len(items), size)
    columns.append(data, len(items), 100, base)
    found = rows(columns.take())
    assert [row[0] for row in found] == [*range(10), *range(100, 110)]
    assert [row[1:4] for row in found[:10]] == [row[1:4] for row in found[10:]]


@given(
    batches=st.lists(
        st.lists(
            st.tuples(
                st.integers(0, 2**40), st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=300),
                st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
            ),
            max_size=12,
        ),
        max_size=5,
    ),
    with_headers=st.booleans(),
    first=st.integers(0, 30),
)  # fmt: skip
def test_both_forms_give_the_same_bytes(
    forms: tuple[ModuleType, ModuleType], batches: list[list[Item]], with_headers: bool, first: int
) -> None:
    both = [form.RecordColumns(with_headers) for form in forms]
    for number, items in enumerate(batches):
        data, base = section(items)
        counts = {columns.append(data, len(items), number * 10, base, None, first) for columns in both}
        assert len(counts) == 1
    assert both[0].data_bytes == both[1].data_bytes
    taken = [as_bytes(columns.take()) for columns in both]
    assert taken[0] == taken[1]


@given(data=st.binary(max_size=80), count=st.integers(-1, 6))
def test_both_forms_refuse_the_same_garbage(forms: tuple[ModuleType, ModuleType], data: bytes, count: int) -> None:
    outcomes = []
    for form in forms:
        columns = form.RecordColumns(True)
        try:
            columns.append(data, count, 0, 0)
            outcomes.append(as_bytes(columns.take()))
        except CorruptMessageError as error:
            assert columns.row_count == 0
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_a_name_that_is_not_utf_8_is_replaced_as_java_does(form: ModuleType) -> None:
    data, base = section([(BASE, None, b"v", (("NAME", b"1"), ("é", b"2")))])
    columns = form.RecordColumns(True)
    columns.append(data.replace(b"NAME", b"\xff\xfeab"), 1, 0, base)
    headers = columns.take().headers
    assert strings(headers.names, 2) == ["\ufffd\ufffdab".encode(), "é".encode()]
