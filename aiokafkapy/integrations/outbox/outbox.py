"""``Outbox``: writes records as rows, in the transaction of the caller.

Owns serializing, the locks of keys, and the row's insert. It never begins, commits or rolls back a transaction, and
knows no Kafka.

Rules:

- A record exists when the caller's transaction is committed, and not before.
- On PostgreSQL a transaction waits for open ones that have added a record of one of its keys
  (``orders_keys``): ids of a key are in the order of commits. Call ``add`` last, or always in the same
  order relative to the transaction's other locks. Otherwise two transactions may deadlock, and PostgreSQL fails one.
- Keys share 4,096 locks, so that a transaction with any number of keys has room for them.
- A notification wakes the relay at the commit (``notifies``). On PostgreSQL transactions that notify commit one by
  one: a service with thousands of them a second should leave it out and have the relay look more often.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias, cast
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from ...errors import SerializationError
from ...producer.arguments import headers_of
from ...producer.deliveries.shortcuts import now_ms
from ...producer.records import HeadersLike, ProducerRecord, Timestamp
from ...producer.serializers import Serializer, awaited, discard, prepare, serialize, with_own_headers
from .lanes import lock_number
from .rows import RowValues, row_values
from .table import shards_of

__all__ = ["Outbox", "channel_of"]

MAX_RECORD_BYTES: Final = 1_000_000
"""Below Kafka's default of 1 MiB for a request, which leaves room for the bytes around a record."""

Transaction: TypeAlias = "AsyncSession | async_scoped_session[AsyncSession] | AsyncConnection"
BlockingTransaction: TypeAlias = "Session | scoped_session[Session] | sa.Connection"

_LOCK: Final = sa.text(
    "SELECT count(pg_advisory_xact_lock(number))"
    " FROM (SELECT unnest(CAST(:numbers AS bigint[])) AS number ORDER BY 1) AS in_order"
)
_NOTIFY: Final = sa.text("SELECT pg_notify(CAST(:channel AS text), '')")


def channel_of(table: sa.Table) -> str:
    """The channel that announces a commit with new rows: the table's name, cut to the length that PostgreSQL takes."""
    return table.name[:63]


