"""aiokafkapy.record.arrow: the tables and columns that are taken, and the errors for the others."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from aiokafkapy.errors import SerializationError
from aiokafkapy.record.arrow import BatchReader, ColumnNames, TableSchema, open_table
from aiokafkapy.record.arrow_rows import ArrowRows
from aiokafkapy.record.columns import Layout, Route

from .tables import HEADER, columns_of

PLENTY = 1 << 40


class Stream:
    """Another library's data frame."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


class Array:
    """Another library's record batch."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.batch.__arrow_c_array__(requested_schema)


def schema_of(given: str | None = "t", names: ColumnNames | None = None, **kinds: Any) -> TableSchema:
    return TableSchema(pa.schema(list(kinds.items())), names or ColumnNames(), given)


def values_of(columns: Any) -> list[bytes | None]:
    rows = ArrowRows(columns, hashes_keys=False)
    return [rows.record(row)[2] for row in range(columns.row_count)]


class TestTables:
    table = pa.table({"value": pa.chunked_array([[b"a", b"b"], [b"c"]])})

    @pytest.mark.parametrize(
        ("data", "row_count"),
        [
            (table, 3),
            (table.combine_chunks().to_batches()[0], 3),
            (Array(table.combine_chunks().to_batches()[0]), 3),
            (Stream(table), None),
            (pa.RecordBatchReader.from_batches(table.schema, table.to_batches()), None),
        ],
    )
    def test_objects_with_record_batches_are_read(self, data: Any, row_count: int | None) -> None:
        found = open_table(data)
        assert found.row_count == row_count
        schema = TableSchema(found.schema, ColumnNames(), "t")
        batches = [BatchReader(batch, schema) for batch in found.batches]
        assert [value for batch in batches for value in values_of(batch.window(0, 9)[0])] == [b"a", b"b", b"c"]

    @pytest.mark.parametrize("data", [[b"a"], None, {"value": [b"a"]}, pa.array([b"a"]), pa.chunked_array([[b"a"]])])
    def test_anything_else_is_refused_with_its_type(self, data: Any) -> None:
        with pytest.raises(TypeError, match=rf"not a {type(data).__name__}"):
            open_table(data)

    def test_batches_are_let_go_one_by_one(self) -> None:
        pieces = [bytearray(b"0123456789") for _ in range(3)]
        kind = pa.binary(10)
        batches = [
            pa.record_batch({"value": pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(piece)])}) for piece in pieces
        ]
        found = open_table(pa.Table.from_batches(batches))
        del batches
        gc.disable()  # they are let go by themselves
        try:
            for piece in pieces:
                batch = next(found.batches)
                with pytest.raises(BufferError):
                    piece.append(0)
                del batch
                piece.append(0)
        finally:
            gc.enable()

    def test_without_pyarrow_the_error_names_the_extra(self) -> None:
        program = (
            "import sys; sys.modules['pyarrow'] = None\n"
            "from aiokafkapy.record.arrow import open_table\n"
            "try:\n    open_table(1)\nexcept ModuleNotFoundError as error:\n    print(error)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert "pip install 'aiokafkapy[arrow]'" in done.stdout


class TestSchemas:
    def test_columns_are_found_by_their_names_wherever_they_stand(self) -> None:
        schema = schema_of(a=pa.int8(), key=pa.string(), value=pa.binary(), partition=pa.int32())
        assert schema.indices == {"key": 1, "value": 2, "partition": 3}

    def test_names_can_be_chosen_and_columns_be_left_out(self) -> None:
        names = ColumnNames(value="body", key="id", headers=None)
        schema = schema_of("t", names, id=pa.string(), body=pa.string(), headers=pa.int8(), value=pa.int8())
        assert schema.indices == {"value": 1, "key": 0}

    @pytest.mark.parametrize(
        ("kinds", "problem"),
        [
            ({"key": pa.string()}, r"no column 'value' \(value\): expected one of binary or string.*it has 'key'"),
            ({}, "no column 'value'.*no column at all"),
            ({"value": pa.int64()}, r"column 'value' \(value\) is int64: expected binary or string"),
            ({"value": pa.list_(pa.uint8())}, r"column 'value' \(value\) is list<.*uint8>: expected binary"),
            ({"value": pa.dictionary(pa.int8(), pa.int8())}, "column 'value' .*dictionary.*expected binary"),
            ({"value": pa.binary(), "key": pa.float32()}, "column 'key' .* is float: expected binary or string"),
            ({"value": pa.binary(), "partition": pa.float64()}, "column 'partition' .* is double: expected int32"),
            ({"value": pa.binary(), "partition": pa.uint64()}, "column 'partition' .* is uint64: expected int32"),
            ({"value": pa.binary(), "timestamp": pa.int32()}, "'timestamp' .* is int32: expected timestamp, or int64"),
            ({"value": pa.binary(), "timestamp": pa.date32()}, "column 'timestamp' .* is date32.*: expected timestamp"),
            ({"value": pa.binary(), "headers": pa.string()}, "column 'headers' .* is string: expected list<struct<key"),
            ({"value": pa.binary(), "headers": pa.list_(pa.string())}, "'headers' .* is list<.*string>: expected list"),
            ({"value": pa.binary(), "headers": pa.list_(pa.struct([("key", pa.string())]))}, "'headers' .* expected"),
            ({"value": pa.binary(), "headers": pa.map_(pa.binary(), pa.binary())}, "'headers' .* expected list<"),
            ({"value": pa.binary(), "headers": pa.list_view(HEADER)}, "'headers' .* is list_view<.* expected list<"),
        ],
    )  # fmt: skip
    def test_the_error_names_the_wrong_column_its_type_and_the_expected_ones(self, kinds: Any, problem: str) -> None:
        with pytest.raises(SerializationError, match=problem):
            schema_of(**kinds)

    def test_a_column_that_was_asked_for_must_be_there(self) -> None:
        with pytest.raises(SerializationError, match=r"no column 'id' \(key\).*it has 'value'"):
            schema_of("t", ColumnNames(key="id"), value=pa.binary())

    def test_two_columns_of_one_name_are_one_too_many(self) -> None:
        schema = pa.schema([("value", pa.binary()), ("value", pa.binary())])
        with pytest.raises(SerializationError, match="2 columns named 'value'"):
            TableSchema(schema, ColumnNames(), "t")

    def test_a_topic_is_given_or_in_a_column(self) -> None:
        with pytest.raises(SerializationError, match="no topic is given, and the table has no column of topics"):
            schema_of(None, value=pa.binary())
        with pytest.raises(SerializationError, match=r"column 'topic' \(topic\) is binary: expected string"):
            schema_of(None, value=pa.binary(), topic=pa.binary())
        assert schema_of(None, value=pa.binary(), topic=pa.string()).indices == {"value": 0, "topic": 1}

    def test_a_topic_that_is_given_wins_over_any_column(self) -> None:
        assert schema_of("t", value=pa.binary(), topic=pa.int64()).indices == {"value": 0}

    @pytest.mark.parametrize(
        ("unit", "expected"), [("s", (1000, 1)), ("ms", (1, 1)), ("us", (1, 1000)), ("ns", (1, 10**6))]
    )
    def test_the_unit_of_a_time_tells_how_to_make_milliseconds(self, unit: str, expected: tuple[int, int]) -> None:
        for kind in (pa.timestamp(unit), pa.timestamp(unit, "America/New_York")):
            schema = schema_of(value=pa.binary(), timestamp=kind)
            assert (schema.multiplier, schema.divisor) == expected


class TestColumns:
    @pytest.mark.parametrize(
        ("kind", "layout"),
        [
            (pa.binary(), Layout.SMALL),
            (pa.string(), Layout.SMALL),
            (pa.large_binary(), Layout.LARGE),
            (pa.large_string(), Layout.LARGE),
            (pa.binary_view(), Layout.VIEWS),
            (pa.string_view(), Layout.VIEWS),
            (pa.binary(3), Layout.FIXED),
            (pa.null(), Layout.NULLS),
        ],
    )
    def test_common_types_are_taken_from_their_buffers(self, kind: Any, layout: Layout) -> None:
        values = [None, None] if kind == pa.null() else ["abc", None]
        array = pa.array(values, kind)
        column = columns_of(pa.record_batch({"value": array}))[0].value
        assert column.layout == layout
        addresses = [buffer.address for buffer in array.buffers() if buffer]
        taken: tuple[Any, ...] = (column.validity, column.offsets, column.data)
        for buffer in taken:
            assert buffer is None or buffer.address in addresses
        assert values_of(columns_of(pa.record_batch({"value": array}))[0]) == [v and b"abc" for v in values]

    def test_a_column_without_nulls_has_no_bits_to_look_at(self) -> None:
        array = pa.array([None, b"a", b"b"])
        assert columns_of(pa.record_batch({"value": array}))[0].value.validity is not None
        assert columns_of(pa.record_batch({"value": array[1:]}))[0].value.validity is None

    def test_runs_and_extensions_are_read_as_their_values(self) -> None:
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([b"a", None]))
        extension = pa.opaque(pa.string(), "json", "somebody")
        batch = pa.record_batch({"value": runs, "key": pa.array(["{}", None, "[]"], extension)})
        columns, _ = columns_of(batch)
        rows = ArrowRows(columns, hashes_keys=True)
        assert [rows.record(row)[1:3] for row in range(3)] == [(b"{}", b"a"), (None, b"a"), (b"[]", None)]

    @pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64()])
    def test_partitions_may_be_integers_of_another_size(self, kind: Any) -> None:
        batch = pa.record_batch({"value": [b"x"] * 3, "partition": pa.array([7, None, 100], kind)})
        rows = ArrowRows(columns_of(batch)[0], hashes_keys=True)
        assert [rows.partition_of(row) for row in range(3)] == [7, None, 100]

    def test_columns_of_nulls_are_columns_without_anything(self) -> None:
        nothing = pa.nulls(2)
        batch = pa.record_batch(
            {"value": nothing, "key": nothing, "headers": nothing, "partition": nothing, "timestamp": nothing}
        )
        rows = ArrowRows(columns_of(batch)[0], hashes_keys=True)
        rows.now_ms = 5
        rows.plan(0, 2, [Route(1, 3, 0)], PLENTY)
        assert rows.refused == 0
        assert rows.record(1) == (5, None, None, None)

    @pytest.mark.parametrize(
        "kind",
        [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int16(), pa.large_string()), pa.null()],
    )
    def test_topics_become_numbers(self, kind: Any) -> None:
        wanted = [None] * 4 if kind == pa.null() else ["b", "a", None, "b"]
        if pa.types.is_dictionary(kind):
            array = pa.array(wanted).dictionary_encode().cast(kind)
        else:
            array = pa.array(wanted, kind)
        columns, names = columns_of(pa.record_batch({"value": [b"x"] * 4, "topic": array}), None)
        rows = ArrowRows(columns, hashes_keys=True)
        numbers = [rows.topic_of(row) for row in range(4)]
        assert [None if number < 0 else names[number] for number in numbers] == wanted

    @pytest.mark.parametrize(
        "values",
        [
            pa.array([b"a", None, b"b"]),
            pa.array(["a", None, "b"]).dictionary_encode(),
            pa.array(["a", None, "b"], pa.string_view()),
            pa.array([b"a", None, b"b"], pa.binary_view()),
            pa.array([b"a", None, b"b"], pa.binary(1)),
        ],
        ids=lambda values: str(values.type).partition("<")[0],
    )
    def test_runs_of_any_type_are_rows(self, values: Any) -> None:
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 7], pa.int32()), values)
        headers = pa.array([[("n", b"1")], None, []], pa.list_(HEADER))
        batch = pa.record_batch(
            {
                "value": runs,
                "key": runs,
                "headers": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 7], pa.int16()), headers),
                "topic": pa.RunEndEncodedArray.from_arrays(
                    pa.array([1, 3, 7], pa.int64()), pa.array(["t", None, "u"]).dictionary_encode()
                ),
            }
        )
        for start, stop in ((0, 7), (1, 4), (3, 7), (6, 7)):
            columns, names = columns_of(batch[start:stop], None)
            rows = ArrowRows(columns, hashes_keys=True)
            wanted = [(b"a", [("n", b"1")], "t"), (b"a", [("n", b"1")], None), (None, [], None)]
            wanted += [(b"b", [], "u")] * 4
            found = []
            for row in range(stop - start):
                _, key, value, sent = rows.record(row)
                assert key == value
                number = rows.topic_of(row)
                found.append((value, list(sent or ()), None if number < 0 or names is None else names[number]))
            assert found == wanted[start:stop]

    def test_a_window_is_some_rows_of_all_columns(self) -> None:
        batch = pa.record_batch(
            {
                "value": [b"%d" % n for n in range(10)],
                "headers": pa.array([[("n", b"%d" % n)] * (n % 3) for n in range(10)], pa.list_(HEADER)),
                "timestamp": pa.array(range(10), pa.int64()),
            }
        )
        reader = BatchReader(batch[1:], TableSchema(batch.schema, ColumnNames(), "t"))
        assert reader.row_count == 9
        columns, names = reader.window(6, 100)
        rows = ArrowRows(columns, hashes_keys=True)
        assert (columns.row_count, names) == (3, None)
        assert [rows.record(row) for row in range(3)] == [
            (n, None, b"%d" % n, [("n", b"%d" % n)] * (n % 3)) for n in (7, 8, 9)
        ]
