"""The partition log, on memory and on files alike: appends, reads, look-ups, recovery."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.storage.checkpoint_file import DamagedFileError
from aiokafkapy.broker.storage.log import KEEP_FROM, PartitionLog
from aiokafkapy.broker.storage.log_storage import MemoryStorage
from aiokafkapy.broker.storage.producer_state import Marker
from aiokafkapy.broker.storage.topic_config import TopicConfig
from aiokafkapy.common import NO_TIMESTAMP
from aiokafkapy.errors import (
    CorruptMessageError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceNumberError,
    PolicyViolationError,
)
from aiokafkapy.record.batch import ControlType, RecordBatch, iter_batches
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression

from ..support import make_batch
from .logs import NOW_MS, OpenLog, append, values

# appending


def test_batches_get_the_offsets_in_turn_and_keep_their_bytes(open_log: OpenLog) -> None:
    log = open_log()
    first, second = make_batch([b"a", b"b"]), make_batch([b"c"])
    assert [append(log, first, 3), append(log, second, 4)] == [0, 2]
    assert (log.start_offset, log.end_offset, log.high_watermark, len(log._base_offsets)) == (0, 3, 3, 2)
    stored = b"".join(log.read(0, 10_000))
    batches = list(iter_batches(stored))
    for batch, sent, offset, epoch in zip(batches, (first, second), (0, 2), (3, 4), strict=True):
        batch.validate()
        assert (batch.base_offset, batch.leader_epoch) == (offset, epoch)
        assert bytes(batch.buffer[16:]) == sent[16:]
    assert log.size == len(stored)


def test_a_large_batch_is_kept_without_copying_it_and_reads_the_same(open_log: OpenLog) -> None:
    log = open_log(max_message_bytes="10000000")
    batch = make_batch([b"x" * KEEP_FROM])
    append(log, make_batch())
    append(log, batch)
    append(log, make_batch([b"after"]))
    assert values(log) == [b"value", b"x" * KEEP_FROM, b"after"]


def test_a_buffer_that_can_change_is_copied(open_log: OpenLog) -> None:
    log = open_log(max_message_bytes="10000000")
    for size in (10, KEEP_FROM):
        buffer = bytearray(make_batch([b"x" * size]))
        append(log, memoryview(buffer))  # type: ignore[arg-type]
        buffer[:] = bytes(len(buffer))
    assert [len(value or b"") for value in values(log)] == [10, KEEP_FROM]


@pytest.mark.parametrize("codec", list(Compression))
def test_compressed_batches_are_kept_as_they_came(open_log: OpenLog, codec: Compression) -> None:
    log = open_log()
    append(log, make_batch([b"a" * 100, b"b" * 100], compression=codec))
    assert RecordBatch(b"".join(log.read(0, 10_000))).compression is codec
    assert values(log) == [b"a" * 100, b"b" * 100]


def test_a_flipped_bit_is_a_corrupt_message(open_log: OpenLog) -> None:
    log = open_log()
    broken = bytearray(make_batch([b"hello"]))
    broken[-2] ^= 1
    with pytest.raises(CorruptMessageError, match="CRC"):
        append(log, bytes(broken))
    assert log.end_offset == 0


# timestamps


def test_log_append_time_becomes_the_time_of_every_record(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    info = log.append(make_batch([b"a", b"b"], timestamps=[1, 2]), 0, NOW_MS)
    assert info.log_append_time_ms == NOW_MS
    batch = RecordBatch(b"".join(log.read(0, 10_000)))
    batch.validate()
    assert [(record.timestamp_ms, record.timestamp_type) for record in log.records()] == [(NOW_MS, 1)] * 2
    found = log.max_timestamp()
    assert found is not None
    assert (found.timestamp_ms, found.offset) == (NOW_MS, 0)


# idempotence


def test_a_repeated_batch_gets_its_first_offset_again(open_log: OpenLog) -> None:
    log = open_log()
    for sequence in range(5):
        append(log, make_batch(producer=(9, 0, sequence)))
    info = log.append(make_batch(producer=(9, 0, 2)), 0, NOW_MS)
    assert (info.base_offset, info.last_offset, info.is_duplicate) == (2, 2, True)
    assert log.end_offset == 5


def test_a_batch_out_of_order_changes_nothing(open_log: OpenLog) -> None:
    log = open_log()
    append(log, make_batch(producer=(9, 0, 0)))
    with pytest.raises(OutOfOrderSequenceNumberError):
        append(log, make_batch(producer=(9, 0, 2)))
    assert append(log, make_batch(producer=(9, 0, 1))) == 1


# reading


def test_reading_is_by_whole_batches_within_the_limit(open_log: OpenLog) -> None:
    log = open_log()
    size = len(make_batch([b"a", b"b"]))
    for _ in range(4):
        append(log, make_batch([b"a", b"b"]))

    def batches(offset: int, max_bytes: int, *, minimum_one: bool = True) -> list[int]:
        data = b"".join(log.read(offset, max_bytes, minimum_one=minimum_one))
        return [batch.base_offset for batch in iter_batches(data)]

    assert batches(0, 10_000) == [0, 2, 4, 6]
    assert batches(3, 2 * size) == [2, 4]
    assert batches(2, 2 * size - 1) == [2]
    assert batches(2, 0) == [2]
    assert batches(2, size - 1, minimum_one=False) == []
    assert batches(2, size, minimum_one=False) == [2]
    assert batches(8, 10_000) == []
    assert log.bytes_from(3) == 3 * size
    assert log.bytes_from(8) == 0


@pytest.mark.parametrize("offset", [-1, 2])
def test_reading_out_of_range_is_reported(open_log: OpenLog, offset: int) -> None:
    log = open_log()
    append(log, make_batch())
    with pytest.raises(OffsetOutOfRangeError):
        log.read(offset, 100)


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=20),
    offset=st.integers(0, 80),
    max_bytes=st.integers(0, 2_000),
)
def test_any_read_gives_the_records_from_there_on(sizes: list[int], offset: int, max_bytes: int) -> None:
    log = PartitionLog("t", 0, TopicConfig(BrokerConfig()), MemoryStorage())
    for size in sizes:
        append(log, make_batch([b"v"] * size))
    offset = min(offset, log.end_offset)
    data = b"".join(log.read(offset, max_bytes))
    batches = list(iter_batches(data))
    if offset == log.end_offset:
        assert not batches
        return
    assert batches[0].base_offset <= offset < batches[0].next_offset
    assert len(data) <= max_bytes or len(batches) == 1
    assert [batch.next_offset for batch in batches[:-1]] == [batch.base_offset for batch in batches[1:]]


# look-ups


def test_the_look_up_by_time_finds_the_first_record_that_is_not_older(open_log: OpenLog) -> None:
    log = open_log()
    append(log, make_batch([b"a", b"b"], timestamps=[100, 300]), 1)
    append(log, make_batch([b"c", b"d"], timestamps=[200, 250]), 2)
    append(log, make_batch([b"e"], timestamps=[400]), 2)

    def found(timestamp_ms: int) -> tuple[int, int, int] | None:
        return log.offset_for_time(timestamp_ms)

    assert found(0) == (100, 0, 1)
    assert found(101) == (300, 1, 1)
    assert found(300) == (300, 1, 1)
    assert found(301) == (400, 4, 2)
    assert found(401) is None
    assert log.max_timestamp() == (400, 4, 2)


def test_an_empty_log_has_no_youngest_record(open_log: OpenLog) -> None:
    assert open_log().max_timestamp() is None


def test_the_look_up_by_time_skips_deleted_records(open_log: OpenLog) -> None:
    log = open_log()
    append(log, make_batch([b"a", b"b"], timestamps=[500, 600]))
    append(log, make_batch([b"c"], timestamps=[200]))
    append(log, make_batch([b"d"], timestamps=[550]))
    log.delete_records(2)
    assert log.offset_for_time(201) == (550, 3, 0)
    assert log.max_timestamp() == (550, 3, 0)


def test_the_look_up_by_time_finds_markers_as_in_kafka(open_log: OpenLog) -> None:
    log = open_log()
    append(log, make_batch([b"a"], timestamps=[100]))
    log.append_marker(Marker(ControlType.ABORT, 7, 0, 0), 0, 300)
    assert log.offset_for_time(200) == log.max_timestamp() == (300, 1, 0)


def test_the_look_up_by_epoch_knows_where_the_log_ends() -> None:
    log = PartitionLog("t", 0, TopicConfig(BrokerConfig()), MemoryStorage())
    append(log, make_batch([b"a", b"b"]), 1)
    append(log, make_batch([b"c"]), 4)
    assert log.end_offset_for_epoch(1, 6) == (1, 2)
    assert log.end_offset_for_epoch(4, 6) == (4, 3)
    assert [log.epoch_at(offset) for offset in range(4)] == [1, 1, 4, -1]
    log.delete_records(1)
    assert log.end_offset_for_epoch(0, 6) == (0, 1)


# deleting


def test_deleting_records_moves_the_start_and_never_back(open_log: OpenLog) -> None:
    log = open_log()
    for value in (b"a", b"b", b"c"):
        append(log, make_batch([value, value]))
    assert log.delete_records(3) == 3
    assert log.delete_records(1) == 3
    assert values(log) == [b"b", b"c", b"c"]
    with pytest.raises(OffsetOutOfRangeError):
        log.read(2, 100)
    assert log.delete_records(-1) == 6
    assert values(log) == []
    assert append(log, make_batch([b"d"])) == 6
    assert values(log) == [b"d"]


@pytest.mark.parametrize("offset", [4, -2])
def test_deleting_beyond_the_log_is_out_of_range(open_log: OpenLog, offset: int) -> None:
    log = open_log()
    append(log, make_batch([b"a"] * 3))
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records(offset)


def test_records_of_a_compacted_topic_are_not_deleted(open_log: OpenLog) -> None:
    with pytest.raises(PolicyViolationError):
        open_log(cleanup_policy="compact").delete_records(0)


def test_memory_gives_the_bytes_back_batch_by_batch() -> None:
    storage = MemoryStorage()
    log = PartitionLog("t", 0, TopicConfig(BrokerConfig()), storage)
    for _ in range(10):
        append(log, make_batch([b"x" * 100]))
    size = log.size
    log.delete_records(9)
    assert log.size == size // 10
    assert len(list(iter_batches(b"".join(log.read(9, 10_000))))) == 1


# files


def test_everything_is_there_again_after_opening(reopen: OpenLog) -> None:
    log = reopen(segment_bytes="300")
    for number in range(10):
        append(
            log,
            make_batch([b"%d" % number, b"x" * 50], producer=(3, 1, number * 2), timestamps=[number, number]),
            number,
        )
    log.delete_records(5)
    again = reopen(segment_bytes="300")
    assert (again.start_offset, again.end_offset) == (5, 20)
    assert again.records() == log.records()
    assert again.append(make_batch([b"9", b"x" * 50], producer=(3, 1, 18)), 0, NOW_MS).base_offset == 18
    with pytest.raises(OutOfOrderSequenceNumberError):
        append(again, make_batch(producer=(3, 1, 22)))
    assert append(again, make_batch(producer=(3, 1, 20))) == 20
    assert again.offset_for_time(7) == log.offset_for_time(7)
    assert again.epoch_at(6) == 3


def test_a_torn_tail_is_cut_off_wherever_it_tore(tmp_path: Path, reopen: OpenLog) -> None:
    log = reopen()
    append(log, make_batch([b"first"]))
    path = tmp_path / "0" / f"{0:020d}.log"
    whole = path.read_bytes()
    append(log, make_batch([b"second"]))
    both = path.read_bytes()
    for size in range(len(whole), len(both)):
        path.write_bytes(both[:size])
        again = reopen()
        assert values(again) == [b"first"]
        assert path.stat().st_size == len(whole)
        assert append(again, make_batch([b"third"])) == 1
        assert values(reopen()) == [b"first", b"third"]


def test_zeros_that_a_file_system_left_behind_the_last_batch_are_cut_off(tmp_path: Path, reopen: OpenLog) -> None:
    append(reopen(), make_batch([b"first"]))
    with (tmp_path / "0" / f"{0:020d}.log").open("ab") as file:
        file.write(bytes(200))
    assert values(reopen()) == [b"first"]


@pytest.mark.parametrize("garbage", [b"\xff" * 200, b"\x00" * 11 + b"\x7f" * 100])
def test_garbage_behind_the_last_batch_is_damage(tmp_path: Path, reopen: OpenLog, garbage: bytes) -> None:
    append(reopen(), make_batch([b"first"]))
    with (tmp_path / "0" / f"{0:020d}.log").open("ab") as file:
        file.write(garbage)
    with pytest.raises(DamagedFileError, match="where offset 1 should be"):
        reopen()


@pytest.mark.parametrize("segment_bytes", ["1000", "150"], ids=["one segment", "many segments"])
def test_a_flipped_bit_anywhere_is_damage_that_is_named_and_not_written_over(
    tmp_path: Path, reopen: OpenLog, segment_bytes: str
) -> None:
    log = reopen(segment_bytes=segment_bytes)
    for number in range(4):
        append(log, make_batch([b"%d" % number] * 2), 3)
    before = values(log)
    for path in sorted((tmp_path / "0").glob("*.log")):
        whole = path.read_bytes()
        for position in range(len(whole)):
            damaged = bytearray(whole)
            damaged[position] ^= 0x80
            path.write_bytes(damaged)
            with pytest.raises(DamagedFileError, match=path.name):
                reopen(segment_bytes=segment_bytes, newest_epoch=3)
            assert path.read_bytes() == damaged
        path.write_bytes(whole)
    assert values(reopen(segment_bytes=segment_bytes)) == before


def test_a_missing_segment_is_damage(tmp_path: Path, reopen: OpenLog) -> None:
    log = reopen(segment_bytes="150")
    for number in range(4):
        append(log, make_batch([b"%d" % number] * 2))
    log.delete_records(1)
    first, second, third, *_ = sorted((tmp_path / "0").glob("*.log"))
    second.rename(tmp_path / "second")
    with pytest.raises(DamagedFileError, match=rf"{third.name}.* end at offset {int(second.stem)}"):
        reopen(segment_bytes="150")
    (tmp_path / "second").rename(second)
    first.unlink()
    with pytest.raises(DamagedFileError, match=rf"{second.name}.* missing: the log starts at offset 1"):
        reopen(segment_bytes="150")


def test_a_start_offset_behind_the_last_record_leaves_an_empty_log_that_goes_on_there(
    tmp_path: Path, reopen: OpenLog
) -> None:
    """The machine died: the start was on the disk already, the last records were not."""
    log = reopen()
    for value in (b"a", b"b", b"c"):
        append(log, make_batch([value]))
    log.delete_records(2)
    path = tmp_path / "0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:90])
    for offset, expected in ((2, [b"d"]), (3, [b"d", b"d"])):
        again = reopen()
        assert (again.start_offset, again.end_offset) == (2, offset)
        assert append(again, make_batch([b"d"])) == offset
        assert values(reopen()) == expected


def test_segments_are_removed_when_all_their_records_are_deleted(tmp_path: Path, reopen: OpenLog) -> None:
    log = reopen(segment_bytes="150")
    for number in range(6):
        append(log, make_batch([b"%d" % number] * 2))
    before = len(list((tmp_path / "0").glob("*.log")))
    log.delete_records(-1)
    assert len(list((tmp_path / "0").glob("*.log"))) == 1 < before
    again = reopen(segment_bytes="150")
    assert (again.start_offset, again.end_offset) == (12, 12)
    assert append(again, make_batch()) == 12


def test_a_write_that_fails_leaves_the_log_as_it_was(
    tmp_path: Path, reopen: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    log = reopen()
    append(log, make_batch([b"first"], producer=(1, 0, 0)))
    really = os.pwritev

    def fail(descriptor: int, buffers: list[bytes], offset: int) -> int:
        really(descriptor, [bytes(buffers[0])[:20]], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", fail)
    with pytest.raises(KafkaStorageError, match="No space left on device"):
        append(log, make_batch([b"second"], producer=(1, 0, 1)))
    monkeypatch.undo()
    assert values(log) == [b"first"]
    assert values(reopen()) == [b"first"]
    assert append(log, make_batch([b"again"], producer=(1, 0, 1))) == 1
    assert values(reopen()) == [b"first", b"again"]


def test_a_write_in_pieces_is_carried_on(tmp_path: Path, reopen: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    really = os.pwrite
    monkeypatch.setattr(
        os, "pwritev", lambda descriptor, buffers, offset: really(descriptor, bytes(buffers[0])[:7], offset)
    )
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, offset: really(descriptor, data[:10], offset))
    append(reopen(), make_batch([b"whole"]))
    monkeypatch.undo()
    assert values(reopen()) == [b"whole"]


def test_flush_messages_1_has_every_batch_on_the_disk(reopen: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = synced_files(monkeypatch)
    append(reopen(), make_batch())
    assert not synced
    log = reopen(flush_messages="1")
    append(log, make_batch([b"on disk"]))
    assert synced.count(f"{0:020d}.log") == 1

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KafkaStorageError, match="Input/output error"):
        append(log, make_batch([b"perhaps"]))
    monkeypatch.undo()
    append(log, make_batch([b"next"]))
    assert values(log) == values(reopen()) == [b"value", b"on disk", b"next"]


def test_flush_messages_has_all_before_on_the_disk_too_and_the_names_of_new_files(
    reopen: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(reopen(), make_batch([b"of a process before"]))
    synced = synced_files(monkeypatch)
    log = reopen(flush_messages="4", segment_bytes="100")
    append(log, make_batch([b"one", b"two"]))
    append(log, make_batch([b"three"]))
    assert not synced
    append(log, make_batch([b"four"]))
    assert sorted(each for each in synced if each.endswith(".log")) == [f"{offset:020d}.log" for offset in (0, 1, 3, 4)]
    assert "0" in synced  # the folder, which has their names
    synced.clear()
    for value in (b"five", b"six", b"seven"):
        append(log, make_batch([value]))
    assert not synced
    append(log, make_batch([b"eight"]))
    assert sorted(each for each in synced if each.endswith(".log")) == [f"{offset:020d}.log" for offset in (5, 6, 7, 8)]


def synced_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files and folders that are flushed to the disk from now on."""
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    monkeypatch.setattr(os, "fsync", fsync)
    return synced


