"""Checkpoint files: replaced as a whole, and refused when a byte of them has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy.broker.storage.checkpoint_file import (
    DamagedFileError,
    read_checkpoint,
    write_atomically,
    write_checkpoint,
)
from aiokafkapy.errors import KafkaStorageError

REMEDY = "delete it"


def test_content_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    assert read_checkpoint(path, REMEDY) is None
    write_checkpoint(path, b"old")
    write_checkpoint(path, b"name=value\nother=1\n")
    assert read_checkpoint(path, REMEDY) == b"name=value\nother=1\n"


def test_no_changed_byte_and_no_shorter_file_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_checkpoint(path, b"1000")
    whole = path.read_bytes()
    damaged = [whole[:position] + bytes([byte ^ 0x01]) + whole[position + 1 :] for position, byte in enumerate(whole)]
    damaged += [whole[:size] for size in range(len(whole))] + [whole + b"\n", b"1000"]
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(DamagedFileError, match=r"file is damaged: .* Restore the file from a copy, or delete it"):
            read_checkpoint(path, REMEDY)
        assert path.read_bytes() == data


def test_replacing_a_file_leaves_the_old_one_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for step in ("write_bytes", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, step, fail)
            with pytest.raises(KafkaStorageError, match=r"cannot write to .*file: .*No space"):
                write_atomically(path, b"new")
        assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("file", b"old")]
    write_atomically(path, b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("file", b"new")]
