"""The journal's own rules; its content is tested with the owners of a journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy.broker.storage import journal
from aiokafkapy.broker.storage.journal import Journal
from aiokafkapy.errors import KafkaStorageError


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(journal, "REWRITE_FROM", 10)
    return tmp_path / "documents.jsonl"


def test_a_stale_file_is_replaced_by_the_documents_that_still_count(path: Path) -> None:
    written = Journal(path, "")
    for number in range(10):
        assert len(_lines(path)) == number
        written.rewrite_if_stale(1, lambda: ["x"])
        written.append(number)
    written.rewrite_if_stale(5, lambda: ["not yet: that would spare less than half"])
    assert Journal(path, "").load() == list(range(10))
    written.rewrite_if_stale(4, lambda: ["a", "b"])
    written.append("c")
    written.close()
    assert Journal(path, "").load() == ["a", "b", "c"]


def test_a_file_that_cannot_be_replaced_keeps_its_lines_and_is_tried_again_later(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = []

    def fail(*_: object) -> None:
        tries.append(len(_lines(path)))
        raise KafkaStorageError("No space left on device")

    written = Journal(path, "")
    with monkeypatch.context() as patch:
        patch.setattr(journal, "write_atomically", fail)
        for number in range(25):
            written.append(number)
            written.rewrite_if_stale(1, lambda: ["x"])
        assert tries == [10, 20]
        with pytest.raises(KafkaStorageError, match="No space"):
            written.rewrite(["x"])
    assert caplog.text.count("broker.journal_rewrite_failed") == 2
    assert Journal(path, "").load() == list(range(25))
    for number in range(5):
        written.append(number)
        written.rewrite_if_stale(1, lambda: ["x"])
    written.close()
    assert Journal(path, "").load() == ["x"]


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []
