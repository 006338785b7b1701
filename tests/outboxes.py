"""Outboxes for tests: a table in a file of SQLite or a real PostgreSQL, and a relay that is quick to try again."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from aiokafkapy.integrations.outbox import Outbox, OutboxRelay, outbox_table
from aiokafkapy.testing.servers.postgresql import PostgreSQL

__all__ = ["QUICK", "TestOutbox", "opened_outbox"]

QUICK: dict[str, Any] = {
    "max_block_ms": 1_000,
    "request_timeout_ms": 1_000,
    "delivery_timeout_ms": 2_000,
    "linger_ms": 0,
    "retry_backoff_ms": 10,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
}
"""Options of the relay's producers."""


class TestOutbox:
    """A table of its own in a database, with an engine that the service and the relay share."""

    __test__ = False

    def __init__(self, url: str, name: str, **options: Any) -> None:
        self.url = url
        self.name = name
        self.metadata = sa.MetaData()
        self.table = outbox_table(self.metadata, name, **options)
        self.orders = sa.Table(f"{name}_orders", self.metadata, sa.Column("value", sa.LargeBinary, primary_key=True))
        self.outbox = Outbox(self.table)
        self.engine: AsyncEngine = create_async_engine(url)

    @property
    def is_postgresql(self) -> bool:
        """Otherwise it is SQLite."""
        return self.engine.dialect.name == "postgresql"

    def relay(self, servers: str, **options: Any) -> OutboxRelay:
        """A relay of this table, which is not started."""
        return OutboxRelay(self.engine, self.table, servers, **{"poll_interval": 0.02, **QUICK, **options})

    async def add(self, *values: bytes, topic: str = "t", key: bytes | None = None, **options: Any) -> None:
        """Write these in one transaction."""
        async with self.engine.begin() as connection:
            for value in values:
                await self.outbox.add(connection, topic, value, key=key, **options)

    async def rows(self) -> list[sa.Row[Any]]:
        """All that is in the table, by id."""
        async with self.engine.connect() as connection:
            return list((await connection.execute(sa.select(self.table).order_by(self.table.c.id))).all())

    async def is_empty(self) -> bool:
        """True if every row was published and deleted."""
        return not await self.rows()

    @asynccontextmanager
    async def open_transaction(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that is committed at the end of the block."""
        async with self.engine.begin() as connection:
            yield connection


@asynccontextmanager
async def opened_outbox(where: PostgreSQL | Path, **options: Any) -> AsyncIterator[TestOutbox]:
    """An empty outbox on this server, or in this folder."""
    outbox = TestOutbox(_url(where), f"outbox_{uuid.uuid4().hex[:8]}", **options)
    try:
        async with outbox.engine.begin() as connection:
            await connection.run_sync(outbox.metadata.create_all)
        yield outbox
    finally:
        await outbox.engine.dispose()


def _url(where: PostgreSQL | Path) -> str:
    if isinstance(where, PostgreSQL):
        return where.url("asyncpg")
    # SQLite's lock knows no order: of many writers on a slow disk one may wait for more than Python's five seconds.
    return f"sqlite+aiosqlite:///{where}/service.db?timeout=30"
