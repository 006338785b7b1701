"""The command that lists the necessary changes: lines, JSON, and its exit code."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiokafkapy import migration
from aiokafkapy.migration import Change
from tests.command_line import invoked


def test_the_exit_code_says_whether_there_is_something_to_change(tmp_path: Path) -> None:
    program = tmp_path / "service.py"
    program.write_text("from aiokafka import AIOKafkaProducer\n")
    done = invoked("migrate", "--check", str(tmp_path))
    assert done.exit_code == 1
    assert f"{program}:1: from aiokafka import AIOKafkaProducer -> from aiokafkapy import KafkaProducer" in done.output
    assert "1 change in 1 file" in done.output
    done = invoked("migrate", "--json", str(program))
    (change,) = json.loads(done.output)
    assert (change["path"], change["line"]) == (str(program), 1)
    program.write_text("from aiokafkapy import KafkaProducer\n")
    done = invoked("migrate", str(program))
    assert (done.exit_code, done.output.strip()) == (0, "nothing to change")


def test_a_signal_ends_it_between_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").touch()

    def found_for_ever(paths: list[Path]) -> Iterator[list[Change]]:
        signal.raise_signal(signal.SIGINT)
        while True:
            yield []

    monkeypatch.setattr(migration, "changes_by_file", found_for_ever)
    done = invoked("migrate", str(tmp_path))
    assert done.exit_code == 130


def test_a_path_that_is_not_there_is_a_wrong_command_line(tmp_path: Path) -> None:
    assert invoked("migrate", str(tmp_path / "nope")).exit_code == 2
