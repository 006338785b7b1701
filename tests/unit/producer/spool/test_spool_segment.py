"""One file of a spool: its name and header, reading it, and keeping bytes that are not records."""

from __future__ import annotations

import errno
import os
from io import BytesIO
from pathlib import Path

import pytest

from aiokafkapy.producer.spool.format import header
from aiokafkapy.producer.spool.spool_segment import BLOCK, SetAside, SpoolSegment, keep_beside, write_all

SALT = b"salt"


class BadSectors(BytesIO):
    """A file of which these bytes cannot be read."""

    def __init__(self, content: bytes, first: int, last: int) -> None:
        super().__init__(content)
        self.first, self.last = first, last

    def read(self, size: int | None = -1) -> bytes:
        start = self.tell()
        data = super().read(size)
        if start <= self.last and start + len(data) > self.first:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return data


def segment_of(path: Path, content: bytes) -> SpoolSegment:
    path.write_bytes(content)
    segment = SpoolSegment(path, 0, SALT)
    segment.size = len(content)
    return segment


def test_unreadable_bytes_are_read_as_zeros_and_the_file_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"x" * (5 * BLOCK + 10)
    path = tmp_path / "file"
    segment = segment_of(path, content)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *_: BadSectors(content, 2 * BLOCK + 7, 3 * BLOCK))
        assert segment.read(0) == content[: 2 * BLOCK] + bytes(2 * BLOCK) + content[4 * BLOCK :]
        patch.setattr(Path, "open", lambda *_: BadSectors(content, 0, len(content)))
        with pytest.raises(OSError, match="Input/output"):
            segment.read(0)
    segment.remove()
    assert (path.exists(), path.with_name("file.damaged").read_bytes()) == (False, content)


def test_missing_bytes_at_the_end_are_read_as_zeros(tmp_path: Path) -> None:
    segment = segment_of(tmp_path / "file", b"0123456789")
    segment.size = 12
    assert segment.read(5) == b"56789\0\0"


def test_a_file_that_lost_its_name_is_read_while_it_is_open(tmp_path: Path) -> None:
    segment = segment_of(tmp_path / "file", b"0123456789")
    segment.descriptor = os.open(segment.path, os.O_RDWR)
    segment.path.unlink()
    assert segment.read(5) == b"56789"
    segment.close()
    with pytest.raises(FileNotFoundError):
        segment.read(5)


@pytest.mark.parametrize(
    ("name", "content", "salt", "problem"),
    [
        (f"{0:020}-{SALT.hex()}.spool", header(SALT), SALT, None),
        (f"{0:020}-{SALT.hex()}.spool", header(b"tlas"), SALT, "its salt is not that of its name"),
        (f"{0:020}-{SALT.hex()}.spool", bytes(12), SALT, "it begins with"),
        (f"{0:020}-{SALT.hex()}.spool", b"AKS", SALT, None),
        (f"{0:020}.spool", header(SALT), SALT, None),
    ],
)
def test_the_salt_is_in_the_name_and_in_the_header(
    tmp_path: Path, name: str, content: bytes, salt: bytes, problem: str | None
) -> None:
    segment = SpoolSegment(tmp_path / name, 0)
    found = segment.recognize(content)
    assert segment.salt == salt
    assert found is None if problem is None else str(found).startswith(problem)


def test_damaged_bytes_are_kept_once_and_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    (first,) = keep_beside(path, 3, b"damaged")
    assert first == SetAside(path, 3, 7, tmp_path / "file.damaged-3")
    assert keep_beside(path, 3, b"damaged") == []
    (second,) = keep_beside(path, 3, b"otherwise")
    assert second.kept_in == tmp_path / "file.damaged-3-2"
    assert [one.read_bytes() for one in sorted(tmp_path.iterdir())] == [b"damaged", b"otherwise"]


def test_a_file_is_given_up_under_a_name_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    for number, kept in enumerate(("file.damaged", "file.damaged-2")):
        segment = segment_of(path, b"%d" % number)
        assert segment.give_up() == SetAside(path, 0, 1, tmp_path / kept)
        path.write_bytes(b"of another segment")
        segment.remove()
        assert path.exists(), "it is not its file any more"
        path.unlink()
    assert [one.read_bytes() for one in sorted(tmp_path.iterdir())] == [b"0", b"1"]
    segment = segment_of(path, b"2")

    def is_read_only(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "replace", is_read_only)
    assert segment.give_up() == SetAside(path, 0, 1, path)


def test_all_is_written_however_little_a_disk_takes_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    real = os.write
    monkeypatch.setattr(os, "write", lambda where, data: real(where, bytes(data)[:3]))
    write_all(descriptor, b"0123456789", 2)
    os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"\0\0" + b"0123456789"