# transactions


def in_transaction(values: list[bytes], producer_id: int, sequence: int = 0, epoch: int = 0) -> bytes:
    builder = RecordBatchBuilder(2**20)
    for value in values:
        builder.try_append(1_000, None, value, ())
    builder.seal(Compression.NONE)
    builder.stamp(producer_id, epoch, sequence, is_transactional=True)
    return b"".join(builder.buffers())


def end(log: PartitionLog, control_type: ControlType, producer_id: int, epoch: int = 0) -> None:
    log.append_marker(Marker(control_type, producer_id, epoch, 0), 0, NOW_MS)


def test_only_the_records_of_a_transaction_that_was_aborted_are_aborted(open_log: OpenLog) -> None:
    log = open_log()
    append(log, in_transaction([b"first"], 7))
    append(log, make_batch([b"other"]))
    append(log, in_transaction([b"committed"], 8))
    end(log, ControlType.ABORT, 7)
    append(log, in_transaction([b"second"], 7, sequence=1))
    end(log, ControlType.COMMIT, 8)
    end(log, ControlType.COMMIT, 7)
    batches = list(iter_batches(b"".join(log.read(0, 10_000))))
    assert [batch.base_offset for batch in batches if log.is_aborted(batch)] == [0]


def test_the_last_stable_offset_is_where_the_first_open_transaction_begins(open_log: OpenLog) -> None:
    log = open_log()
    append(log, make_batch([b"before"]))
    append(log, in_transaction([b"a"], 7))
    append(log, in_transaction([b"b"], 8))
    append(log, in_transaction([b"c"], 7, 1))
    assert (log.last_stable_offset, log.high_watermark) == (1, 4)
    end(log, ControlType.COMMIT, 7)
    assert (log.last_stable_offset, log.high_watermark) == (2, 5)
    end(log, ControlType.ABORT, 8)
    assert log.last_stable_offset == log.high_watermark == 6
    assert log.aborted_transactions(0, 6) == [(8, 2, 5)]
    assert log.aborted_transactions(6, 7) == log.aborted_transactions(0, 2) == []
    assert values(log) == [b"before", b"a", b"b", b"c"], "markers are no records"
    end(log, ControlType.ABORT, 8)
    assert log.aborted_transactions(0, 10) == [(8, 2, 5)], "a second marker ends nothing"


