"""The streams of our programs; closed ones are in the system tests, since they are the process's."""

from __future__ import annotations

import io
import sys

import pytest

from aiokafkapy.cli.streams import prepare_streams, utf8_stdout


def western_stdout(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """A stdout for Western Europe, by its bytes; no fixture, since pytest sets stdout between one and the test."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252"))
    return written


def test_text_that_the_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = western_stdout(monkeypatch)
    prepare_streams()
    print("grün \u4e2d", flush=True)
    assert written.getvalue().rstrip() == b"gr\xfcn \\u4e2d"


def test_json_lines_are_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    written = western_stdout(monkeypatch)
    print('"grün \u4e2d"', file=utf8_stdout(), flush=True)
    assert written.getvalue().decode().rstrip() == '"grün \u4e2d"'


def test_a_stdout_that_holds_text_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    held = io.StringIO()
    monkeypatch.setattr(sys, "stdout", held)
    prepare_streams()
    assert utf8_stdout() is held
