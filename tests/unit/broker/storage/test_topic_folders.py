"""The folders of topics: made, discarded, described, and never taken for garbage with records in them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aiokafkapy.broker.storage.checkpoint_file import DamagedFileError

from ..support import log_of, make_batch
from .logs import OpenRegistry


def test_a_topic_left_half_made_is_removed(open_registry: OpenRegistry) -> None:
    topic = open_registry().create("t", 1)
    assert topic.folder is not None
    (topic.folder / "topic.json").unlink()
    assert len(open_registry()) == 0
    assert not topic.folder.exists()


def test_a_topic_left_half_deleted_is_removed(
    open_registry: OpenRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = open_registry()
    registry.create("t", 1).partitions[0].log.append(make_batch(), 0, 0)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        registry.delete("t")
    (left,) = (tmp_path / "topics").iterdir()
    assert len(open_registry()) == 0
    assert not left.exists()


def test_a_topic_whose_description_is_missing_or_damaged_is_refused_and_kept(open_registry: OpenRegistry) -> None:
    topic = open_registry().create("t", 1)
    topic.partitions[0].log.append(make_batch([b"kept"]), 0, 0)
    assert topic.folder is not None
    path = topic.folder / "topic.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"t"', b'"u"'))
    with pytest.raises(DamagedFileError, match=rf"topic.json is damaged: .*remove .*{topic.folder.name} to start"):
        open_registry()
    path.unlink()
    with pytest.raises(DamagedFileError, match=r"topic.json is damaged: it is missing"):
        open_registry()
    path.write_bytes(whole)
    assert [record.value for record in log_of(open_registry()).records()] == [b"kept"]


def test_a_partition_without_records_costs_no_file(open_registry: OpenRegistry, tmp_path: Path) -> None:
    open_registry().create("t", 50)
    files = [path for path in (tmp_path / "topics").rglob("*") if path.is_file()]
    assert [path.name for path in files] == ["topic.json"]


def test_the_longest_name_has_a_folder(open_registry: OpenRegistry) -> None:
    name = "x" * 249
    open_registry().create(name, 1).partitions[0].log.append(make_batch(), 0, 0)
    topic = open_registry().get(name)
    assert topic is not None
    assert topic.partitions[0].log.end_offset == 1