def test_records_behind_the_last_stable_offset_are_not_read(open_log: OpenLog) -> None:
    log = open_log()
    append(log, make_batch([b"before"]))
    append(log, in_transaction([b"open"], 7))
    append(log, make_batch([b"after"]))
    stable = log.last_stable_offset
    for most in (1, 100, 10_000):
        (batch,) = iter_batches(b"".join(log.read(0, most, before=stable)))
        assert batch.base_offset == 0
    assert log.read(1, 10_000, before=stable) == []
    assert (log.bytes_from(0, before=stable), log.bytes_from(1, before=stable)) == (len(b"".join(log.read(0, 1))), 0)


def test_transactions_are_found_again(tmp_path: Path, open_log: OpenLog) -> None:
    log = open_log()
    append(log, in_transaction([b"aborted"], 7))
    end(log, ControlType.ABORT, 7)
    append(log, in_transaction([b"open"], 8))
    again = open_log()
    if again.end_offset:  # on files
        assert again.last_stable_offset == 2
        assert again.aborted_transactions(0, 3) == [(7, 0, 1)]
        assert append(again, in_transaction([b"more"], 8, 1)) == 3


def test_a_transaction_has_no_other_records_and_an_old_epoch_none_at_all(open_log: OpenLog) -> None:
    log = open_log()
    append(log, in_transaction([b"a"], 7, epoch=1))
    with pytest.raises(InvalidTxnStateError):
        append(log, make_batch([b"b"], producer=(7, 1, 1)))
    with pytest.raises(InvalidProducerEpochError):
        end(log, ControlType.COMMIT, 7, epoch=0)
    end(log, ControlType.COMMIT, 7, epoch=2)
    with pytest.raises(InvalidProducerEpochError):
        append(log, in_transaction([b"late"], 7, 1, epoch=1))
    append(log, in_transaction([b"next"], 7, 0, epoch=2))
    assert log.last_stable_offset == 2


