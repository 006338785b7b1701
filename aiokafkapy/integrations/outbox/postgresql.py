"""``PostgresLocks``: shards by advisory locks, and LISTEN, on PostgreSQL.

Owns the locks that give a shard to a relay. They belong to the session: a relay that ends in any way releases them
with its connection. So the relay needs a connection to the server itself, not to a pooler that changes sessions
between transactions.

Rules:

- Each relay also holds one shared lock. The number of its holders tells each relay its share of the shards: it gives
  up shards beyond that, between two batches, and takes free ones up to it. So relays may come and go.
- The lock numbers contain the table's oid: outboxes of one database do not conflict.
- The server is told to notice within a minute that a relay's host or network is gone.
- With asyncpg a commit that notifies wakes the relay. Polling is for other drivers, and for a notification that was
  lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from .database import Execute
from .lanes import MAX_SHARDS
from .outbox import channel_of
from .table import shards_of

__all__ = ["PostgresLocks"]

MEMBER: Final = MAX_SHARDS
"""The lock that every relay of a table holds: one more than any shard."""

_NOTICE_DEAD_HOSTS: Final = sa.text(
    "SELECT set_config(name, value, false) FROM (VALUES ('tcp_keepalives_idle', '30'),"
    " ('tcp_keepalives_interval', '10'), ('tcp_keepalives_count', '3'), ('tcp_user_timeout', '60000'))"
    " AS wanted (name, value) WHERE name IN (SELECT name FROM pg_settings)"
)
"""The server's own settings are often the system's: a relay whose host had died kept its shards for over two hours."""
_OID: Final = sa.text("SELECT CAST(CAST(:name AS regclass) AS oid)::bigint")
_JOIN: Final = sa.text("SELECT pg_advisory_lock_shared(CAST(:family AS int), CAST(:member AS int))")
_RELAYS: Final = sa.text(
    "SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock'"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid::bigint = CAST(:oid AS bigint) AND objid::bigint = CAST(:member AS bigint) AND objsubid = 2"
)
_TAKE: Final = sa.text("SELECT pg_try_advisory_lock(CAST(:family AS int), CAST(:shard AS int))")
_GIVE_UP: Final = sa.text("SELECT pg_advisory_unlock(CAST(:family AS int), CAST(:shard AS int))")


class PostgresLocks:
    """The shards of one relay on PostgreSQL. ``wake`` is called for each commit with new rows."""

    def __init__(self, table: sa.Table, wake: Callable[[], None]) -> None:
        self.errors: tuple[type[Exception], ...] = ()
        self._table = table
        self._wake = wake
        self._shards = shards_of(table)
        self._execute: Execute  # once there is a connection
        self._oid = 0
        self._owned: set[int] = set()
        with suppress(ImportError):
            import asyncpg

            self.errors = (asyncpg.PostgresError, asyncpg.InterfaceError)

    async def prepare(self, connection: AsyncConnection, execute: Execute) -> None:
        """As in ``ShardLocks``."""
        self._execute = execute
        self._owned.clear()
        # A crash of the server must not lose the mark of a published row: the row would be published again.
        await execute(sa.text("SET synchronous_commit = on"))
        await execute(_NOTICE_DEAD_HOSTS)
        name = connection.dialect.identifier_preparer.format_table(self._table)
        self._oid = (await execute(_OID, {"name": name})).scalar_one()
        await execute(_JOIN, {"family": self._family, "member": MEMBER})
        if connection.dialect.driver == "asyncpg":
            raw: Any = (await connection.get_raw_connection()).driver_connection
            await raw.add_listener(channel_of(self._table), _calls(self._wake))

    async def own(self) -> frozenset[int]:
        """As in ``ShardLocks``."""
        relays = (await self._execute(_RELAYS, {"oid": self._oid, "member": MEMBER})).scalar_one()
        share = -(-self._shards // max(1, relays))
        while len(self._owned) > share:
            shard = max(self._owned)
            await self._execute(_GIVE_UP, {"family": self._family, "shard": shard})
            self._owned.discard(shard)
        others = [shard for shard in range(self._shards) if shard not in self._owned]
        random.shuffle(others)  # so that relays that begin together do not all try the same one first
        for shard in others if len(self._owned) < share else ():
            if (await self._execute(_TAKE, {"family": self._family, "shard": shard})).scalar_one():
                self._owned.add(shard)
                if len(self._owned) == share:
                    break
        return frozenset(self._owned)

    def release(self) -> None:
        """The locks ended with the connection."""

    # internals

    @property
    def _family(self) -> int:
        """The oid as an int of 32 bits with sign, which the locks take."""
        return self._oid - 2**32 if self._oid >= 2**31 else self._oid


def _calls(wake: Callable[[], None]) -> Callable[..., None]:
    def listener(*_: object) -> None:
        wake()

    return listener
