"""Lines come as soon as they are complete; their source is opened when the first is asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiokafkapy.cli import input_lines
from aiokafkapy.cli.input_lines import CHUNK, is_regular_file, lines_of


@pytest.mark.parametrize(
    "text", [b"", b"one", b"one\n", b"\n\n", b"one\r\ntwo\rthree\n\nlast", b"x" * (2 * CHUNK + 1) + b"\ny\n"]
)
def test_the_lines_are_those_of_python_s_own_reading(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(text)
    with path.open("rb") as stream:
        assert list(lines_of(str(path), "in")) == list(stream)


def test_a_line_of_a_fifo_comes_while_its_writer_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    lines = lines_of(path, "fifo")  # opens nothing, or it would wait here
    writing = os.open(path, os.O_RDWR)
    os.write(writing, b"one\ntwo\nthr")
    assert [next(lines), next(lines)] == [b"one\n", b"two\n"]
    lines.close()  # type: ignore[attr-defined]  # it is a generator
    os.close(writing)


def test_a_line_without_end_is_an_error_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"one\n" + b"x" * (CHUNK + 1))
    monkeypatch.setattr(input_lines, "MAX_LINE", CHUNK // 2)
    with pytest.raises(ValueError, match=r"in:2: a line of over 0 MiB: is this text\?"):
        list(lines_of(str(path), "in"))


def test_a_file_is_regular_and_a_fifo_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    os.mkfifo(tmp_path / "b")
    assert is_regular_file(str(tmp_path / "a"))
    assert not is_regular_file(str(tmp_path / "b"))
