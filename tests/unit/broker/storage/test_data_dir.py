"""One broker per data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy.broker.storage.data_dir import DataDirLock
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
