"""The kernel that reads rows out of columns: both forms, against each other and against records appended one by one."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import IllegalStateError, SerializationError
from aiokafkapy.record import columns as words
from aiokafkapy.record.columns import BytesColumn, Columns, HeadersColumn, Layout, NumberColumn, Route
from tests.forms import compiled_form, plain_form

from .tables import BYTES, array_of, columns_of, tables

NOW = 1_700_000_000_000
PLENTY = 1 << 40
ROUTE = [Route(1, 7)]

Form = tuple[ModuleType, ModuleType]
"""The kernel of rows, and the byte kernel that goes with it."""


def _form(load: Callable[[str], ModuleType]) -> Form:
    return load("aiokafkapy.record.arrow_rows"), load("aiokafkapy.record.builder")


@pytest.fixture(scope="session")
def forms() -> tuple[Form, Form]:
    """Compiled and interpreted."""
    return _form(compiled_form), _form(plain_form)


@pytest.fixture(params=["compiled", "interpreted"])
def form(request: pytest.FixtureRequest) -> Form:
    return _form(compiled_form if request.param == "compiled" else plain_form)


def encoded(builder: Any) -> bytes:
    builder.seal(0)
    return b"".join(builder.buffers())


def encode_all(form: Form, columns: Columns, limit: int = 1 << 30, slice_bytes: int = PLENTY) -> list[bytes]:
    """The batches that the rows make when each is filled to its limit."""
    rows = form[0].ArrowRows(columns, False)
    rows.plan(0, columns.row_count, ROUTE, PLENTY)
    rows.now_ms = NOW
    batches: list[bytes] = []
    builder = form[1].RecordBatchBuilder(limit)
    while rows.position < rows.planned:
        before = rows.position
        rows.append_run(builder, rows.planned, rows.encoded_bytes + slice_bytes)
        if rows.position == before:
            if not builder.count:
                raise AssertionError(f"no row goes in: {rows.record(rows.position)}")
            batches.append(encoded(builder))
            builder = form[1].RecordBatchBuilder(limit)
    return [*batches, encoded(builder)]


def append_one_by_one(form: Form, rows: Any, limit: int) -> list[bytes]:
    batches = []
    builder = form[1].RecordBatchBuilder(limit)
    for value, key, headers, timestamp in rows:
        record = (NOW if timestamp is None else timestamp, key, value, headers)
        if not builder.try_append(*record):
            batches.append(encoded(builder))
            builder = form[1].RecordBatchBuilder(limit)
            builder.try_append(*record)
    return [*batches, encoded(builder)]


def planned(form: Form, columns: Columns, routes: list[Route], start: int = 0, most_sticky_bytes: int = PLENTY) -> Any:
    rows = form[0].ArrowRows(columns, True)
    is_planned = rows.plan(start, columns.row_count, routes, most_sticky_bytes)
    while not is_planned:
        is_planned = rows.plan_on()
    return rows


def description(rows: Any) -> Any:
    """All that a plan tells."""
    places = range(rows.planned)
    return (
        rows.start,
        rows.planned,
        rows.position,
        rows.refused,
        [rows.row_at(place) for place in places],
        [rows.lane_at(place) for place in places],
        [rows.end_of_lane(place) for place in places],
        rows.lanes(),
        rows.sticky_bytes,
        rows.refusals(),
        [(rows.topic_of(row), rows.partition_of(row)) for row in range(rows.start, rows.start + rows.planned)],
    )


def numbers(values: Any, kind: Any = None) -> NumberColumn:
    array = pa.array(values, kind or pa.int32())
    return NumberColumn(len(array), 0, array.buffers()[0], array.buffers()[1], array.type.bit_width // 8)


def strings(values: Any, kind: Any = None) -> BytesColumn:
    batch = pa.record_batch({"value": array_of(values, kind or pa.binary())})
    return columns_of(batch)[0].value


class TestEncoding:
    @given(tables(), st.integers(100, 2000), st.sampled_from([1, 100, PLENTY]))
    def test_both_forms_make_the_bytes_of_records_appended_one_by_one(
        self, forms: tuple[Form, Form], table: Any, limit: int, slice_bytes: int
    ) -> None:
        rows, batch, _ = table
        columns, _ = columns_of(batch)
        for form in forms:
            assert encode_all(form, columns, limit, slice_bytes) == append_one_by_one(form, rows, limit)
        assert encode_all(forms[0], columns) == encode_all(forms[1], columns)

    @given(
        st.lists(st.tuples(st.none() | st.integers(0, 60), st.integers(1, 90)), min_size=1, max_size=6),
        st.sampled_from([*BYTES, pa.binary(7)]),
        st.integers(100, 9_000),
        st.sampled_from([1, 100, 1_000, PLENTY]),
        st.integers(0, 3),
    )
    def test_values_of_a_few_sizes_and_nothing_else_make_the_same_bytes(
        self, forms: tuple[Form, Form], groups: Any, kind: Any, limit: int, slice_bytes: int, skipped: int
    ) -> None:
        sizes = [size for size, count in groups for _ in range(count)]
        values = [None if size is None else bytes([place & 255]) * size for place, size in enumerate(sizes)]
        if kind == pa.binary(7):
            values = [None if value is None else value[:7].ljust(7) for value in values]
        array = array_of([b"skipped"] * skipped + values, kind).slice(skipped)
        columns, _ = columns_of(pa.record_batch({"value": array}))
        rows = [(value, None, None, None) for value in array.to_pylist()]
        for form in forms:
            assert encode_all(form, columns, limit, slice_bytes) == append_one_by_one(form, rows, limit)

    @given(tables())
    def test_both_forms_give_the_same_records_as_objects(self, forms: tuple[Form, Form], table: Any) -> None:
        rows, batch, count = table
        columns, _ = columns_of(batch)
        for form in forms:
            found = form[0].ArrowRows(columns, True)
            found.now_ms = NOW
            for number, (value, key, headers, timestamp) in enumerate(rows):
                record = (NOW if timestamp is None else timestamp, key, value, headers)
                assert found.record(number) == record
        assert count == len(rows)

    def test_counters_of_the_builder_are_those_of_single_appends(self, form: Form) -> None:
        columns, _ = columns_of(
            pa.record_batch({"value": [b"x" * size for size in range(300)], "timestamp": [*range(300, 0, -1)]})
        )
        one, many = form[1].RecordBatchBuilder(1 << 20), form[1].RecordBatchBuilder(1 << 20)
        rows = form[0].ArrowRows(columns, False)
        rows.plan(0, 300, ROUTE, PLENTY)
        assert rows.append_run(many, 300, PLENTY) == 0
        sizes = [one.try_append(300 - number, None, b"x" * number, None) for number in range(300)]
        names = ("size", "count", "records_size", "base_timestamp", "max_timestamp")
        assert [getattr(one, name) for name in names] == [getattr(many, name) for name in names]
        assert rows.encoded_bytes == sum(sizes)
        assert bytes(one.records_view()) == bytes(many.records_view())

    def test_a_run_ends_where_it_is_told_to_and_goes_on_from_there(self, form: Form) -> None:
        columns, _ = columns_of(pa.record_batch({"value": [b"x" * 100] * 50}))
        rows = form[0].ArrowRows(columns, False)
        rows.plan(10, 40, ROUTE, PLENTY)
        assert (rows.start, rows.planned, rows.position) == (10, 30, 0)
        builder = form[1].RecordBatchBuilder(1 << 20)
        rows.append_run(builder, 5, PLENTY)
        assert (rows.position, builder.count) == (5, 5)
        rows.append_run(builder, 30, rows.encoded_bytes + 1)
        assert (rows.position, builder.count) == (6, 6)
        rows.append_run(builder, 30, rows.encoded_bytes)
        assert rows.position == 6
        rows.append_run(builder, 30, PLENTY)
        assert (rows.position, builder.count) == (30, 30)

    def test_it_never_takes_more_memory_than_allowed_and_says_how_much_it_wants(self, form: Form) -> None:
        columns, _ = columns_of(pa.record_batch({"value": [bytes(range(256)) * 4] * 500}))
        rows = form[0].ArrowRows(columns, False)
        rows.plan(0, 500, ROUTE, PLENTY)
        builder = form[1].RecordBatchBuilder(1 << 20)
        builder.allowance = 0
        asked = 0
        while wanted := rows.append_run(builder, 500, PLENTY):
            assert builder.capacity < wanted
            builder.allowance = wanted
            asked += 1
            assert asked < 1000
        assert rows.position == 500
        assert builder.capacity <= builder.allowance

    def test_long_runs_take_large_pieces_of_memory_and_short_ones_small(self) -> None:
        form = _form(compiled_form)
        for count, most in ((1000, 10), (3, 2)):
            columns, _ = columns_of(pa.record_batch({"value": [b"x" * 100] * count}))
            rows = form[0].ArrowRows(columns, False)
            rows.plan(0, count, ROUTE, PLENTY)
            builder = form[1].RecordBatchBuilder(128 * 1024)
            rows.append_run(builder, count, PLENTY)
            used = builder.records_size
            builder.seal(0)
            assert builder.count == count
            assert len(builder.buffers()) <= most
            assert builder.capacity <= 2 * used + 512

    def test_a_full_batch_takes_no_more_and_a_closed_one_none(self, form: Form) -> None:
        columns, _ = columns_of(pa.record_batch({"value": [b"x" * 100] * 50}))
        rows = form[0].ArrowRows(columns, False)
        rows.plan(0, 50, ROUTE, PLENTY)
        builder = form[1].RecordBatchBuilder(1000)
        assert rows.append_run(builder, 50, PLENTY) == 0
        count = builder.count
        assert 0 < count < 50
        assert rows.append_run(builder, 50, PLENTY) == 0
        assert (builder.count, rows.position) == (count, count)
        builder.seal(0)
        with pytest.raises(IllegalStateError):
            rows.append_run(builder, 50, PLENTY)


class TestPlanning:
    @given(
        st.lists(st.none() | st.binary(max_size=20), max_size=200),
        st.data(),
        st.integers(1, 400),
        st.integers(1, 100),
        st.sampled_from([200, PLENTY]),
    )
    def test_both_forms_plan_alike(
        self, forms: tuple[Form, Form], keys: Any, data: Any, first_lane: int, count: int, most_sticky_bytes: int
    ) -> None:
        partitions = st.none() | st.integers(-2, count + 1)
        chosen = data.draw(st.lists(partitions, min_size=len(keys), max_size=len(keys)))
        topics = data.draw(st.lists(st.none() | st.integers(0, 4), min_size=len(keys), max_size=len(keys)))
        has_partitions, has_topics = data.draw(st.booleans()), data.draw(st.booleans())
        columns = Columns(
            len(keys),
            strings(keys),
            strings(keys),
            partition=numbers(chosen) if has_partitions else None,
            topics=numbers(topics) if has_topics else None,
        )
        routes = [
            Route(first_lane, count, data.draw(st.integers(-1, count - 1))),
            Route(0, 0),
            Route(first_lane + count + 1, 3, 2),
        ]
        start = data.draw(st.integers(0, len(keys)))
        compiled, interpreted = (planned(form, columns, routes, start, most_sticky_bytes) for form in forms)
        assert description(compiled) == description(interpreted)

    def test_rows_keep_their_order_within_a_partition(self, form: Form) -> None:
        keys = [None if n % 5 == 0 else b"%d" % (n % 17) for n in range(500)]
        columns = Columns(500, strings(keys), strings(keys))
        rows = planned(form, columns, [Route(1, 6, 3)])
        by_lane: dict[int, list[int]] = {}
        for place in range(rows.planned):
            by_lane.setdefault(rows.lane_at(place), []).append(rows.row_at(place))
        assert sorted(by_lane) == list(by_lane)
        assert all(found == sorted(found) for found in by_lane.values())
        assert sorted(row for found in by_lane.values() for row in found) == list(range(500))
        without_key = {rows.lane_at(place) for place in range(500) if keys[rows.row_at(place)] is None}
        assert without_key == {1 + 1 + 3}

    def test_keys_go_where_java_sends_them(self, form: Form) -> None:
        # From Utils.murmur2 and toPositive of Kafka 4.1, as in the golden files of the byte kernel.
        keys = [
            b"21",
            b"foobar",
            b"a-little-bit-long-string",
            b"a-little-bit-longer-string",
            b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
        ]
        hashes = [-973932308, -790332482, -985981536, -1486304829, -58897971]
        columns = Columns(len(keys), strings(keys), strings(keys))
        rows = planned(form, columns, [Route(1, 1000)])
        lanes = {rows.row_at(place): rows.lane_at(place) for place in range(len(keys))}
        assert [lanes[row] - 2 for row in range(len(keys))] == [(value & 0x7FFFFFFF) % 1000 for value in hashes]

    def test_a_partition_wins_over_a_key_and_one_that_is_not_there_is_refused(self, form: Form) -> None:
        columns = Columns(5, strings([b"x"] * 5), strings([b"k"] * 5), partition=numbers([2, None, -1, 3, 0]))
        rows = planned(form, columns, [Route(1, 3)])
        assert rows.refused == 2
        assert rows.position == 2
        topics, partitions = rows.refusals()
        assert (list(topics), list(partitions)) == ([0, 0], [-1, 3])
        assert [rows.row_at(place) for place in range(2)] == [2, 3]

    def test_a_partition_too_large_for_32_bits_is_reported_as_it_is(self, form: Form) -> None:
        columns = Columns(2, strings([b"x"] * 2), partition=numbers([2**40 + 1, 1], pa.int64()))
        assert list(planned(form, columns, [Route(1, 3)]).refusals()[1]) == [2**40 + 1]

    def test_a_plan_ends_when_the_sticky_partition_has_its_share(self, form: Form) -> None:
        columns = Columns(100, strings([b"x" * 92] * 100), strings([None] * 50 + [b"k"] * 50))
        rows = planned(form, columns, [Route(1, 3, 0)], most_sticky_bytes=1000)
        assert rows.planned == 10
        assert rows.sticky_bytes == [1000]
        rows.plan(50, 100, [Route(1, 3, 0)], 1000)
        assert rows.planned == 50

    def test_a_long_plan_is_made_in_steps(self, form: Form) -> None:
        step = form[0].PLANNED_ROWS // 8
        columns = Columns(3 * step, strings([b"v"] * 3 * step), strings([b"%d" % n for n in range(3 * step)]))
        rows = form[0].ArrowRows(columns, True)
        assert not rows.plan(5, 3 * step, ROUTE, PLENTY)
        steps = 1
        while not rows.plan_on():
            steps += 1
        assert (rows.start, rows.planned, rows.position, rows.refused) == (5, 3 * step - 5, 0, 0)
        assert steps < 10
        assert sorted(rows.row_at(place) for place in range(rows.planned)) == list(range(5, 3 * step))

    def test_large_keys_make_short_steps(self, form: Form) -> None:
        columns = Columns(4, strings([b"v"] * 4), strings([bytes(2_000_000)] * 4))
        rows = form[0].ArrowRows(columns, True)
        assert [rows.plan(0, 4, ROUTE, PLENTY), *(rows.plan_on() for _ in range(3))] == [False, False, False, True]
        assert rows.planned == 4

    @given(st.lists(st.integers(0, 300), max_size=50))
    def test_both_forms_order_lanes_alike(self, forms: tuple[Form, Form], lanes: Any) -> None:
        for typecode in ("H", "i"):
            compiled, interpreted = (form[0].order_of(array(typecode, lanes)) for form in forms)
            assert [list(part) for part in compiled] == [list(part) for part in interpreted]
            assert list(compiled[0]) == sorted(range(len(lanes)), key=lanes.__getitem__)
            assert [compiled[0][place] for place in compiled[1]] == list(range(len(lanes)))

    @pytest.mark.parametrize(("lanes", "typecode"), [(200, "B"), (300, "H"), (70_000, "i")])
    def test_lanes_are_stored_in_the_smallest_integer_type_that_fits(
        self, form: Form, lanes: int, typecode: str
    ) -> None:
        columns = Columns(3, strings([b"x"] * 3), partition=numbers([lanes - 1, 0, 1]))
        found = planned(form, columns, [Route(1, lanes)]).lanes()
        assert (found.typecode, list(found)) == (typecode, [lanes + 1, 2, 3])

    def test_zero_rows_make_a_plan_too(self, form: Form) -> None:
        columns = Columns(0, strings([]), strings([]))
        for hashes in (True, False):
            rows = form[0].ArrowRows(columns, hashes)
            rows.plan(0, 0, ROUTE, PLENTY)
            assert (rows.planned, rows.position, rows.refused, rows.lanes()) == (0, 0, 0, None)

    def test_without_partitions_all_are_refused(self, form: Form) -> None:
        for hashes in (True, False):
            rows = form[0].ArrowRows(Columns(3, strings([b"a", b"b", None]), strings([b"a", b"b", None])), hashes)
            rows.plan(0, 3, [Route(0, 0)], PLENTY)
            assert (rows.planned, rows.position, rows.refused) == (3, 3, 3)
            assert list(rows.refusals()[0]) == [0, 0, 0]


SHORT = bytes(2)
OFFSETS = (0).to_bytes(4, "little") + (5).to_bytes(4, "little")
VIEW = (20).to_bytes(4, "little") + bytes(4) + (1).to_bytes(4, "little") + bytes(4)


class TestHostileBuffers:
    """Malformed Arrow data of a careless producer must not crash us."""

    @pytest.mark.parametrize(
        "columns",
        [
            Columns(3, BytesColumn(Layout.SMALL, 3, 0, None, SHORT, b"")),
            Columns(3, BytesColumn(Layout.LARGE, 3, 0, None, None, None)),
            Columns(3, BytesColumn(Layout.FIXED, 3, 0, None, None, SHORT, 4)),
            Columns(3, BytesColumn(Layout.VIEWS, 3, 0, None, SHORT)),
            Columns(9, BytesColumn(Layout.FIXED, 9, 8, b"\xff", None, bytes(100), 1)),
            Columns(1, BytesColumn(Layout.NULLS, 1), partition=NumberColumn(1, 0, None, SHORT, 4)),
            Columns(1, BytesColumn(Layout.NULLS, 1), timestamp=NumberColumn(1, 0, None, None, 8)),
            Columns(
                1,
                BytesColumn(Layout.NULLS, 1),
                headers=HeadersColumn(
                    Layout.SMALL, 1, 0, None, OFFSETS, BytesColumn(Layout.NULLS, 4), BytesColumn(Layout.NULLS, 5),
                    NumberColumn(5, 0, None, None, 0),
                ),
            ),
        ],
    )  # fmt: skip
    def test_buffers_shorter_than_their_rows_are_refused(self, form: Form, columns: Columns) -> None:
        with pytest.raises(ValueError, match="a table's"):
            form[0].ArrowRows(columns, False)

    @pytest.mark.parametrize(
        "column",
        [
            BytesColumn(Layout.SMALL, 1, 0, None, OFFSETS, b"1234"),
            BytesColumn(Layout.SMALL, 1, 0, None, OFFSETS[4:] + OFFSETS[:4], b"12345"),
            BytesColumn(Layout.SMALL, 1, 0, None, b"\xff" * 4 + OFFSETS[:4], b"12345"),
            BytesColumn(Layout.SMALL, 1, 0, None, OFFSETS, None),
            BytesColumn(Layout.VIEWS, 1, 0, None, VIEW, None, 0, (bytes(100),)),
            BytesColumn(Layout.VIEWS, 1, 0, None, VIEW, None, 0, (b"", bytes(19))),
            BytesColumn(Layout.VIEWS, 1, 0, None, b"\xff" * 16, None, 0, (b"", bytes(19))),
            BytesColumn(Layout.FIXED, 1, 0, None, None, b"x", 1, (), numbers([1])),
            BytesColumn(Layout.FIXED, 1, 0, None, None, b"x", 1, (), numbers([-1])),
        ],
    )
    def test_a_row_that_lies_outside_of_its_buffers_is_not_a_record(self, form: Form, column: BytesColumn) -> None:
        builder = form[1].RecordBatchBuilder(1 << 20)
        for columns in (Columns(1, column), Columns(1, BytesColumn(Layout.NULLS, 1), key=column)):
            rows = planned(form, columns, [Route(1, 3, 0)])
            assert rows.append_run(builder, 1, PLENTY) == 0
            assert (rows.position, builder.count) == (0, 0)
            with pytest.raises(SerializationError, match="does not lie within"):
                rows.record(0)

    @pytest.mark.parametrize("ends", [[0, 3, 6, 5, 8], [0, 3, 6, 50, 53], [0, 3, 6, -1, 2], [0, 3, 6, 9, 12]])
    @pytest.mark.parametrize("layout", [Layout.SMALL, Layout.LARGE])
    def test_rows_before_one_that_lies_outside_are_taken_and_none_behind_it(
        self, form: Form, ends: list[int], layout: Layout
    ) -> None:
        offsets = array("i" if layout == Layout.SMALL else "q", ends)
        rows = form[0].ArrowRows(Columns(4, BytesColumn(layout, 4, offsets=offsets, data=b"0123456789")), False)
        rows.plan(0, 4, ROUTE, PLENTY)
        builder = form[1].RecordBatchBuilder(1 << 20)
        assert rows.append_run(builder, 4, PLENTY) == 0
        valid = 3 if ends[3] == 9 else 2
        assert rows.position == builder.count == valid
        assert [value for _, _, value, _ in builder.records()] == [b"012", b"345", b"678"][:valid]
        with pytest.raises(SerializationError):
            rows.record(valid)

    @pytest.mark.parametrize(
        ("entries", "problem"),
        [
            ([("a", b"1"), None], "header 1 is null"),
            ([(None, b"1")], "the key of header 0 is null"),
        ],
    )
    def test_a_header_without_a_key_is_not_a_header(self, form: Form, entries: Any, problem: str) -> None:
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        headers = pa.array([[("ok", None)], entries], kind)
        rows = planned(form, columns_of(pa.record_batch({"value": [b"0", b"1"], "headers": headers}))[0], ROUTE)
        builder = form[1].RecordBatchBuilder(1 << 20)
        assert rows.append_run(builder, 2, PLENTY) == 0
        assert rows.position == 1
        with pytest.raises(SerializationError, match=problem):
            rows.record(1)

    def test_headers_outside_of_their_list_are_not_headers(self, form: Form) -> None:
        parts = BytesColumn(Layout.NULLS, 4), BytesColumn(Layout.NULLS, 4), NumberColumn(4, 0, None, None, 0)
        columns = Columns(
            1, BytesColumn(Layout.NULLS, 1), headers=HeadersColumn(Layout.SMALL, 1, 0, None, OFFSETS, *parts)
        )
        rows = planned(form, columns, ROUTE)
        assert rows.append_run(form[1].RecordBatchBuilder(1 << 20), 1, PLENTY) == 0
        with pytest.raises(SerializationError, match="its headers are 0 to 5 of 4"):
            rows.record(0)

    def test_a_time_beyond_64_bits_is_not_a_record(self, form: Form) -> None:
        columns, _ = columns_of(
            pa.record_batch({"value": [b"x"] * 2, "timestamp": pa.array([2**60, -(2**60)], pa.timestamp("s"))})
        )
        rows = planned(form, columns, ROUTE)
        assert rows.append_run(form[1].RecordBatchBuilder(1 << 20), 2, PLENTY) == 0
        for row in range(2):
            with pytest.raises(SerializationError, match="timestamp is out of range"):
                rows.record(row)


def test_the_words_are_numbered_as_the_compiled_kernel_has_them() -> None:
    assert [int(layout) for layout in Layout] == [0, 1, 2, 3, 4]
    assert words.NULL_TOPIC == -1
