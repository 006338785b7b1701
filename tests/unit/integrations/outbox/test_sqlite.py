"""The file that keeps a second relay of a database of SQLite waiting."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from aiokafkapy.integrations.outbox import outbox_table
from aiokafkapy.integrations.outbox.database import RelayDatabase
from aiokafkapy.integrations.outbox.sqlite import SqliteLocks

LOCK = "service.db.aiokafkapy_outbox.relay"


def database(path: Path) -> RelayDatabase:
    engine, table = create_async_engine(f"sqlite+aiosqlite:///{path}"), outbox_table(sa.MetaData(), shards=2)
    locks = SqliteLocks(engine, table)
    return RelayDatabase(engine, table, locks, on_error="stop", keeps_published=False, timeout=1)


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_second_relay_has_no_shard_until_the_first_ends_and_no_file_is_left(tmp_path: Path) -> None:
    first, second = (database(tmp_path / "service.db") for _ in range(2))
    assert await first.own() == {0, 1}
    assert await second.own() == frozenset()
    await first.close()
    assert await second.own() == {0, 1}
    assert names_in(tmp_path) == [LOCK]
    await second.close()


async def test_a_relay_that_has_rows_to_mark_keeps_its_shards_without_a_connection(tmp_path: Path) -> None:
    """While the service wrote for long, each of the relays that stood by published the batch once more."""
    first, second = (database(tmp_path / "service.db") for _ in range(2))
    await first.own()
    await first.close(keeps_locks=True)
    assert await second.own() == frozenset()
    assert await first.own() == {0, 1}
    await first.close()
    assert await second.own() == {0, 1}
    await second.close()


async def test_a_link_to_the_file_has_the_same_lock(tmp_path: Path) -> None:
    """Release folders have such links: two relays by two names published every row twice."""
    for name in ("data", "current"):
        (tmp_path / name).mkdir()
    (tmp_path / "current" / "shop.db").symlink_to(tmp_path / "data" / "service.db")
    first, second = database(tmp_path / "data" / "service.db"), database(tmp_path / "current" / "shop.db")
    assert await first.own() == {0, 1}
    assert await second.own() == frozenset()
    await first.close()


async def test_a_lock_file_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of another user is such a one: every relay owned every shard, and published every row."""
    (tmp_path / LOCK).touch()
    connect = sqlite3.connect

    def connect_to_read(path: str, **options: Any) -> sqlite3.Connection:
        opened: sqlite3.Connection = connect(f"file:{path}?mode=ro", uri=True, **options)
        return opened

    monkeypatch.setattr(sqlite3, "connect", connect_to_read)
    with pytest.raises(sqlite3.OperationalError, match=rf"{LOCK}, by which relays.*readonly"):
        await database(tmp_path / "service.db").own()


async def test_a_lock_file_that_is_not_a_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_bytes(b"another program's " * 100)
    with pytest.raises(sqlite3.OperationalError, match=rf"{LOCK}, by which relays.*not a database"):
        await database(tmp_path / "service.db").own()
