"""The folder of a spool: one owner, whole writes, recovery, and removal."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.errors import SpoolError
from aiokafkapy.producer.records import PlainRecord
from aiokafkapy.producer.spool import spool_segment
from aiokafkapy.producer.spool.format import HEADER_SIZE, Mark, encode_record
from aiokafkapy.producer.spool.spool_files import MOST_READ_ERRORS, SMALLEST_SEGMENT, SpoolFiles, TornWriteError
from aiokafkapy.producer.spool.spool_segment import SetAside

LARGE = 2**40


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., SpoolFiles]]:
    """Opens the folder; closes open ones at the end."""
    files: list[SpoolFiles] = []

    def new(max_bytes: int = LARGE, fsync: Any = "never", **given: Any) -> SpoolFiles:
        files.append(SpoolFiles(tmp_path / "spool", max_bytes, fsync, **given))
        return files[-1]

    yield new
    for one in files:
        one.close()


def append(files: SpoolFiles, *sequences: int, value: bytes = b"x", topic: str = "t") -> None:
    frames = [encode_record(files.salt, number, PlainRecord(topic, None, 1, value=value)) for number in sequences]
    files.append(frames, sequences[0], sequences[-1])


def fill(files: SpoolFiles, segments: int) -> None:
    """Append so many segments of two records each."""
    for number in range(2 * segments):
        append(files, number, value=bytes(SMALLEST_SEGMENT // 2 - 200))


def read(files: SpoolFiles, max_bytes: int = LARGE, max_records: int = 10_000) -> list[int]:
    return [record.sequence for record in files.read(max_bytes, max_records)[0]]


def segments(files: SpoolFiles) -> list[str]:
    return sorted(path.name for path in files.folder.glob("*.spool"))


def refuse_to_open(monkeypatch: pytest.MonkeyPatch, code: int, *paths: Path) -> None:
    """Have each attempt to open these files end with this error."""
    real = Path.open

    def breaks(path: Path, *arguments: Any, **options: Any) -> Any:
        if path in paths:
            raise OSError(code, os.strerror(code))
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", breaks)


def test_written_records_are_read_in_order_also_by_the_next_process(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    assert files.open().records == 0
    append(files, 0, 1, 2)
    assert read(files, max_records=2) == [0, 1]
    append(files, 3)
    assert read(files) == [2, 3]
    assert read(files) == []
    append(files, 4, topic="other")
    assert read(files) == [4]
    files.close()
    again = opened()
    found = again.open()
    assert (found.records, found.next_sequence, dict(found.topics)) == (5, 5, {"t": 4, "other": 1})
    assert found.size == files.size == again.size
    append(again, 5)
    assert read(again) == [0, 1, 2, 3, 4, 5]


def test_records_dealt_with_are_not_read_again_and_their_files_are_removed(opened: Callable[..., SpoolFiles]) -> None:
    files = opened(max_bytes=8 * SMALLEST_SEGMENT)
    files.open()
    fill(files, 3)
    assert len(segments(files)) == 3
    assert read(files) == [0, 1, 2, 3, 4, 5]
    before = files.size
    freed, error = files.mark(Mark(3, 5, (4,)))
    assert (freed, error) == (before - files.size, None)
    assert len(segments(files)) == 2
    files.close()
    again = opened()
    found = again.open()
    assert (found.records, found.maybe_sent, found.next_sequence) == (2, 1, 6)
    assert read(again) == [3, 5]
    again.mark(Mark(6, 6))
    assert segments(again) == []
    append(again, 6)
    assert read(again) == [6]


def test_an_empty_spool_goes_on_counting(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    files.open()
    append(files, 0, 1)
    files.mark(Mark(2, 2))
    files.close()
    assert opened().open().next_sequence == 2


def test_a_folder_has_one_owner(opened: Callable[..., SpoolFiles]) -> None:
    first, second = opened(), opened()
    first.open()
    with pytest.raises(SpoolError, match="in use by another producer"):
        second.open()
    first.close()
    second.open()


def test_a_write_that_fails_leaves_nothing(opened: Callable[..., SpoolFiles], monkeypatch: pytest.MonkeyPatch) -> None:
    files = opened()
    files.open()
    append(files, 0)

    def fills_up(descriptor: int, data: Any, position: int) -> int:
        monkeypatch.undo()
        spool_segment.write_at(descriptor, bytes(data)[:20], position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(spool_segment, "write_at", fills_up)
    with pytest.raises(OSError, match="No space left"):
        append(files, 1)
    append(files, 2)
    assert read(files) == [0, 2]
    files.close()
    found = opened().open()
    assert (found.records, found.set_aside) == (2, [])


def test_writes_that_fail_leave_no_files(opened: Callable[..., SpoolFiles], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a block, with which a full disk would be filled up once a second."""
    files = opened()
    files.open()

    def has_room_for_headers(descriptor: int, data: Any, position: int) -> int:
        if position:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(spool_segment, "write_at", has_room_for_headers)
        for number in range(3):
            with pytest.raises(OSError, match="No space left"):
                append(files, number)
    assert segments(files) == []
    append(files, 3)
    assert read(files) == [3]


