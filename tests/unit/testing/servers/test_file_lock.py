"""``locked``: held until its block is left, and free then."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from aiokafkapy.testing.servers.file_lock import locked


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with locked(path), path.open("w") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