class Outbox:
    """The writing side of one table; share it among all requests. It holds no connection.

    Serializers are as for ``KafkaProducer``; asynchronous ones need ``add``. Without a serializer only bytes are taken.
    """

    def __init__(
        self,
        table: sa.Table,
        *,
        key_serializer: Callable[..., object] | None = None,
        value_serializer: Callable[..., object] | None = None,
        orders_keys: bool = True,
        notifies: bool = True,
        max_record_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        self.table = table
        self._shards = shards_of(table)
        self._serializers = {
            "key": prepare(cast("Serializer[Any] | None", key_serializer)),
            "value": prepare(cast("Serializer[Any] | None", value_serializer)),
        }
        self._orders_keys = orders_keys
        self._notifies = notifies
        self._max_record_bytes = max_record_bytes

    async def add(
        self,
        transaction: Transaction,
        topic: str,
        value: object = None,
        *,
        key: object = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
    ) -> None:
        """Write one record in the transaction of this session or connection.

        Raises InvalidTopicError, SerializationError, RecordTooLargeError (above ``max_record_bytes``), TypeError or
        ValueError for a record that Kafka could not accept, and TypeError for another kind of ``transaction``, all
        before a row is written; afterwards the database's errors. It never commits and never rolls back, not even when
        it is cancelled.
        """
        await self.add_many(transaction, [ProducerRecord(topic, value, key, partition, timestamp_ms, headers)])

    async def add_many(self, transaction: Transaction, records: Iterable[ProducerRecord]) -> int:
        """Write records in their order, all checked before the first is written; return their number. Raises as
        ``add``.
        """
        serialized = [await self._serialized(record) for record in records]
        statements = self._statements(serialized)
        if statements is None:
            return 0
        if isinstance(transaction, AsyncConnection):
            connection = transaction
        elif isinstance(transaction, AsyncSession | async_scoped_session):
            connection = await transaction.connection(bind_arguments={"clause": self.table})
        else:
            raise _not_one_of("add", transaction, "an AsyncSession or AsyncConnection", "add_blocking")
        for text, values in statements.before(connection.dialect.name):
            await connection.execute(text, values)
        await connection.execute(sa.insert(self.table), statements.rows)
        return len(statements.rows)

    def add_blocking(
        self,
        transaction: BlockingTransaction,
        topic: str,
        value: object = None,
        *,
        key: object = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
    ) -> None:
        """``add`` for a service without an event loop: takes a ``Session`` or ``Connection``."""
        self.add_many_blocking(transaction, [ProducerRecord(topic, value, key, partition, timestamp_ms, headers)])

    def add_many_blocking(self, transaction: BlockingTransaction, records: Iterable[ProducerRecord]) -> int:
        """``add_many`` for a service without an event loop."""
        statements = self._statements([self._serialized_at_once(record) for record in records])
        if statements is None:
            return 0
        if isinstance(transaction, sa.Connection):
            connection = transaction
        elif isinstance(transaction, Session | scoped_session):
            connection = transaction.connection(bind_arguments={"clause": self.table})
        else:
            raise _not_one_of("add_blocking", transaction, "a Session or Connection", "await add")
        for text, values in statements.before(connection.dialect.name):
            connection.execute(text, values)
        connection.execute(sa.insert(self.table), statements.rows)
        return len(statements.rows)

    async def retry_refused(self, transaction: Transaction, ids: Sequence[int] | None = None) -> int:
        """Have refused rows published after all: these, or all of them; returns their number."""
        return int(getattr(await transaction.execute(self._retried(ids)), "rowcount", 0))

    def retry_refused_blocking(self, transaction: BlockingTransaction, ids: Sequence[int] | None = None) -> int:
        """``retry_refused`` for a service without an event loop."""
        return int(getattr(transaction.execute(self._retried(ids)), "rowcount", 0))

    # internals

    def _retried(self, ids: Sequence[int] | None) -> sa.Update:
        change = sa.update(self.table).where(self.table.c.error.is_not(None)).values(error=None)
        return change if ids is None else change.where(self.table.c.id.in_(ids))

    def _statements(self, records: Sequence[ProducerRecord]) -> _Statements | None:
        shards, most = self._shards, self._max_record_bytes
        rows = [row_values(record, shards, most, now_ms=now_ms(), uid=uuid4()) for record in records]
        if not rows:
            return None
        keyed = [row for row in rows if self._orders_keys and row["key"] is not None and row["partition"] is None]
        locks = sorted({lock_number(self.table.fullname, row["lane"]) for row in keyed})
        return _Statements(rows, locks, channel_of(self.table) if self._notifies else None)

    async def _serialized(self, record: ProducerRecord) -> ProducerRecord:
        made = {}
        for part in ("key", "value"):
            data = self._called(part, record)
            made[part] = await awaited(part, record.topic, data) if inspect.isawaitable(data) else data
        return _with(record, **made)

    def _serialized_at_once(self, record: ProducerRecord) -> ProducerRecord:
        made = {}
        for part in ("key", "value"):
            made[part] = self._called(part, record)
            if inspect.isawaitable(made[part]):
                discard(made[part])
                raise SerializationError(
                    f"the {part}_serializer is asynchronous: use `await add(...)`", topic=record.topic
                )
        return _with(record, **made)

    def _called(self, part: str, record: ProducerRecord) -> Any:
        data, serializer = getattr(record, part), self._serializers[part]
        return data if data is None or serializer is None else serialize(part, serializer, record.topic, data)


class _Statements(NamedTuple):
    """The statements for some records."""

    rows: list[RowValues]
    locks: list[int]
    channel: str | None

    def before(self, dialect: str) -> list[tuple[sa.TextClause, dict[str, Any]]]:
        """The statements before the insert: on PostgreSQL the locks, since ids must be drawn under them."""
        if dialect != "postgresql":
            return []
        statements = [(_LOCK, {"numbers": self.locks})] if self.locks else []
        return statements + ([(_NOTIFY, {"channel": self.channel})] if self.channel is not None else [])


def _with(record: ProducerRecord, key: object, value: object) -> ProducerRecord:
    headers = None if record.headers is None else headers_of(record.topic, record.headers)
    return replace(record, key=key, value=value, headers=with_own_headers(record.topic, headers, key, value))


def _not_one_of(call: str, given: object, wanted: str, other: str) -> TypeError:
    return TypeError(f"{call}: a {type(given).__name__} is not {wanted}; for the other kind there is `{other}(...)`")