def test_a_write_that_cannot_be_cut_off_is_in_doubt(
    opened: Callable[..., SpoolFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(fsync="always")
    files.open()
    append(files, 0)

    def breaks(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", breaks)
    monkeypatch.setattr(os, "ftruncate", breaks)
    with pytest.raises(TornWriteError):
        append(files, 1)


def test_fsync_comes_as_the_policy_says(opened: Callable[..., SpoolFiles], monkeypatch: pytest.MonkeyPatch) -> None:
    clock, synced = [100.0], []
    real = os.fsync

    def counting(descriptor: int) -> None:
        synced.append(clock[0])
        real(descriptor)

    monkeypatch.setattr(os, "fsync", counting)
    counts = {}
    for policy in ("always", "every_second", "never"):
        files = opened(fsync=policy, clock=lambda: clock[0])
        files.open()
        append(files, *range(10))
        synced.clear()
        for number in range(10, 20):
            clock[0] += 0.3
            append(files, number)
        counts[policy] = len(synced)
        files.mark(Mark(20, 20))
        (files.folder / "sent.json").unlink()
        files.close()
    assert counts == {"always": 10, "every_second": 2, "never": 0}


def test_a_torn_end_is_cut_off_and_kept_beside(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    files.open()
    append(files, 0, 1)
    files.close()
    path = files.folder / segments(files)[0]
    path.write_bytes(path.read_bytes() + b"\xa5\x5aSP half a frame")
    again = opened()
    found = again.open()
    assert found.records == 2
    (torn,) = found.set_aside
    assert torn.kept_in is not None
    assert (torn.file, torn.size, torn.kept_in.read_bytes()) == (path, 17, b"\xa5\x5aSP half a frame")
    append(again, found.next_sequence)
    assert read(again) == [0, 1, 2]
    assert again.read(LARGE, 1) == ([], [])
    again.close()
    assert opened().open().set_aside == [], "told once"


def test_a_full_disk_keeps_the_segment_with_the_torn_end_and_the_start_goes_on(
    opened: Callable[..., SpoolFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened()
    files.open()
    append(files, 0, 1)
    files.close()
    path = files.folder / segments(files)[0]
    path.write_bytes(path.read_bytes() + b"\xa5\x5aSP half a frame")
    content = path.read_bytes()

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(spool_segment, "write_at", full)
    for _ in range(2):
        again = opened()
        found = again.open()
        assert (found.records, [one.kept_in for one in found.set_aside]) == (2, [path])
        assert read(again) == [0, 1]
        again.close()
    assert {one.name for one in again.folder.iterdir()} == {".lock", path.name}
    last = opened()
    last.open()
    monkeypatch.undo()
    last.mark(Mark(2, 2))
    assert path.with_name(f"{path.name}.damaged").read_bytes() == content
    last.close()
    assert opened().open().records == 0


def test_records_read_before_an_error_of_the_disk_are_given(
    opened: Callable[..., SpoolFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(max_bytes=8 * SMALLEST_SEGMENT)
    files.open()
    fill(files, 3)  # the last file is open, and read otherwise
    refuse_to_open(monkeypatch, errno.EIO, files.folder / segments(files)[1])
    assert read(files) == [0, 1]
    with pytest.raises(OSError, match="Input/output"):
        read(files)
    monkeypatch.undo()
    assert read(files) == [2, 3, 4, 5]


def test_damage_in_the_middle_is_named_and_kept_and_the_rest_is_read(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    files.open()
    append(files, 0, 1, 2, value=b"a value")
    files.close()
    path = files.folder / segments(files)[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    again = opened()
    found = again.open()
    assert found.records == 2
    assert len(found.set_aside) == 1
    assert read(again) == [0, 2]
    assert path.read_bytes() == data, "nothing is overwritten"


def test_damage_that_comes_while_it_is_open_is_reported_when_it_is_read(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    files.open()
    append(files, 0)
    assert read(files) == [0]
    append(files, 1, 2)
    path = files.folder / segments(files)[0]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    records, set_aside = files.read(LARGE, 10)
    assert [record.sequence for record in records] == [1]
    assert len(set_aside) == 1


def test_the_mark_before_a_damaged_one_holds_and_all_may_have_been_sent(
    opened: Callable[..., SpoolFiles],
) -> None:
    files = opened()
    files.open()
    append(files, 0, 1, 2, 3)
    files.mark(Mark(1, 2))
    files.mark(Mark(2, 3))
    files.close()
    path = files.folder / "sent.json"
    path.write_bytes(path.read_bytes()[:-5])
    for told in ([path], []):
        again = opened()
        found = again.open()
        assert (found.records, found.maybe_sent, found.mark) == (3, 3, Mark(1, 4))
        assert [one.file for one in found.set_aside] == told, "once"
        assert read(again) == [1, 2, 3]
        again.close()


@pytest.mark.parametrize("content", [b"", b"{}"])
def test_without_any_mark_all_is_sent_again(opened: Callable[..., SpoolFiles], content: bytes) -> None:
    files = opened()
    files.open()
    append(files, 0, 1)
    files.mark(Mark(1, 2))
    files.close()
    path = files.folder / "sent.json"
    path.write_bytes(content)
    found = opened().open()
    assert (found.records, found.maybe_sent, found.mark) == (2, 2, Mark(0, 2))
    assert [one.file for one in found.set_aside] == [path]


def test_a_crash_between_two_marks_leaves_the_one_before(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    files.open()
    append(files, 0, 1)
    files.mark(Mark(0, 1))
    files.mark(Mark(1, 2))
    files.close()
    (files.folder / "sent.json").unlink()
    found = opened().open()
    assert (found.records, found.maybe_sent, found.mark) == (2, 1, Mark(0, 1))


DAMAGED_HEADERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("a bit of the magic", lambda data: bytes([data[0] ^ 1]) + data[1:]),
    ("a bit of the version", lambda data: data[:7] + bytes([data[7] ^ 2]) + data[8:]),
    ("a bit of the salt", lambda data: data[:8] + bytes([data[8] ^ 1]) + data[9:]),
    ("all of it", lambda data: bytes(HEADER_SIZE) + data[HEADER_SIZE:]),
]


@pytest.mark.parametrize("damage", [damage for _, damage in DAMAGED_HEADERS], ids=[name for name, _ in DAMAGED_HEADERS])
def test_a_damaged_header_costs_no_record(opened: Callable[..., SpoolFiles], damage: Callable[[bytes], bytes]) -> None:
    files = opened()
    files.open()
    append(files, 0, 1, 2)
    path = files.folder / segments(files)[0]
    data = damage(path.read_bytes())
    path.write_bytes(data)
    assert read(files) == [0, 1, 2], "it is open"
    files.close()
    again = opened()
    found = again.open()
    (told,) = found.set_aside
    assert (found.records, told.file, told.position) == (3, path, 0)
    assert told.kept_in is not None
    assert told.kept_in.read_bytes() == data[:HEADER_SIZE]
    assert read(again) == [0, 1, 2]
    again.close()
    assert opened().open().set_aside == [], "told once"


def test_a_file_without_its_salt_is_read_by_its_header(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    files.open()
    append(files, 0, 1)
    files.close()
    path = files.folder / segments(files)[0]
    path.rename(path.with_name(f"{0:020}.spool"))
    again = opened()
    assert (again.open().set_aside, read(again)) == ([], [0, 1])


def test_a_file_of_zeros_is_set_aside_and_the_rest_is_read(opened: Callable[..., SpoolFiles]) -> None:
    """A loss of power leaves such a file if it was not synced."""
    files = opened(max_bytes=8 * SMALLEST_SEGMENT)
    files.open()
    fill(files, 2)
    files.close()
    path = files.folder / segments(files)[0]
    content = bytes(path.stat().st_size)
    path.write_bytes(content)
    kept_before = path.with_name(f"{path.name}.damaged")
    kept_before.write_bytes(b"of another time")
    again = opened(max_bytes=8 * SMALLEST_SEGMENT)
    (told,) = again.open().set_aside
    assert told == SetAside(path, 0, len(content), path.with_name(f"{path.name}.damaged-2"))
    assert told.kept_in is not None
    assert (told.kept_in.read_bytes(), kept_before.read_bytes()) == (content, b"of another time")
    assert read(again) == [2, 3]


def test_a_file_of_another_version_is_refused(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    files.folder.mkdir()
    path = files.folder / f"{0:020}-00000000.spool"
    path.write_bytes(b"AKSPOOL\x02" + bytes(100))
    with pytest.raises(SpoolError, match=r"-00000000\.spool is not a file of a spool that this version reads"):
        files.open()
    assert path.exists()


@pytest.mark.parametrize("what", ["the file", "the folder"])
def test_an_open_file_that_is_removed_is_read_on_and_no_more_is_written_to_it(
    opened: Callable[..., SpoolFiles], what: str
) -> None:
    files = opened()
    files.open()
    append(files, 0, 1)
    if what == "the file":
        (files.folder / segments(files)[0]).unlink()
    else:
        shutil.rmtree(files.folder)
    append(files, 2)
    assert len(segments(files)) == 1
    with pytest.raises(SpoolError, match="in use by another producer"):
        opened().open()
    files.refuse([b"{}\n"])
    assert files.read(LARGE, 1)[0][0].sequence == 0
    assert read(files) == [1, 2]
    files.close()
    again = opened()
    again.open()
    assert read(again) == [2]


def test_a_folder_that_was_removed_and_has_another_owner_is_left_to_it(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    files.open()
    append(files, 0)
    shutil.rmtree(files.folder)
    opened().open()
    for _ in range(2):
        files._close_segment()
        files._lock = -1
        with pytest.raises(SpoolError, match="in use by another producer"):
            append(files, 1)


def test_a_removed_file_is_named_and_the_next_one_is_read(opened: Callable[..., SpoolFiles]) -> None:
    files = opened(max_bytes=8 * SMALLEST_SEGMENT)
    files.open()
    fill(files, 3)
    path = files.folder / segments(files)[1]
    size = path.stat().st_size
    path.unlink()
    records, set_aside = files.read(LARGE, 10)
    assert [record.sequence for record in records] == [0, 1, 4, 5]
    assert set_aside == [SetAside(path, 0, size, None)]
    before = files.size
    assert files.mark(Mark(6, 6)) == (before, None)
    assert segments(files) == []


def test_a_file_that_cannot_be_read_is_set_aside_in_the_end_and_the_next_one_is_read(
    opened: Callable[..., SpoolFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(max_bytes=8 * SMALLEST_SEGMENT)
    files.open()
    fill(files, 3)
    first, second, _ = (files.folder / name for name in segments(files))
    refuse_to_open(monkeypatch, errno.EACCES, first, second)
    for _ in range(2 * (MOST_READ_ERRORS - 1)):
        with pytest.raises(OSError, match="denied"):
            files.read(LARGE, 10)
    records, set_aside = files.read(LARGE, 10)
    assert [record.sequence for record in records] == [4, 5]
    assert [(one.file, one.kept_in) for one in set_aside] == [
        (path, path.with_name(f"{path.name}.damaged")) for path in (first, second)
    ]
    files.mark(Mark(6, 6))
    assert {path.name for path in files.folder.glob("*.damaged")} == {
        f"{path.name}.damaged" for path in (first, second)
    }


def test_a_file_that_the_disk_does_not_give_keeps_no_start_from_succeeding(
    opened: Callable[..., SpoolFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(max_bytes=8 * SMALLEST_SEGMENT)
    files.open()
    fill(files, 2)
    files.close()
    path = files.folder / segments(files)[0]
    refuse_to_open(monkeypatch, errno.EIO, path)
    again = opened()
    found = again.open()
    assert (found.records, [one.kept_in for one in found.set_aside]) == (2, [path.with_name(f"{path.name}.damaged")])
    assert read(again) == [2, 3]


def test_a_file_that_is_cut_while_it_is_open_is_reported(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    files.open()
    append(files, 0)
    end = files.size + HEADER_SIZE
    append(files, 1, 2)
    path = files.folder / segments(files)[0]
    size = path.stat().st_size
    os.truncate(path, end)
    records, set_aside = files.read(LARGE, 10)
    assert [record.sequence for record in records] == [0]
    assert [(one.position, one.size) for one in set_aside] == [(end, size - end)]


def test_files_that_are_not_ours_are_refused_by_name(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    files.folder.mkdir()
    (files.folder / "0.spool").write_bytes(b"something else entirely")
    with pytest.raises(SpoolError, match=r"0\.spool is not a file of a spool"):
        files.open()
    (files.folder / "0.spool").unlink()
    files.open()


def test_a_file_that_was_cut_in_its_head_is_removed(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    files.folder.mkdir()
    (files.folder / f"{7:020}.spool").write_bytes(b"AKSPOOL")
    assert files.open().records == 0
    assert segments(files) == []


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpoolError, match=r"spool_dir='.*file/spool' cannot be used"):
        SpoolFiles(tmp_path / "file" / "spool", LARGE, "never").open()


def test_a_full_disk_does_not_keep_records_from_being_sent(
    opened: Callable[..., SpoolFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened()
    files.open()
    append(files, 0)

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(spool_segment, "write_at", full)
    freed, error = files.mark(Mark(1, 1))
    assert freed > 0
    assert error is not None
    assert segments(files) == []


def test_refused_records_have_lines_of_their_own_after_a_full_disk_and_after_a_crash(
    opened: Callable[..., SpoolFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened()
    files.open()
    files.refuse([b'{"key": "0"}\n'])

    def fills_up(descriptor: int, data: Any, _: int) -> int:
        monkeypatch.undo()
        monkeypatch.setattr(spool_segment, "write_at", full)
        return os.write(descriptor, bytes(data)[:20])

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(spool_segment, "write_at", fills_up)
    with pytest.raises(OSError, match="No space left"):
        files.refuse([b'{"key": "1"}\n', b'{"key": "2"}\n'])
    monkeypatch.undo()
    path = files.refuse([b'{"key": "1"}\n', b'{"key": "2"}\n'])
    assert path.read_bytes() == b'{"key": "0"}\n{"key": "1"}\n{"key": "2"}\n'
    path.write_bytes(b'{"key": "0"}\n{"ke')
    files.refuse([b'{"key": "1"}\n'])
    assert path.read_bytes() == b'{"key": "0"}\n{"ke\n{"key": "1"}\n'


def test_all_is_readable_by_its_owner_alone(opened: Callable[..., SpoolFiles]) -> None:
    files = opened()
    files.open()
    append(files, 0)
    files.mark(Mark(0, 1))
    files.refuse([b"{}\n"])
    assert files.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in files.folder.iterdir()} == {0o600}