# retention


def test_batches_that_are_too_old_go_and_no_others(open_log: OpenLog) -> None:
    log = open_log(retention_ms="1000")
    for timestamp in (NOW_MS, NOW_MS + 500, NOW_MS + 100, NOW_MS + 900):
        append(log, make_batch([b"%d" % (timestamp - NOW_MS)], timestamps=[timestamp]))
    assert not log.delete_expired(NOW_MS + 1_000)
    assert log.delete_expired(NOW_MS + 1_001)
    assert (log.start_offset, values(log)) == (1, [b"500", b"100", b"900"])
    assert log.delete_expired(NOW_MS + 1_501)
    assert values(log) == [b"900"]
    assert log.delete_expired(NOW_MS + 10_000)
    assert (log.start_offset, log.end_offset, log.size) == (4, 4, 0)
    assert append(log, make_batch()) == 4


def test_batches_without_a_time_are_as_old_as_the_last_append(open_log: OpenLog) -> None:
    log = open_log(retention_ms="1000")
    log.append(make_batch([b"a"], timestamps=[NO_TIMESTAMP]), 0, NOW_MS)
    log.append(make_batch([b"b"], timestamps=[NO_TIMESTAMP]), 0, NOW_MS + 500)
    assert not log.delete_expired(NOW_MS + 1_500)
    assert log.delete_expired(NOW_MS + 1_501)
    assert values(log) == []


