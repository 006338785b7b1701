"""The archive of Kafka's classes: complete or absent, made once, and used when it is there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from aiokafkapy.testing.kafka import class_archive
from aiokafkapy.testing.kafka.class_archive import archive_options, make_archive


@pytest.fixture(autouse=True)
def jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(class_archive, "fetch_jars", lambda version: tmp_path)
    monkeypatch.setattr(class_archive, "java_release", lambda: "17.0.9")
    return tmp_path


class Node:
    """Writes the archive that Java was asked for when it ends, or fails before."""

    def __init__(self, error: Exception | None = None) -> None:
        self.runs = 0
        self.error = error

    def __call__(self, options: Sequence[str]) -> None:
        self.runs += 1
        (written,) = (each.partition("=")[2] for each in options if "ArchiveClassesAtExit" in each)
        Path(written).write_bytes(b"classes")
        if self.error is not None:
            raise self.error


def test_an_archive_is_made_once_and_used_from_then_on(jars: Path) -> None:
    assert archive_options("4.1.0") == ()
    node = Node()
    for _ in range(2):
        make_archive("4.1.0", node)
    assert node.runs == 1
    assert archive_options("4.1.0")[0] == f"-XX:SharedArchiveFile={jars / 'classes-17.0.9.jsa'}"


def test_an_archive_that_was_not_finished_is_not_left(jars: Path) -> None:
    with pytest.raises(LookupError):
        make_archive("4.1.0", Node(LookupError()))
    assert archive_options("4.1.0") == ()
    assert not list(jars.glob("*.part*"))


def test_another_java_makes_its_own(monkeypatch: pytest.MonkeyPatch, jars: Path) -> None:
    make_archive("4.1.0", Node())
    monkeypatch.setattr(class_archive, "java_release", lambda: "21")
    assert archive_options("4.1.0") == ()


def test_a_node_that_writes_none_harms_nothing() -> None:
    make_archive("4.1.0", lambda options: None)
    assert archive_options("4.1.0") == ()
