"""aiokafkapy.record.builder in both its forms: each alone, and both against each other, byte for byte."""

from __future__ import annotations

import array
import gc
import mmap
import random
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafkapy.errors import CorruptMessageError, IllegalStateError, RecordTooLargeError
from aiokafkapy.record.compression import Compression, compress

BASE = 1_700_000_000_000
INT64 = st.integers(-(2**63), 2**63 - 1)
FIELD = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=20), FIELD), max_size=4)
RECORD = st.tuples(INT64 | st.integers(BASE, BASE + 5000), FIELD, FIELD, st.none() | HEADERS | HEADERS.map(tuple))
RECORDS = st.lists(RECORD, min_size=1, max_size=40)


def filled(kernel: ModuleType, records: Any, limit: int = 1 << 30) -> Any:
    builder = kernel.RecordBatchBuilder(limit)
    for record in records:
        builder.try_append(*record)
    return builder


def encoded(builder: Any) -> bytes:
    if not builder.is_sealed:
        builder.seal(0)
    return b"".join(builder.buffers())


class TestTheTwoForms:
    @given(RECORDS, st.integers(0, 4000))
    def test_encode_the_same_bytes_and_say_the_same_of_them(
        self, kernels: tuple[ModuleType, ModuleType], records: Any, limit: int
    ) -> None:
        compiled, interpreted = (kernel.RecordBatchBuilder(limit) for kernel in kernels)
        for record in records:
            assert compiled.try_append(*record) == interpreted.try_append(*record)
        names = ("size", "count", "records_size", "base_timestamp", "max_timestamp", "limit")
        assert [getattr(compiled, name) for name in names] == [getattr(interpreted, name) for name in names]
        assert bytes(compiled.records_view()) == bytes(interpreted.records_view())
        assert encoded(compiled) == encoded(interpreted)

    @given(st.none() | HEADERS | HEADERS.map(tuple) | st.lists(st.text(max_size=2) | st.tuples(st.text())))
    def test_find_the_same_headers_plain(self, kernels: tuple[ModuleType, ModuleType], headers: Any) -> None:
        compiled, interpreted = (kernel.plain_headers(headers) for kernel in kernels)
        assert compiled == interpreted
        assert compiled is None or compiled == tuple(headers)

    @pytest.mark.parametrize("item", [("a", bytearray()), ("\ud800", b""), ["a", b""], ("a", "b"), (b"a", b""), ("a",)])
    def test_find_none_plain_when_one_is_not(self, kernels: tuple[ModuleType, ModuleType], item: Any) -> None:
        for kernel in kernels:
            assert kernel.plain_headers([("a", b"1"), ("b", None)]) == (("a", b"1"), ("b", None))
            assert kernel.plain_headers([("a", b"1"), item]) is None

    @given(st.lists(HEADERS, min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=8))
    def test_encode_headers_that_were_checked_before_as_others(
        self, kernels: tuple[ModuleType, ModuleType], given_headers: Any, order: list[int]
    ) -> None:
        compiled, interpreted = (filled(kernel, []) for kernel in kernels)
        checked = [kernels[0].plain_headers(headers) for headers in given_headers]
        for number in order:
            # The last headers known as plain are this tuple, another one, or a list like it.
            headers = given_headers[number % len(checked)]
            found = checked[number % len(checked)]
            if number % 2:
                kernels[0].plain_headers(found)
            size = compiled.try_append(BASE, None, b"", headers if found is None else found)
            assert size == interpreted.try_append(BASE, None, b"", headers)
        if order:
            assert encoded(compiled) == encoded(interpreted)

    def test_let_go_of_checked_headers_when_they_are_in_a_batch(self, kernels: tuple[ModuleType, ModuleType]) -> None:
        value = bytes(1000)
        before = sys.getrefcount(value)
        for kernel in kernels:
            filled(kernel, [(BASE, None, b"", kernel.plain_headers([("a", value)]))])
        assert sys.getrefcount(value) == before

    @pytest.mark.parametrize(
        "number", [0, 1, 2**30, 2**31, 2**62, 2**63 - 1, -1, -2, -(2**63), 2**63, 2**64, 10**400, True, 1.0, "1", None]
    )
    def test_find_the_same_numbers_plain(self, kernels: tuple[ModuleType, ModuleType], number: Any) -> None:
        expected = number if type(number) is int and 0 <= number <= 2**63 - 1 else -1
        assert [kernel.plain_number(number) for kernel in kernels] == [expected, expected]

    @given(
        INT64,
        st.integers(-(2**15), 2**15 - 1),
        st.integers(-(2**31), 2**31 - 1),
        st.booleans(),
        st.integers(0, 4),
        RECORDS,
    )
    def test_write_the_same_header(
        self,
        kernels: tuple[ModuleType, ModuleType],
        producer_id: int,
        epoch: int,
        sequence: int,
        is_transactional: bool,
        codec: int,
        records: Any,
    ) -> None:
        results = []
        for kernel in kernels:
            builder = filled(kernel, records)
            builder.seal(codec, compress(codec, builder.records_view()) if codec else None)
            builder.stamp(producer_id, epoch, sequence, is_transactional)
            results.append((encoded(builder), builder.size))
        assert results[0] == results[1]

    @given(RECORDS, INT64, INT64 | st.none())
    def test_decode_the_same_records(
        self, kernels: tuple[ModuleType, ModuleType], records: Any, base_offset: int, append_time: int | None
    ) -> None:
        builder = filled(kernels[1], records)
        data = builder.records_view()
        compiled, interpreted = (
            kernel.decode_records(data, len(records), base_offset, builder.base_timestamp, append_time, "t", 3)
            for kernel in kernels
        )
        assert compiled == interpreted

    @pytest.mark.slow
    @settings(max_examples=400)
    @given(RECORDS, st.randoms(use_true_random=False), st.integers(-1, 3))
    def test_judge_mutated_bytes_alike(
        self, kernels: tuple[ModuleType, ModuleType], records: Any, random: random.Random, count_error: int
    ) -> None:
        data = bytearray(filled(kernels[1], records).records_view())
        for _ in range(random.randint(0, 3)):
            data[random.randrange(len(data))] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)))
        del data[random.randint(len(data) * 3 // 4, len(data)) :]
        outcomes = [self._outcome(kernel, data, len(records) + count_error) for kernel in kernels]
        assert outcomes[0] == outcomes[1]

    @settings(max_examples=400)
    @given(st.binary(max_size=200), st.integers(-1, 30))
    def test_judge_garbage_alike(self, kernels: tuple[ModuleType, ModuleType], data: bytes, count: int) -> None:
        outcomes = [self._outcome(kernel, data, count) for kernel in kernels]
        assert outcomes[0] == outcomes[1]

    @given(st.binary(max_size=70))
    def test_hash_the_same(self, kernels: tuple[ModuleType, ModuleType], data: bytes) -> None:
        compiled, interpreted = kernels
        assert compiled.murmur2(data) == interpreted.murmur2(data) == compiled.murmur2(memoryview(data))

    @given(
        items=st.lists(st.none() | st.binary(max_size=20) | st.just(bytearray(b"?")), max_size=20),
        start=st.integers(0, 20),
        stop=st.integers(0, 25),
    )
    def test_size_plain_values_alike(
        self, kernels: tuple[ModuleType, ModuleType], items: list[Any], start: int, stop: int
    ) -> None:
        expected, values = None, items[start:stop]
        if not any(isinstance(value, bytearray) for value in values):
            sizes = array.array("q", [-1 if value is None else len(value) for value in values])
            expected = sizes, sum(len(value or b"") for value in values)
        assert [kernel.plain_sizes(items, start, stop) for kernel in kernels] == [expected, expected]

    @given(
        st.lists(st.none() | st.binary(max_size=200) | st.just(bytearray(b"?")), min_size=1, max_size=200),
        st.integers(0, 9000),
        INT64,
        st.integers(1, 200),
    )
    def test_encode_a_run_as_one_by_one(
        self, kernels: tuple[ModuleType, ModuleType], values: list[Any], limit: int, timestamp_ms: int, stop: int
    ) -> None:
        stop = min(stop, len(values))
        single = kernels[1].RecordBatchBuilder(limit)
        wanted = [single.try_append(BASE if not n else timestamp_ms, None, values[n], None) > 0 for n in range(stop)]
        wanted_count = [*wanted, False].index(False)
        single = filled(kernels[1], [(BASE, None, values[0], None)], limit)
        for value in values[1:wanted_count]:
            single.try_append(timestamp_ms, None, value, None)
        for kernel in kernels:
            builder = kernel.RecordBatchBuilder(limit)
            assert kernel is kernels[1] or builder.append_run(BASE, values, 0, stop) == 0
            builder.try_append(BASE, None, values[0], None)
            position = 1
            while (position := builder.append_run(timestamp_ms, values, position, stop)) < stop:
                if builder.try_append(timestamp_ms, None, values[position], None) <= 0:
                    break
                position += 1
            assert position == builder.count == wanted_count
            assert builder.max_timestamp == single.max_timestamp
            assert encoded(builder) == encoded(single)

    @pytest.mark.parametrize("size", [None, 0, 1, 49, 50, 51, 63, 64, 8_200, 70_000])
    def test_encode_values_of_one_size_alike_with_other_records_between(
        self, kernels: tuple[ModuleType, ModuleType], size: int | None
    ) -> None:
        # Offsets grow by a byte at 64 and 8,192, distances in time at 64 and 8,192 ms.
        count = 8_300 if (size or 0) < 1_000 else 70
        value = None if size is None else b"v" * size
        others = {
            5: (b"key", value, None),
            9: (None, b"other", None),
            70: (None, value, (("h", b"1"),)),
            8_250: (b"", b"", None),
        }
        records = [(BASE + (place // 60) ** 2, *others.get(place, (None, value, None))) for place in range(count)]
        compiled, interpreted = (filled(kernel, records) for kernel in kernels)
        assert compiled.count == interpreted.count == count
        assert encoded(compiled) == encoded(interpreted)

    @given(
        st.lists(st.tuples(st.none() | st.integers(0, 120), st.integers(1, 90)), min_size=1, max_size=6),
        st.integers(100, 20_000),
        st.integers(-1, 9_000),
        st.integers(1, 5_000),
    )
    def test_encode_a_run_of_values_of_a_few_sizes_as_one_by_one(
        self, kernels: tuple[ModuleType, ModuleType], groups: Any, limit: int, delta: int, step: int
    ) -> None:
        sizes = [size for size, count in groups for _ in range(count)]
        values = [None if size is None else bytes([place & 255]) * size for place, size in enumerate(sizes)]
        single = kernels[1].RecordBatchBuilder(limit)
        for place, value in enumerate(values):
            if single.try_append(BASE + delta if place else BASE, None, value, None) == 0:
                break
        for kernel in kernels:
            builder = kernel.RecordBatchBuilder(limit)
            builder.allowance = 0
            position = 0
            while position < len(values):
                took = builder.try_append(BASE + delta if position else BASE, None, values[position], None)
                if took < 0:  # it grows in steps, as the accumulator lets it
                    builder.allowance = max(-took, builder.allowance + step)
                elif took == 0:
                    break
                else:
                    position = builder.append_run(BASE + delta, values, position + 1, len(values))
                assert builder.capacity <= builder.allowance
            assert position == builder.count == single.count
            assert builder.max_timestamp == single.max_timestamp
            assert bytes(builder.records_view()) == bytes(single.records_view())

    @pytest.mark.parametrize("size", [0, 50, 63, 64, 2_040])
    @pytest.mark.parametrize("delta", [0, 63, 64, 4_095, 4_096])
    def test_encode_a_long_run_of_one_size_as_one_by_one(
        self, kernels: tuple[ModuleType, ModuleType], size: int, delta: int
    ) -> None:
        count = 8_300 if size <= 64 else 300
        values = [b"v" * size] * count
        first = (BASE, None, values[0], None)
        wanted = encoded(filled(kernels[1], [first, *[(BASE + delta, None, value, None) for value in values[1:]]]))
        for kernel in kernels:
            builder = filled(kernel, [first])
            position = 1
            while (position := builder.append_run(BASE + delta, values, position, count)) < count:
                assert builder.try_append(BASE + delta, None, values[position], None) > 0
                position += 1
            assert encoded(builder) == wanted

    def test_a_run_of_a_batch_that_takes_no_more_is_empty(self, kernels: tuple[ModuleType, ModuleType]) -> None:
        builder = filled(kernels[0], [(BASE, None, b"a", None)])
        assert builder.append_run(BASE, (b"b",), 0, 1) == 0  # only lists are
        builder.records_view()
        assert builder.append_run(BASE, [b"b"], 0, 1) == 0

    @given(RECORD)
    def test_give_the_same_upper_bound(self, kernels: tuple[ModuleType, ModuleType], record: Any) -> None:
        compiled, interpreted = (kernel.record_size_upper_bound(*record[1:]) for kernel in kernels)
        assert compiled == interpreted

    @staticmethod
    def _outcome(kernel: ModuleType, data: bytes | bytearray, count: int) -> object:
        try:
            return kernel.decode_records(data, count, 0, BASE)
        except CorruptMessageError as error:
            return str(error)


class TestAppend:
    @given(RECORDS)
    def test_returns_the_bytes_that_a_record_takes(self, kernel: ModuleType, records: Any) -> None:
        builder = kernel.RecordBatchBuilder(1 << 30)
        sizes = [builder.try_append(*record) for record in records]
        assert builder.records_size == sum(sizes) == len(builder.records_view())
        assert builder.size == 61 + sum(sizes) == len(encoded(builder))

    @given(RECORD)
    def test_stays_below_the_upper_bound(self, kernel: ModuleType, record: Any) -> None:
        builder = filled(kernel, [record])
        assert (
            builder.size <= kernel.record_size_upper_bound(*record[1:]) < builder.size + 60 + 10 * len(record[3] or ())
        )

    def test_refuses_a_record_that_does_not_fit_and_leaves_the_batch_as_it_was(self, kernel: ModuleType) -> None:
        builder = kernel.RecordBatchBuilder(200)
        assert builder.try_append(BASE, None, b"x" * 100, None) > 100
        size = builder.size
        assert builder.try_append(BASE - 5, None, b"x" * 100, None) == 0
        assert (builder.size, builder.count, builder.max_timestamp) == (size, 1, BASE)
        assert builder.try_append(BASE, None, b"x", None) > 0

    def test_fills_a_batch_to_the_last_byte_of_its_limit(self, kernel: ModuleType) -> None:
        first = filled(kernel, [(BASE, None, b"x" * 50, None)]).size
        second = filled(kernel, [(BASE, None, b"x" * 50, None)] * 2).size
        assert filled(kernel, [(BASE, None, b"x" * 50, None)] * 2, second - 1).size == first
        assert filled(kernel, [(BASE, None, b"x" * 50, None)] * 2, second).size == second

    def test_takes_any_first_record(self, kernel: ModuleType) -> None:
        builder = kernel.RecordBatchBuilder(100)
        assert builder.try_append(BASE, None, b"x" * 1000, None) > 1000
        assert builder.try_append(BASE, None, b"", None) == 0

    @pytest.mark.parametrize(
        "data",
        [bytearray(b"abcd"), memoryview(b"abcd"), memoryview(b"a-b-c-d")[::2], array.array("B", b"abcd")],
        ids=["bytearray", "memoryview", "not contiguous", "array"],
    )
    def test_takes_any_object_with_bytes(self, kernel: ModuleType, data: Any) -> None:
        expected = filled(kernel, [(BASE, b"abcd", b"abcd", [("h", b"abcd")])])
        assert encoded(filled(kernel, [(BASE, data, data, [("h", data)])])) == encoded(expected)
        assert encoded(filled(kernel, [(BASE, b"abcd", data, None)])) == encoded(
            filled(kernel, [(BASE, b"abcd", b"abcd", ())])
        )

    def test_takes_items_wider_than_a_byte(self, kernel: ModuleType) -> None:
        wide = array.array("i", [1, 2, 3])
        assert next(filled(kernel, [(BASE, None, wide, None)]).records())[2] == wide.tobytes()

    def test_copies_so_that_a_buffer_may_be_used_again(self, kernel: ModuleType) -> None:
        data = bytearray(b"before")
        builder = filled(kernel, [(BASE, None, data, None)])
        data[:] = b"after!"
        data += b"and longer"
        assert next(builder.records())[2] == b"before"

    @pytest.mark.parametrize(
        ("key", "value", "headers", "error"),
        [
            ("text", None, None, TypeError),
            (None, "text", None, TypeError),
            (b"k", 5, None, TypeError),
            (b"k", b"v", [("name", "text")], TypeError),
            (b"k", b"v", [("name", 5)], TypeError),
            (b"k", b"v", [(b"name", b"value")], TypeError),
            (b"k", b"v", [("name",)], ValueError),
            (b"k", b"v", [("good", b""), ("lone surrogate \ud800", b"")], UnicodeEncodeError),
            (bytearray(b"k"), b"v", (("lone surrogate \ud800", b""),), UnicodeEncodeError),
            (b"k", b"v", 5, TypeError),
        ],
    )
    def test_leaves_the_batch_as_it_was_when_it_raises(
        self, kernel: ModuleType, key: Any, value: Any, headers: Any, error: type[Exception]
    ) -> None:
        builder = filled(kernel, [(BASE, b"k", b"v", None)])
        before = (builder.size, builder.count, builder.max_timestamp)
        with pytest.raises(error):
            builder.try_append(BASE + 1, key, value, headers)
        assert (builder.size, builder.count, builder.max_timestamp) == before
        assert encoded(builder) == encoded(filled(kernel, [(BASE, b"k", b"v", None)]))

    def test_refuses_a_timestamp_of_more_than_64_bits(self, kernel: ModuleType) -> None:
        with pytest.raises(OverflowError):
            kernel.RecordBatchBuilder(100).try_append(2**63, None, None, None)

    def test_refuses_a_record_that_no_batch_can_hold(self, kernels: tuple[ModuleType, ModuleType]) -> None:
        # Only compiled: the twin would copy the 2 GiB before it counts them.
        with mmap.mmap(-1, 2**31) as huge:
            builder = kernels[0].RecordBatchBuilder(1000)
            with pytest.raises(RecordTooLargeError) as raised:
                builder.try_append(BASE, None, huge, None)
        assert raised.value.limit == 2**31 - 1
        assert raised.value.size is not None
        assert raised.value.size > raised.value.limit
        assert builder.count == 0

    def test_keeps_the_first_timestamp_as_base_and_the_greatest_as_maximum(self, kernel: ModuleType) -> None:
        timestamps = [BASE, BASE - 70, BASE + 9, BASE + 3, -(2**63), 2**63 - 1]
        builder = filled(kernel, [(timestamp, None, None, None) for timestamp in timestamps])
        assert (builder.base_timestamp, builder.max_timestamp) == (BASE, 2**63 - 1)
        assert [record[0] for record in builder.records()] == timestamps

    def test_takes_no_more_once_viewed_or_sealed(self, kernel: ModuleType) -> None:
        viewed = filled(kernel, [(BASE, None, b"v", None)])
        viewed.records_view()
        sealed = filled(kernel, [(BASE, None, b"v", None)])
        sealed.seal(0)
        for builder in (viewed, sealed):
            with pytest.raises(IllegalStateError):
                builder.try_append(BASE, None, b"v", None)


class TestMemory:
    @given(st.lists(st.integers(0, 3000), min_size=1, max_size=200))
    def test_holds_little_more_than_the_records_use(self, kernel: ModuleType, sizes: list[int]) -> None:
        builder = kernel.RecordBatchBuilder(1 << 30)
        for size in sizes:
            builder.try_append(BASE, None, bytes(size), None)
            assert builder.capacity >= builder.records_size
            # A record that opens a block may round it up, by less than its own size.
            assert builder.capacity <= max(4096, 1.25 * builder.records_size + 3100)

    def test_holds_a_quarter_more_at_most_once_a_batch_is_large(self, kernel: ModuleType) -> None:
        builder = kernel.RecordBatchBuilder(1 << 20)
        while builder.try_append(BASE, None, bytes(100), None):
            if builder.records_size > 16384:
                assert builder.capacity <= 1.26 * builder.records_size

    @given(st.lists(st.integers(0, 6000), min_size=1, max_size=60), st.integers(0, 40_000))
    def test_never_holds_more_than_it_is_allowed(self, kernel: ModuleType, sizes: list[int], allowance: int) -> None:
        builder = kernel.RecordBatchBuilder(1 << 30)
        builder.allowance = allowance
        for size in sizes:
            before = (builder.size, builder.count, builder.capacity)
            result = builder.try_append(BASE, b"k", bytes(size), None)
            if result < 0:
                assert (builder.size, builder.count, builder.capacity) == before
                assert -result > builder.allowance
                # The size that it asks for is enough.
                builder.allowance = -result
                assert builder.try_append(BASE, b"k", bytes(size), None) > size
            assert builder.capacity <= builder.allowance

    def test_over_its_allowance_says_so_only_where_the_record_would_fit(self, kernel: ModuleType) -> None:
        builder = filled(kernel, [(BASE, None, bytes(100), None)], 1000)
        builder.allowance = 0
        assert builder.try_append(BASE, None, bytes(2000), None) == 0
        assert builder.try_append(BASE, None, bytes(700), None) < 0

    def test_gives_a_lone_record_a_small_block(self, kernel: ModuleType) -> None:
        assert filled(kernel, [(BASE, None, bytes(100), None)], 1 << 17).capacity <= 512

    def test_frees_the_raw_records_once_compressed(self, kernel: ModuleType) -> None:
        builder = filled(kernel, [(BASE, None, bytes(100_000), None)])
        payload = compress(Compression.ZSTD, builder.records_view())
        builder.seal(Compression.ZSTD, payload)
        assert builder.capacity == len(payload) < 1000
        assert builder.size == 61 + len(payload)
        with pytest.raises(IllegalStateError):
            builder.records_view()

    def test_keeps_viewed_memory_alive_and_unchanged(self, kernel: ModuleType) -> None:
        builder = filled(kernel, [(BASE, b"k", bytes([i]) * 900, None) for i in range(50)])
        expected = bytes(builder.records_view())
        view = builder.records_view()
        builder.seal(0)
        buffers = builder.buffers()
        del builder
        gc.collect()
        others = [filled(kernel, [(BASE, b"K", b"\xff" * 900, None)] * 50) for _ in range(20)]
        assert bytes(view) == expected == b"".join(buffers[1:])
        assert len(others) == 20

    @pytest.mark.parametrize("payload", [None, b"payload"])
    def test_gives_a_small_batch_in_one_piece_where_it_is_compiled(
        self, kernels: tuple[ModuleType, ModuleType], payload: bytes | None
    ) -> None:
        small, large = (filled(kernels[0], [(BASE, b"k", bytes(size), None)]) for size in (2000, 3000))
        small.seal(0 if payload is None else 1, payload)
        large.seal(0)
        assert (len(small.buffers()), len(large.buffers())) == (1, 2)

    def test_gives_buffers_that_nobody_can_write_to(self, kernel: ModuleType) -> None:
        builder = filled(kernel, [(BASE, b"k", b"v", None)])
        builder.seal(0)
        assert all(memoryview(buffer).readonly for buffer in builder.buffers())

    def test_uses_freed_memory_again(self, kernel: ModuleType) -> None:
        for round_number in range(300):
            value = bytes([round_number % 256]) * 700
            builder = filled(kernel, [(BASE, None, value, None)] * 40)
            assert all(record[2] == value for record in builder.records())


class TestSealAndStamp:
    def test_the_same_values_give_the_same_bytes(self, kernel: ModuleType) -> None:
        builder = filled(kernel, [(BASE, b"k", b"v", None)])
        builder.seal(0)
        builder.stamp(5, 1, 10)
        first = encoded(builder)
        builder.stamp(5, 2, 0)
        second = encoded(builder)
        builder.stamp(5, 1, 10)
        assert encoded(builder) == first != second

    def test_another_stamp_leaves_the_buffers_given_before(self, kernel: ModuleType) -> None:
        builder = filled(kernel, [(BASE, b"k", b"v", None)])
        builder.seal(0)
        builder.stamp(5, 1, 10)
        before = builder.buffers()
        copy = b"".join(before)
        builder.stamp(5, 2, 0)
        assert b"".join(before) == copy
        assert b"".join(builder.buffers()) != copy

    def test_a_stamped_batch_can_be_read(self, kernel: ModuleType) -> None:
        builder = filled(kernel, [(BASE, b"k", b"v", None)])
        assert (builder.producer_id, builder.producer_epoch, builder.base_sequence) == (-1, -1, -1)
        builder.seal(0)
        builder.stamp(5, 1, 10, is_transactional=True)
        assert (builder.producer_id, builder.producer_epoch, builder.base_sequence) == (5, 1, 10)
        assert builder.is_transactional

    def test_a_codec_and_a_payload_go_together(self, kernel: ModuleType) -> None:
        builder = filled(kernel, [(BASE, b"k", b"v", None)])
        with pytest.raises(ValueError):
            builder.seal(1)
        with pytest.raises(ValueError):
            builder.seal(0, b"payload")
        assert not builder.is_sealed

    def test_out_of_order_calls_are_refused(self, kernel: ModuleType) -> None:
        builder = filled(kernel, [(BASE, b"k", b"v", None)])
        with pytest.raises(IllegalStateError):
            builder.stamp(1, 1, 1)
        with pytest.raises(IllegalStateError):
            builder.buffers()
        builder.seal(0)
        with pytest.raises(IllegalStateError):
            builder.seal(0)

    @pytest.mark.parametrize("codec", list(Compression))
    def test_records_can_be_read_back_for_a_split(
        self, kernel: ModuleType, codec: Compression, records_of: dict[str, Any]
    ) -> None:
        builder = filled(kernel, records_of["mixed"])
        assert list(builder.records()) == records_of["mixed"]
        builder.seal(codec, compress(codec, builder.records_view()) if codec else None)
        assert list(builder.records()) == records_of["mixed"]

    @pytest.mark.parametrize(
        ("name", "stamp"),
        [
            ("plain", None),
            ("mixed", None),
            ("mixed-idempotent", (42, 7, 1000, False)),
            ("mixed-transactional", (1 << 40, 32767, 2147483647, True)),
        ],
    )
    def test_the_bytes_are_those_of_java(
        self,
        kernel: ModuleType,
        name: str,
        stamp: tuple[int, int, int, bool] | None,
        golden_batches: dict[str, bytes],
        records_of: dict[str, Any],
    ) -> None:
        builder = filled(kernel, records_of[name.partition("-")[0]])
        builder.seal(0)
        if stamp is not None:
            builder.stamp(*stamp)
        assert encoded(builder) == golden_batches[name]


class TestDecode:
    def test_gives_the_records_in_the_order_of_consumed_records_fields(self, kernel: ModuleType) -> None:
        data = filled(kernel, [(BASE, b"k", b"v", [("h", None)]), (BASE + 5, None, None, None)]).records_view()
        assert kernel.decode_records(data, 2, 100, BASE, None, "t", 7) == [
            (100, b"k", b"v", (("h", None),), BASE, "t", 7, 0),
            (101, None, None, (), BASE + 5, "t", 7, 0),
        ]
        assert kernel.decode_records(data, 2, 100, BASE, 12345, "t", 7)[1] == (101, None, None, (), 12345, "t", 7, 1)

    def test_reads_header_names_that_are_not_utf8_with_replacement(self, kernel: ModuleType) -> None:
        data = bytes.fromhex("14 00 00 00 01 01 02 04 c3 28 01".replace(" ", ""))
        assert kernel.decode_records(data, 1, 0, 0)[0][3] == (("\ufffd(", None),)

    @pytest.mark.parametrize(
        ("data", "count", "complaint"),
        [
            ("", 1, "cannot hold"),
            ("0c000000010100", -1, "cannot hold"),
            ("0c000000010100", 2**40, "cannot hold"),
            ("0c000000010100", 0, "left over"),
            ("0c00000001010000", 1, "left over"),
            ("0e00000001010000", 1, "left over"),
            ("0a0000000101", 0, "left over"),
            ("0a00000001010000", 1, "says it has 5 bytes"),
            ("0e000000010100", 1, "says it has 7 bytes"),
            ("ffffffffffff01", 1, "longer than 5 bytes"),
            ("0c00ffffffffffffffffffffff010100", 1, "ends within a number"),
            ("2000ffffffffffffffffffff010001010000", 1, "longer than 10 bytes"),
            ("0c000000050100", 1, "field says it has -3 bytes"),
            ("0c000000ff0f00", 1, "field says it has"),
            ("0c000000010102", 1, "says it has 1 headers"),
            ("0c000000010101", 1, "says it has -1 headers"),
            ("16000000010104010101010101", 1, "header without a name"),
            ("1200000001010204616161", 1, "field says it has 2 bytes|ends within a number"),
        ],
    )
    def test_refuses_fields_that_do_not_add_up(self, kernel: ModuleType, data: str, count: int, complaint: str) -> None:
        with pytest.raises(CorruptMessageError, match=complaint):
            kernel.decode_records(bytes.fromhex(data), count, 0, 0)

    def test_drops_bits_past_64_as_java_does(self, kernel: ModuleType) -> None:
        data = bytes.fromhex("1e" + "00" + "ffffffffffffffffff7f" + "00010100" + "00")[:-1]
        (record,) = kernel.decode_records(data, 1, 0, 0)
        assert record[4] == -(2**63)
