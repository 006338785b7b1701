"""Compaction: the last record of each key stays, at its offset, in memory and on files, also after a restart."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.storage.log import PartitionLog
from aiokafkapy.broker.storage.log_cleaner import LogCleaner
from aiokafkapy.broker.storage.log_storage import FileStorage, MemoryStorage, OpenFiles
from aiokafkapy.broker.storage.producer_state import Marker
from aiokafkapy.broker.storage.topic_config import TopicConfig
from aiokafkapy.errors import KafkaStorageError, OffsetOutOfRangeError
from aiokafkapy.record.batch import ControlType, iter_batches
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression, compress

from .logs import NOW_MS, OpenLog, append

COMPACT = {"cleanup_policy": "compact"}
Records = Sequence[tuple[bytes, bytes | None]]


def keyed(
    records: Records,
    codec: Compression = Compression.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    *,
    is_transactional: bool = False,
    timestamp_ms: int = NOW_MS,
) -> bytes:
    builder = RecordBatchBuilder(2**24)
    for index, (key, value) in enumerate(records):
        builder.try_append(timestamp_ms + index, key, value, ())
    builder.seal(codec, compress(codec, bytes(builder.records_view())) if codec else None)
    builder.stamp(*producer, is_transactional=is_transactional)
    return b"".join(builder.buffers())


def contents(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in log.records()]


@pytest.mark.parametrize("codec", list(Compression))
def test_the_last_record_of_a_key_stays_at_its_offset(open_log: OpenLog, codec: Compression) -> None:
    log = open_log(**COMPACT)
    append(log, keyed([(b"a", b"1"), (b"b", b"1"), (b"a", b"2")], codec))
    append(log, keyed([(b"c", b"1"), (b"b", b"2")], codec))
    size = log.size
    assert LogCleaner(log).compact(NOW_MS) == size - log.size
    assert contents(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]
    assert (log.start_offset, log.end_offset) == (0, 5)
    for batch in iter_batches(b"".join(log.read(0, 10_000))):
        batch.validate()
    append(log, keyed([(b"c", b"2")], codec))
    assert contents(log)[-1] == (5, b"c", b"2")


def test_batches_without_records_become_one_and_readers_get_past_it(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    for number in range(20):
        append(log, keyed([(b"a", b"%d" % number)]))
    LogCleaner(log).compact(NOW_MS)
    empty, last = iter_batches(b"".join(log.read(0, 10_000)))
    assert (empty.base_offset, empty.last_offset, empty.record_count) == (0, 18, 0)
    assert last.base_offset == 19
    (batch,) = iter_batches(b"".join(log.read(7, 1)))
    assert batch.next_offset == 19
    assert LogCleaner(log).compact(NOW_MS) == 0
    assert len(list(iter_batches(b"".join(log.read(0, 10_000))))) == 2
    found = log.max_timestamp()
    assert found is not None
    assert found.offset == 19
    with pytest.raises(OffsetOutOfRangeError):
        log.read(21, 1)


def test_a_record_without_a_value_goes_when_everybody_could_have_seen_it(open_log: OpenLog) -> None:
    log = open_log(**COMPACT, delete_retention_ms="1000")
    append(log, keyed([(b"a", b"1"), (b"a", None)]))
    append(log, keyed([(b"b", b"1")]))
    cleaner = LogCleaner(log)
    cleaner.compact(NOW_MS)
    assert contents(log) == [(1, b"a", None), (2, b"b", b"1")]
    cleaner.compact(NOW_MS + 999)
    assert len(contents(log)) == 2
    cleaner.compact(NOW_MS + 1000)
    assert contents(log) == [(2, b"b", b"1")]


def test_young_records_stay_and_do_not_take_others_away(open_log: OpenLog) -> None:
    log = open_log(**COMPACT, min_compaction_lag_ms="1000")
    append(log, keyed([(b"a", b"1"), (b"a", b"2")]))
    append(log, keyed([(b"a", b"3")], timestamp_ms=NOW_MS + 500))
    cleaner = LogCleaner(log)
    cleaner.compact(NOW_MS + 1_001)
    assert [value for _, _, value in contents(log)] == [b"2", b"3"]
    cleaner.compact(NOW_MS + 1_500)
    assert [value for _, _, value in contents(log)] == [b"3"]


def test_transactions_are_decided_first_and_aborted_records_are_removed(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    append(log, keyed([(b"a", b"0")]))
    append(log, keyed([(b"a", b"aborted")], producer=(7, 0, 0), is_transactional=True))
    cleaner = LogCleaner(log)
    cleaner.compact(NOW_MS)
    assert [value for _, _, value in contents(log)] == [b"0", b"aborted"]
    log.append_marker(Marker(ControlType.ABORT, 7, 0, 0), 0, NOW_MS)
    append(log, keyed([(b"a", b"open")], producer=(8, 0, 0), is_transactional=True))
    cleaner.compact(NOW_MS)
    assert [value for _, _, value in contents(log)] == [b"0", b"open"]
    log.append_marker(Marker(ControlType.COMMIT, 8, 0, 0), 0, NOW_MS)
    cleaner.compact(NOW_MS)
    assert [value for _, _, value in contents(log)] == [b"open"]
    assert [batch.is_control for batch in iter_batches(b"".join(log.read(0, 10_000)))].count(True) == 2


def test_an_idempotent_producer_goes_on_and_its_retry_is_known(
    open_log: OpenLog, reopen: Callable[..., PartitionLog]
) -> None:
    log = open_log(**COMPACT)
    for sequence in range(8):
        append(log, keyed([(b"a", b"%d" % sequence)], producer=(7, 0, sequence)))
    append(log, keyed([(b"a", b"other")]))
    LogCleaner(log).compact(NOW_MS)
    if not isinstance(log._storage, MemoryStorage):
        log = reopen(**COMPACT)
    assert log.append(keyed([(b"a", b"7")], producer=(7, 0, 7)), 0, NOW_MS).is_duplicate
    assert append(log, keyed([(b"b", b"8")], producer=(7, 0, 8))) == 9


def test_a_log_is_due_when_half_of_it_is_new_but_for_the_segment_that_is_written_to(open_log: OpenLog) -> None:
    log = open_log(**COMPACT, segment_bytes="14")
    cleaner = LogCleaner(log)
    assert not cleaner.is_due(NOW_MS)
    for number in range(10):
        append(log, keyed([(b"%d" % number, b"1")]))
    assert cleaner.is_due(NOW_MS)
    cleaner.compact(NOW_MS)
    assert not cleaner.is_due(NOW_MS)
    append(log, keyed([(b"new", b"1")]))
    assert not cleaner.is_due(NOW_MS)
    append(log, keyed([(b"new", b"1" * 1_000)]))
    assert not cleaner.is_due(NOW_MS)
    append(log, keyed([(b"new", b"2")]))
    assert cleaner.is_due(NOW_MS)
    cleaner.compact(NOW_MS, even_active=False)
    assert [value for _, key, value in contents(log) if key == b"new"] == [b"1" * 1_000, b"2"]


def test_records_without_a_key_are_from_before_and_go(open_log: OpenLog) -> None:
    log = open_log()
    builder = RecordBatchBuilder(100)
    builder.try_append(NOW_MS, None, b"x", ())
    builder.seal(0)
    append(log, b"".join(builder.buffers()))
    append(log, keyed([(b"a", b"1")]))
    LogCleaner(log).compact(NOW_MS)
    assert contents(log) == [(1, b"a", b"1")]


def test_a_file_that_cannot_be_replaced_leaves_the_log_as_it_was(
    reopen: Callable[..., PartitionLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = reopen(**COMPACT)
    append(log, keyed([(b"a", b"1"), (b"a", b"2")]))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(KafkaStorageError, match="No space left"):
        LogCleaner(log).compact(NOW_MS)
    assert len(contents(log)) == 2


BATCHES = st.lists(
    st.lists(
        st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.sampled_from([b"1", b"22", None])), min_size=1, max_size=4
    ),
    min_size=1,
    max_size=12,
)


@given(batches=BATCHES, start=st.integers(0, 6), segment=st.sampled_from([14, 200, 2**20]), in_memory=st.booleans())
def test_the_newest_record_of_each_key_stays_where_it_was(
    batches: list[list[tuple[bytes, bytes | None]]], start: int, segment: int, in_memory: bool
) -> None:
    config = TopicConfig(BrokerConfig(), {"cleanup.policy": "compact,delete", "segment.bytes": str(segment)})
    with tempfile.TemporaryDirectory() as folder:
        files = OpenFiles()
        storage = MemoryStorage() if in_memory else FileStorage(Path(folder) / "0", files)
        log = PartitionLog("t", 0, config, storage)
        for batch in batches[:-1]:
            append(log, keyed(batch))
        log.delete_records(min(start, log.end_offset))
        cleaner = LogCleaner(log)
        cleaner.compact(NOW_MS)
        append(log, keyed(batches[-1]))
        cleaner.compact(NOW_MS)
        flat = [(offset, *record) for offset, record in enumerate(record for batch in batches for record in batch)]
        newest = {key: offset for offset, key, _ in flat}
        expected = [each for each in flat if newest[each[1]] == each[0] and each[0] >= log.start_offset]
        assert contents(log) == expected
        logs = [log]
        if not in_memory:
            logs.append(PartitionLog("t", 0, config, FileStorage(Path(folder) / "0", files)))
        for each in logs:
            assert contents(each) == expected
            assert (each.start_offset, each.end_offset) == (log.start_offset, len(flat))
            for offset in range(log.start_offset, len(flat)):
                found = [r.offset for b in iter_batches(b"".join(each.read(offset, 2**20))) for r in b.records()]
                assert [o for o in found if o >= offset] == [o for o, _, _ in expected if o >= offset]
        files.close()
