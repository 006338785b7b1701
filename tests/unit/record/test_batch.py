"""aiokafkapy.record.batch: Java's batches and our own are read; other bytes are refused."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafkapy.common import ConsumedRecord
from aiokafkapy.errors import CorruptMessageError, UnsupportedForMessageFormatError
from aiokafkapy.record.batch import (
    ControlType,
    RecordBatch,
    assign_offset,
    control_batch,
    iter_batches,
    set_append_time,
)
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression, compress

BASE = 1_700_000_000_000


def expected_records(
    items: Any, base_offset: int = 0, append_time: int | None = None, topic: str = "t", partition: int = 3
) -> list[ConsumedRecord]:
    return [
        ConsumedRecord(
            base_offset + index,
            key,
            value,
            headers,
            timestamp if append_time is None else append_time,
            topic,
            partition,
            int(append_time is not None),
        )
        for index, (timestamp, key, value, headers) in enumerate(items)
    ]


def small_batch(base_offset: int = 0, count: int = 2, codec: Compression = Compression.NONE) -> bytearray:
    builder = RecordBatchBuilder(1 << 20)
    for index in range(count):
        builder.try_append(BASE + index, b"key", b"value-%d" % index, [("h", b"1")])
    builder.seal(codec, compress(codec, builder.records_view()) if codec else None)
    builder.stamp(5, 1, 10)
    batch = bytearray().join(builder.buffers())
    assign_offset(batch, base_offset, 4)
    return batch


class TestGoldenBatches:
    def test_of_java_are_read_with_every_codec_and_level(
        self, golden_batches: dict[str, bytes], records_of: dict[str, Any]
    ) -> None:
        read = 0
        for name, data in golden_batches.items():
            records_name, _, kind = name.partition("-")
            if records_name not in records_of or kind == "append-time":
                continue
            batch = RecordBatch(data)
            batch.validate()
            assert batch.records("t", 3) == expected_records(records_of[records_name])
            codec = kind.partition("-")[0]
            assert batch.compression == (Compression[codec.upper()] if codec.upper() in Compression.__members__ else 0)
            read += 1
        assert read == 34

    def test_of_ours_that_java_read_are_read(self, our_batches: dict[str, bytes], records_of: dict[str, Any]) -> None:
        for name, data in our_batches.items():
            batch = RecordBatch(data)
            batch.validate()
            assert batch.records("t", 3) == expected_records(records_of[name.partition("-")[0]])
        assert len(our_batches) == 43

    def test_without_a_codec_are_still_made_as_java_read_them(
        self, our_batches: dict[str, bytes], records_of: dict[str, Any]
    ) -> None:
        for name in ("plain", "mixed", "random"):
            builder = RecordBatchBuilder(1 << 20)
            for record in records_of[name]:
                builder.try_append(*record)
            builder.seal(0)
            builder.stamp(42, 7, 1000)
            assert b"".join(builder.buffers()) == our_batches[f"{name}-none"]

    def test_of_append_time_give_every_record_that_time(
        self, golden_batches: dict[str, bytes], records_of: dict[str, Any]
    ) -> None:
        batch = RecordBatch(golden_batches["mixed-append-time"])
        batch.validate()
        assert batch.has_append_time
        assert (batch.base_offset, batch.leader_epoch, batch.last_offset, batch.next_offset) == (100, 3, 109, 110)
        assert batch.records("t", 3) == expected_records(records_of["mixed"], 100, BASE + 5)

    def test_of_a_producer_say_which(self, golden_batches: dict[str, bytes]) -> None:
        batch = RecordBatch(golden_batches["mixed-transactional"])
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (1 << 40, 32767, 2147483647)
        assert batch.is_transactional
        assert batch.has_producer_id
        assert not batch.is_control
        assert batch.last_sequence == 8, "sequence numbers wrap around to 0"
        nobodys = RecordBatch(golden_batches["mixed"])
        assert (nobodys.has_producer_id, nobodys.is_transactional, nobodys.last_sequence) == (False, False, -1)

    @pytest.mark.parametrize("control_type", list(ControlType))
    def test_that_end_a_transaction_are_read_and_made_as_java_does(
        self, golden_batches: dict[str, bytes], control_type: ControlType
    ) -> None:
        golden = golden_batches[control_type.name.lower()]
        batch = RecordBatch(golden)
        batch.validate()
        assert batch.is_control
        assert batch.control_type() is control_type
        made = control_batch(control_type, producer_id=42, producer_epoch=7, coordinator_epoch=9, timestamp_ms=BASE)
        assert bytes(made) == golden


class TestIteration:
    def test_finds_each_batch_where_it_lies(self) -> None:
        data = small_batch(0) + small_batch(2, codec=Compression.ZSTD) + small_batch(4)
        batches = list(iter_batches(data))
        assert [batch.base_offset for batch in batches] == [0, 2, 4]
        assert sum(batch.size for batch in batches) == len(data)
        for batch in batches:
            batch.validate()
            assert [record.offset for record in batch.records()] == [batch.base_offset, batch.last_offset]

    @pytest.mark.parametrize("left", [1, 11, 12, 20, 60, 61, 80])
    def test_drops_a_last_batch_that_is_not_all_there(self, left: int) -> None:
        whole = small_batch(0)
        data = whole + small_batch(2)[:left]
        assert [batch.base_offset for batch in iter_batches(data)] == [0]

    def test_of_nothing_finds_nothing(self) -> None:
        assert list(iter_batches(b"")) == []

    def test_refuses_impossible_lengths(self) -> None:
        for length in (-1, 0, 48, -(2**31)):
            data = small_batch()
            data[8:12] = length.to_bytes(4, signed=True)
            with pytest.raises(CorruptMessageError, match="its header alone has 61"):
                list(iter_batches(data))

    def test_names_the_old_message_formats(self) -> None:
        data = small_batch()
        data[16] = 1
        with pytest.raises(UnsupportedForMessageFormatError, match="message format 1"):
            list(iter_batches(data))
        data[16] = 3
        with pytest.raises(CorruptMessageError, match="message format 3"):
            list(iter_batches(data))


class TestChangesInPlace:
    def test_an_assigned_offset_leaves_the_crc_right(self) -> None:
        batch = small_batch()
        assign_offset(memoryview(batch), 2**40, 9)
        read = RecordBatch(batch)
        read.validate()
        assert (read.base_offset, read.leader_epoch) == (2**40, 9)
        assert [record.offset for record in read.records()] == [2**40, 2**40 + 1]

    def test_an_append_time_is_that_of_every_record(self) -> None:
        batch = small_batch()
        set_append_time(batch, BASE + 77)
        read = RecordBatch(batch)
        read.validate()
        assert read.has_append_time
        assert {(record.timestamp_ms, record.timestamp_type) for record in read.records()} == {(BASE + 77, 1)}


class TestHostileBatches:
    @pytest.mark.parametrize("position", [17, 21, 30, 45, 58, 62, 75])
    def test_a_changed_byte_fails_the_crc(self, position: int) -> None:
        batch = small_batch()
        batch[position] ^= 0x01
        with pytest.raises(CorruptMessageError, match="CRC"):
            RecordBatch(batch).validate()

    def test_a_codec_that_does_not_exist_is_named(self) -> None:
        batch = small_batch()
        batch[22] |= 7
        set_append_time(batch, BASE)  # makes the CRC right
        with pytest.raises(CorruptMessageError, match="codec 7"):
            RecordBatch(batch).validate()
        with pytest.raises(CorruptMessageError, match="codec 7"):
            RecordBatch(batch).records()

    @pytest.mark.parametrize(("position", "size"), [(23, 4), (57, 4)])
    def test_negative_counts_are_refused(self, position: int, size: int) -> None:
        batch = small_batch()
        batch[position : position + size] = b"\xff" * size
        set_append_time(batch, BASE)
        with pytest.raises(CorruptMessageError, match=r"over|says it has"):
            RecordBatch(batch).validate()

    def test_a_count_that_the_bytes_cannot_hold_is_refused(self) -> None:
        batch = small_batch()
        batch[57:61] = (2**31 - 1).to_bytes(4)
        with pytest.raises(CorruptMessageError, match="cannot hold"):
            RecordBatch(batch).records()

    def test_a_bomb_is_refused_at_the_bound(self) -> None:
        builder = RecordBatchBuilder(1 << 30)
        builder.try_append(BASE, None, bytes(10_000_000), None)
        builder.seal(Compression.ZSTD, compress(Compression.ZSTD, builder.records_view()))
        batch = RecordBatch(b"".join(builder.buffers()))
        assert batch.size < 2000
        with pytest.raises(CorruptMessageError, match="at most 1000000"):
            batch.records(max_decompressed_size=1_000_000)
        assert len(batch.records()[0].value or b"") == 10_000_000

    def test_less_than_a_batch_is_refused(self) -> None:
        for length in (0, 5, 30, 70):
            with pytest.raises(CorruptMessageError, match="not a whole batch"):
                RecordBatch(small_batch()[:length])

    def test_a_control_batch_without_a_key_is_refused(self) -> None:
        batch = small_batch(count=1)
        batch[21:23] = b"\x00\x20"
        batch[61:] = bytes.fromhex("0c000000010100")
        batch[8:12] = (len(batch) - 12).to_bytes(4)
        with pytest.raises(CorruptMessageError, match="no readable key"):
            RecordBatch(batch).control_type()
        assert RecordBatch(small_batch()).control_type() is None

    @settings(max_examples=300)
    @given(random=st.randoms(use_true_random=False), codec=st.sampled_from(Compression), count=st.integers(1, 20))
    def test_mutated_bytes_raise_nothing_but_the_documented_errors(
        self, random: random.Random, codec: Compression, count: int
    ) -> None:
        data = small_batch(0, count, codec) + small_batch(count, 1, codec)
        for _ in range(random.randint(1, 5)):
            data[random.randrange(len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        del data[random.randint(len(data) // 2, len(data)) :]
        try:
            for batch in iter_batches(data):
                records = batch.records(max_decompressed_size=100_000)
                assert len(records) == batch.record_count
                batch.control_type()
        except (CorruptMessageError, UnsupportedForMessageFormatError):
            pass

    @settings(max_examples=300)
    @given(data=st.binary(max_size=200), fix_magic=st.booleans())
    def test_garbage_raises_nothing_but_the_documented_errors(self, data: bytes, fix_magic: bool) -> None:
        garbage = bytearray(data)
        if fix_magic and len(garbage) > 61:
            garbage[8:12] = (len(garbage) - 12).to_bytes(4)
            garbage[16] = 2
        try:
            for batch in iter_batches(garbage):
                batch.records(max_decompressed_size=10_000)
        except (CorruptMessageError, UnsupportedForMessageFormatError):
            pass


@pytest.mark.parametrize("codec", list(Compression))
def test_a_batch_keeps_some_of_its_records_at_their_offsets(codec: Compression) -> None:
    builder = RecordBatchBuilder(10_000)
    for number in range(4):
        builder.try_append(BASE + number, b"k%d" % number, b"v" * 40, [("h", b"x")])
    builder.seal(codec, compress(codec, bytes(builder.records_view())) if codec else None)
    builder.stamp(7, 1, 5)
    data = bytearray().join(builder.buffers())
    assign_offset(data, 100, 3)
    batch = RecordBatch(data)
    rest = RecordBatch(batch.with_records([False, True, False, True], BASE + 3))
    rest.validate()
    assert rest.records() == [record for record in batch.records() if record.offset in (101, 103)]
    assert (rest.base_offset, rest.last_offset, rest.leader_epoch, rest.max_timestamp) == (100, 103, 3, BASE + 3)
    assert (rest.producer_id, rest.producer_epoch, rest.last_sequence) == (7, 1, 8)
    none = RecordBatch(batch.with_records([False] * 4, -1))
    none.validate()
    assert (none.records(), none.last_offset, none.last_sequence) == ([], 103, 8)
    empty = RecordBatch(batch.emptied(200))
    empty.validate()
    assert (empty.records(), empty.last_offset, empty.has_producer_id, empty.leader_epoch) == ([], 200, False, 3)


def test_records_that_are_not_there_cannot_be_kept() -> None:
    builder = RecordBatchBuilder(100)
    builder.try_append(BASE, b"k", b"v", ())
    builder.seal(0)
    batch = RecordBatch(b"".join(builder.buffers()))
    for claimed in (2, 9):
        with pytest.raises(CorruptMessageError):
            batch.with_records([True] * claimed, BASE)
    broken = bytearray(batch.buffer)
    broken[61:] = b"\xff" * len(broken[61:])
    with pytest.raises(CorruptMessageError):
        RecordBatch(broken).with_records([True], BASE)


@pytest.mark.parametrize("codec", list(Compression))
def test_other_records_take_the_place_of_a_batchs_own_by_its_codec(codec: Compression) -> None:
    batch = RecordBatch(small_batch(7, 2, codec))
    section = bytes(batch.section())
    changed = RecordBatch(batch.with_section(section.replace(b"value", b"other")))
    changed.validate()
    assert [record.value for record in changed.records()] == [b"other-0", b"other-1"]
    assert (changed.compression, changed.base_offset, changed.record_count) == (codec, 7, 2)
    assert [record.timestamp_ms for record in changed.records()] == [BASE, BASE + 1]
