"""Files and memory under the logs; the logs on them are tested with ``log``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiokafkapy.broker.storage.checkpoint_file import DamagedFileError
from aiokafkapy.broker.storage.log_storage import FileStorage, LogStorage, MemoryStorage, OpenFiles, SegmentScan
from aiokafkapy.errors import KafkaStorageError


@pytest.fixture
def files() -> Iterator[OpenFiles]:
    files = OpenFiles(limit=3)
    yield files
    files.close()


@pytest.fixture(params=["memory", "files"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, files: OpenFiles) -> LogStorage:
    return MemoryStorage() if request.param == "memory" else FileStorage(tmp_path / "0", files)


def test_appended_bytes_are_read_by_position(storage: LogStorage) -> None:
    for offset, pieces in enumerate([(b"ab",), (b"cd", memoryview(b"ef")), (b"g",)]):
        storage.append(pieces, offset, 3)
    assert storage.size == 7
    assert b"".join(storage.read(0, 7)) == b"abcdefg"
    assert b"".join(storage.read(2, 4)) == b"cdef"
    assert b"".join(storage.read(6, 100)) == b"g"
    assert storage.read(7, 10) == []


def test_discarding_keeps_the_positions(storage: LogStorage) -> None:
    for offset in range(4):
        storage.append((b"%d%d" % (offset, offset),), offset, 2)
    storage.discard_before(4)
    assert b"".join(storage.read(4, 4)) == b"2233"
    storage.append((b"44",), 4, 2)
    assert b"".join(storage.read(6, 4)) == b"3344"


def test_a_new_segment_begins_when_the_last_would_outgrow_its_size(tmp_path: Path, files: OpenFiles) -> None:
    storage = FileStorage(tmp_path / "0", files)
    for offset, size in enumerate([4, 4, 4, 20, 1]):
        storage.append((b"x" * size,), offset, 8)
    assert {path.stem: path.stat().st_size for path in sorted((tmp_path / "0").glob("*.log"))} == {
        f"{0:020d}": 8,
        f"{2:020d}": 4,
        f"{3:020d}": 20,
        f"{4:020d}": 1,
    }


def test_the_last_segment_is_never_discarded(tmp_path: Path, files: OpenFiles) -> None:
    storage = FileStorage(tmp_path / "0", files)
    for offset in range(3):
        storage.append((b"x" * 4,), offset, 4)
    storage.discard_before(12)
    assert [path.stem for path in (tmp_path / "0").glob("*.log")] == [f"{2:020d}"]


def test_no_more_descriptors_are_held_than_allowed(tmp_path: Path, files: OpenFiles) -> None:
    storages = [FileStorage(tmp_path / str(number), files) for number in range(10)]
    for turn in range(3):
        for number, storage in enumerate(storages):
            storage.append((b"%d" % number,), turn, 100)
            assert len(files._descriptors) <= 3
    assert [b"".join(storage.read(0, 3)) for storage in storages] == [b"%d" % number * 3 for number in range(10)]
    storages[9].delete()
    assert len(files._descriptors) == 2
    assert not (tmp_path / "9").exists()
    files.close()
    assert len(files._descriptors) == 0


def test_a_file_that_became_shorter_is_reported(tmp_path: Path, files: OpenFiles) -> None:
    storage = FileStorage(tmp_path / "0", files)
    storage.append((b"abcd",), 0, 100)
    os.truncate(tmp_path / "0" / f"{0:020d}.log", 2)
    with pytest.raises(KafkaStorageError, match="shorter than it was"):
        storage.read(0, 4)


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path, files: OpenFiles) -> None:
    (tmp_path / "file").write_bytes(b"")
    storage = FileStorage(tmp_path / "file" / "0", files)
    with pytest.raises(KafkaStorageError, match="cannot create"):
        storage.append((b"abcd",), 0, 100)
    with pytest.raises(KafkaStorageError, match="cannot write"):
        storage.save_start_offset(5)
    assert storage.size == 0


@pytest.fixture
def three_segments(tmp_path: Path, files: OpenFiles) -> FileStorage:
    storage = FileStorage(tmp_path / "0", files)
    for offset in range(3):
        storage.append((b"abcd",), offset, 4)
    return FileStorage(tmp_path / "0", files)


def test_a_write_cut_short_is_moved_out_of_the_last_segment(tmp_path: Path, three_segments: FileStorage) -> None:
    seen: list[tuple[bytes, int, int]] = []

    def scan(view: memoryview, position: int, base_offset: int) -> SegmentScan:
        seen.append((bytes(view), position, base_offset))
        return SegmentScan(3 if base_offset == 2 else 4, base_offset + 1)

    torn = three_segments.recover(scan)
    assert torn is not None
    assert seen == [(b"abcd", 0, 0), (b"abcd", 4, 1), (b"abcd", 8, 2)]
    assert three_segments.size == 11
    assert b"".join(three_segments.read(0, 12)) == b"abcdabcdabc"
    assert (torn.segment.name, torn.size, torn.kept_in.read_bytes()) == (f"{2:020d}.log", 1, b"d")
    assert len(list((tmp_path / "0").glob("*.log"))) == 3


def test_bytes_moved_out_of_a_segment_are_not_written_over_by_the_next(
    three_segments: FileStorage, tmp_path: Path, files: OpenFiles
) -> None:
    def recover(storage: FileStorage) -> None:
        storage.recover(
            lambda view, position, base_offset: SegmentScan(2 if base_offset == 2 else len(view), base_offset)
        )

    recover(three_segments)
    three_segments.append((b"xyz",), 3, 100)
    recover(FileStorage(tmp_path / "0", files))
    assert sorted(path.read_bytes() for path in (tmp_path / "0").glob("*.torn-*")) == [b"cd", b"xyz"]


@pytest.mark.parametrize("damage", ["a batch says so", None])
def test_a_damaged_segment_is_named_and_left_as_it_is(three_segments: FileStorage, damage: str | None) -> None:
    folder = three_segments._folder

    def scan(view: memoryview, position: int, base_offset: int) -> SegmentScan:
        return SegmentScan(2 if base_offset == 1 else 4, 7, damage if base_offset == 1 else None)

    with pytest.raises(DamagedFileError) as raised:
        three_segments.recover(scan)
    assert raised.value.path == folder / f"{1:020d}.log"
    for part in (str(raised.value.path), damage or "in the middle of the batch", "first 2 bytes", "from offset 7 on"):
        assert part in str(raised.value)
    assert [path.read_bytes() for path in sorted(folder.glob("*"))] == [b"abcd"] * 3


def test_the_start_offset_is_remembered(tmp_path: Path, files: OpenFiles) -> None:
    storage = FileStorage(tmp_path / "0", files)
    assert storage.load_start_offset() == 0
    storage.append((b"abcd",), 17, 100)
    assert FileStorage(tmp_path / "0", files).load_start_offset() == 17
    storage.save_start_offset(42)
    assert FileStorage(tmp_path / "0", files).load_start_offset() == 42
    (tmp_path / "0" / "log-start-offset").write_bytes(b"")
    with pytest.raises(DamagedFileError, match="log-start-offset is damaged"):
        FileStorage(tmp_path / "0", files).load_start_offset()
    (tmp_path / "0" / "log-start-offset").unlink()
    assert FileStorage(tmp_path / "0", files).load_start_offset() == 17


def test_files_that_are_not_segments_are_left_alone(tmp_path: Path, files: OpenFiles) -> None:
    storage = FileStorage(tmp_path / "0", files)
    storage.append((b"abcd",), 17, 100)
    (tmp_path / "0" / "notes.log").write_bytes(b"mine")
    assert FileStorage(tmp_path / "0", files).size == 4