def test_the_oldest_bytes_go_when_there_are_more_than_are_to_be_kept(open_log: OpenLog) -> None:
    size = len(make_batch([b"0"]))
    log = open_log(retention_bytes=str(2 * size), retention_ms="-1")
    for number in range(5):
        append(log, make_batch([b"%d" % number]))
    assert log.delete_expired(NOW_MS)
    assert values(log) == [b"3", b"4"]
    assert not log.delete_expired(NOW_MS)


def test_a_compacted_topic_and_an_open_transaction_keep_their_records(open_log: OpenLog) -> None:
    log = open_log(retention_ms="1", cleanup_policy="compact")
    append(log, make_batch(timestamps=[1]))
    assert not log.delete_expired(NOW_MS)
    log.config = log.config.altered({"cleanup.policy": "delete"})
    append(log, in_transaction([b"open"], 7))
    append(log, make_batch(timestamps=[2]))
    assert log.delete_expired(NOW_MS)
    assert log.start_offset == 1


def test_the_segment_that_kafka_would_write_to(open_log: OpenLog) -> None:
    size = len(make_batch())
    log = open_log(segment_bytes=str(2 * size), segment_ms="1000")
    assert log.active_segment_start(NOW_MS) == 0
    for number in range(5):
        append(log, make_batch(timestamps=[NOW_MS + number]))
        assert log.active_segment_start(NOW_MS) == number // 2 * 2
    assert log.active_segment_start(NOW_MS + 1_004) == 4
    assert log.active_segment_start(NOW_MS + 1_005) == 5
