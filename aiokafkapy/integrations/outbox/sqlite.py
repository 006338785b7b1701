"""``SqliteLocks``: gives a file to one relay, which looks every ``poll_interval``.

Owns the lock that keeps a second relay waiting: an exclusive transaction in an empty database file beside the
service's, ``….relay``, which SQLite releases with its process, even after kill -9, on every system.

Rules: the service's file gets write-ahead logging, so that looking for rows does not keep the service from writing.
All shards belong to the one relay; another stands by, also while the first cannot use its connection and has rows to
mark, which the other would publish again. A lock file that cannot be written would not lock out other relays: it is an
error of the database.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from ...errors import ConfigurationError
from .database import Execute
from .table import shards_of

__all__ = ["SqliteLocks"]

_PRIMARY_CODE: Final = 0xFF
"""The bits of SQLite's extended codes that hold the primary code."""


class SqliteLocks:
    """All shards of one table in a file of SQLite, for one relay."""

    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, engine: AsyncEngine, table: sa.Table) -> None:
        name = engine.url.database
        if name is None or name in ("", ":memory:") or name.startswith("file:"):
            raise ConfigurationError(f"database {name!r}: a relay needs the path of a file that it shares with others")
        self._path = name
        self._table = table
        self._lock: sqlite3.Connection | None = None

    async def prepare(self, _connection: AsyncConnection, execute: Execute) -> None:
        """As in ``ShardLocks``."""
        await asyncio.to_thread(_use_write_ahead_log, self._path)
        # The mark of a published row must not be lost when the power fails: the row would be published again.
        await execute(sa.text("PRAGMA synchronous = FULL"))

    async def own(self) -> frozenset[int]:
        """As in ``ShardLocks``."""
        if self._lock is None:
            self._lock = _locked(_lock_path(self._path, self._table.name))
        return frozenset(range(shards_of(self._table))) if self._lock is not None else frozenset()

    def release(self) -> None:
        """As in ``ShardLocks``."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _use_write_ahead_log(path: str) -> None:
    """Runs on a separate connection, to its end: the statement gives a row, and if it is cancelled before that is
    read, the file stays locked until the cursor is collected.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()


def _lock_path(path: str, table: str) -> str:
    """The lock file, beside the file that a link leads to, as SQLite places its own: one lock, whatever name each
    relay uses for the file.
    """
    return f"{os.path.realpath(path)}.{table}.relay"


def _locked(path: str) -> sqlite3.Connection | None:
    """A connection that has the file for itself, or None if another has it. Raises sqlite3.Error for a file that
    cannot be written: there SQLite turns an exclusive transaction into a read transaction, which every relay can have.
    """
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = MEMORY")  # the write below leaves no file behind
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("PRAGMA user_version = 1")
    except sqlite3.Error as error:
        connection.close()
        if error.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY:
            return None
        raise sqlite3.OperationalError(f"{path}, by which relays lock each other out: {error}") from error
    return connection
