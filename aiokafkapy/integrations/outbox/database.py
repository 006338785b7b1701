"""``RelayDatabase``: the relay's one connection, and its statements, for any database.

Owns the connection and the statements. The ``ShardLocks`` that it is given, ``postgresql``'s or ``sqlite``'s, know the
shards' owners and the wake-up of a relay.

Rules:

- The connection commits each statement by itself: no transaction is open while records are on their way, which would
  keep the database from cleaning up. It is not given back to the pool, because it holds locks.
- All work is done on the connection that holds the locks. Without the locks no batch is read.
- A statement that takes longer than ``timeout`` seconds is given up with the connection, and raises TimeoutError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from ...cancellation import to_its_end
from .outcomes import Held, OnError
from .rows import OutboxRow
from .statistics import OutboxBacklog

__all__ = ["MARKED_AT_ONCE", "Execute", "RelayDatabase", "ShardLocks", "backlog_of"]

MARKED_AT_ONCE: Final = 5_000
"""The most rows in one ``mark``: SQLite takes 32,766 values in a statement by default, and each row has two."""
PURGED_AT_ONCE: Final = 5_000
"""The most rows that one statement deletes, so that it is short."""


Execute: TypeAlias = Callable[..., Awaitable[sa.CursorResult[Any]]]
"""Executes a statement, with values if it takes some, on the relay's connection."""


class ShardLocks(Protocol):
    """The locks of this relay's shards, for one kind of database."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The driver's errors of an outage that SQLAlchemy does not wrap."""

    async def prepare(self, connection: AsyncConnection, execute: Execute) -> None:
        """Set up a new connection. ``execute`` runs its statements, now and later."""

    async def own(self) -> frozenset[int]:
        """The present shards of this relay: it takes free ones, and gives up those beyond its share."""

    def release(self) -> None:
        """Give up the locks that do not end with the connection."""


class RelayDatabase:
    """The table, for one relay. Every call raises ``errors``, among them TimeoutError, which is an OSError."""

    def __init__(
        self,
        engine: AsyncEngine,
        table: sa.Table,
        locks: ShardLocks,
        *,
        on_error: OnError,
        keeps_published: bool,
        timeout: float,
    ) -> None:
        self.errors: tuple[type[Exception], ...] = (SQLAlchemyError, OSError, *locks.errors)
        """The errors of an outage."""
        self._engine = engine
        self._table = table
        self._locks = locks
        self._timeout = timeout
        self._keeps_published = keeps_published
        self._pending = _select_pending(table, on_error)
        self._connection: AsyncConnection | None = None

    async def open(self) -> None:
        """Connect."""
        async with asyncio.timeout(self._timeout):
            connection = await self._engine.connect()
            self._connection = connection
            self._connection = await connection.execution_options(isolation_level="AUTOCOMMIT")
            await self._locks.prepare(self._connection, self._execute)

    async def close(self, *, keeps_locks: bool = False) -> None:
        """End the connection, and with it the locks, unless they can be kept without it; never raises, in any state. A
        cancelled call also ends it: SQLAlchemy leaves a task pending forever if it is cancelled within.
        """
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                await to_its_end(self._end(connection))
        finally:
            if not keeps_locks:
                self._locks.release()

    async def own(self) -> frozenset[int]:
        """As in ``ShardLocks``."""
        return await self._locks.own()

    async def pending(self, shards: Collection[int], held: Collection[Held], limit: int) -> list[OutboxRow]:
        """The first pending rows of these shards, by id, without held ones."""
        query = self._pending.where(self._table.c.shard.in_(sorted(shards))).limit(limit)
        for column, kind in ((self._table.c.topic, "topic"), (self._table.c.lane, "lane")):
            names = sorted(each.name for each in held if each.kind == kind)
            if names:
                query = query.where(column.not_in(names))
        return [OutboxRow._make(row) for row in (await self._execute(query)).all()]

    async def mark(self, rows: Mapping[int, UUID]) -> int:
        """These rows are published: delete or mark those that still exist; returns their number."""
        if not rows:
            return 0
        table = self._table
        mine = self._is_one_of(table.c.id, list(rows)) & self._is_one_of(table.c.uid, list(rows.values()))
        change: sa.Delete | sa.Update
        if self._keeps_published:
            change = sa.update(table).where(mine, table.c.published_at.is_(None)).values(published_at=datetime.now(UTC))
        else:
            change = sa.delete(table).where(mine)
        return int((await self._execute(change)).rowcount)

    async def refuse(self, refused: Sequence[tuple[OutboxRow, str]]) -> None:
        """Park these rows with the reason."""
        for row, reason in refused:
            await self._execute(sa.update(self._table).where(self._table.c.id == row.id).values(error=reason))

    async def purge(self, age: timedelta) -> bool:
        """Delete some of the rows that were published longer ago than this; returns True if no more are left."""
        table = self._table
        old = sa.select(table.c.id).where(table.c.published_at < datetime.now(UTC) - age).limit(PURGED_AT_ONCE)
        return int((await self._execute(sa.delete(table).where(table.c.id.in_(old)))).rowcount) < PURGED_AT_ONCE

    # internals

    async def _end(self, connection: AsyncConnection) -> None:
        with suppress(*self.errors):
            async with asyncio.timeout(self._timeout):
                await connection.invalidate()
                await connection.close()

    def _is_one_of(self, column: sa.Column[Any], values: Sequence[object]) -> sa.ColumnElement[bool]:
        if self._engine.dialect.name == "postgresql":  # one prepared statement for any number of values
            return column == sa.any_(sa.bindparam(None, values, ARRAY(column.type)))
        return column.in_(values)

    async def _execute(
        self, statement: sa.Executable, values: Mapping[str, object] | None = None
    ) -> sa.CursorResult[Any]:
        if self._connection is None:
            raise ConnectionError("the relay has no connection to its database")
        async with asyncio.timeout(self._timeout):
            result = await self._connection.execute(statement, values)
        assert isinstance(result, sa.CursorResult)
        return result


async def backlog_of(engine: AsyncEngine, table: sa.Table) -> OutboxBacklog:
    """The rows that wait in the table, read on a separate connection. Raises the database's errors."""
    c = table.c
    is_pending = c.published_at.is_(None) & c.error.is_(None)
    query = sa.select(
        sa.func.count(sa.case((is_pending, c.id))),
        sa.func.count(sa.case((c.error.is_not(None), c.id))),
        sa.func.min(sa.case((is_pending, c.timestamp_ms))),
    ).where(c.published_at.is_(None))
    async with engine.connect() as connection:
        pending, refused, oldest = (await connection.execute(query)).one()
    return OutboxBacklog(pending, refused, oldest)


def _select_pending(table: sa.Table, on_error: OnError) -> sa.Select[Any]:
    c = table.c
    query = (
        sa.select(c.id, c.uid, c.lane, c.shard, c.topic, c.partition, c.key, c.value, c.headers, c.timestamp_ms)
        .where(c.published_at.is_(None), c.error.is_(None))
        .order_by(c.id)
    )
    if on_error == "stop":
        refused = table.alias()
        is_behind = sa.exists().where(refused.c.lane == c.lane, refused.c.error.is_not(None))
        query = query.where(~is_behind)
    return query
