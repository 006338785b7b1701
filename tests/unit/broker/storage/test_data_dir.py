"""One broker and one cluster id per data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy.broker.storage.checkpoint_file import DamagedFileError, write_checkpoint
from aiokafkapy.broker.storage.data_dir import DataDirLock, load_cluster_id
from aiokafkapy.errors import IllegalStateError


def test_a_folder_is_locked_until_it_is_released(tmp_path: Path) -> None:
    first, second = DataDirLock(tmp_path / "new"), DataDirLock(tmp_path / "new")
    first.acquire()
    with pytest.raises(IllegalStateError, match="is in use"):
        second.acquire()
    second.release()
    first.release()
    first.release()
    second.acquire()
    second.release()


def test_memory_needs_no_lock() -> None:
    lock = DataDirLock(None)
    lock.acquire()
    lock.release()


def test_the_clusters_id_is_kept(tmp_path: Path) -> None:
    assert load_cluster_id(tmp_path) == load_cluster_id(tmp_path)
    assert load_cluster_id(None) != load_cluster_id(None)


def test_a_damaged_cluster_id_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    for content in (b"", b"version=1\n", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(DamagedFileError, match=r"meta.properties is damaged: .*delete it: the cluster then gets a"):
            load_cluster_id(tmp_path)
    write_checkpoint(path, b"version=1")
    with pytest.raises(DamagedFileError, match=r"no line cluster.id="):
        load_cluster_id(tmp_path)
