"""``outbox_table``: the table in the service's own ``MetaData``, so that its migrations make it.

Owns the columns and indexes. Types are plain SQLAlchemy, so that Alembic's autogenerate treats the table like any
other.

Rules: ids come from a sequence without a cache, or SQLite's AUTOINCREMENT: no id is used twice, and a later one is
higher. ``uid`` distinguishes rows with the same id in a table that was emptied and numbered again. The index over
pending rows stays small, however many are kept.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from ...common import MAX_TOPIC_NAME_LENGTH
from ...errors import ConfigurationError
from .lanes import MAX_SHARDS

__all__ = ["outbox_table", "shards_of"]

DEFAULT_SHARDS: Final = 8
_SHARDS: Final = "aiokafkapy.outbox.shards"


def outbox_table(
    metadata: sa.MetaData, name: str = "aiokafkapy_outbox", *, schema: str | None = None, shards: int = DEFAULT_SHARDS
) -> sa.Table:
    """Add the table of an outbox to ``metadata``.

    ``shards`` is the most relays that can share the work; a higher number costs little. It may be changed while no row
    is pending: rows keep their shard. Raises ConfigurationError for a number below 1 or over 1,024.
    """
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MAX_SHARDS:
        raise ConfigurationError(f"shards={shards!r} of outbox table {name!r}: write an int from 1 to {MAX_SHARDS}")
    published_at = sa.Column("published_at", sa.DateTime(timezone=True), comment="None while it is pending")
    error = sa.Column("error", sa.Text, comment="the reason of the refusal; set to NULL it is tried again")
    lane = sa.Column("lane", sa.BigInteger, nullable=False, comment="rows of one lane keep their order")
    table = sa.Table(
        name,
        metadata,
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("uid", sa.Uuid, nullable=False),
        lane,
        sa.Column("shard", sa.SmallInteger, nullable=False),
        sa.Column("topic", sa.String(MAX_TOPIC_NAME_LENGTH), nullable=False),
        sa.Column("partition", sa.Integer),
        sa.Column("key", sa.LargeBinary),
        sa.Column("value", sa.LargeBinary),
        sa.Column("headers", sa.Text, comment="pairs of name and base64, as JSON"),
        sa.Column("timestamp_ms", sa.BigInteger, nullable=False),
        published_at,
        error,
        schema=schema,
        info={_SHARDS: shards},
        sqlite_autoincrement=True,
    )
    _partial_index(f"ix_{name}_pending", table.c.id, published_at.is_(None) & error.is_(None))
    _partial_index(f"ix_{name}_refused", lane, error.is_not(None))
    _partial_index(f"ix_{name}_published", published_at, published_at.is_not(None))
    return table


def shards_of(table: sa.Table) -> int:
    """The number of shards of a table made by ``outbox_table``. Raises ConfigurationError for any other."""
    shards = table.info.get(_SHARDS)
    if not isinstance(shards, int):
        raise ConfigurationError(
            f"table {table.fullname!r} is not an outbox table: make it with outbox_table(metadata)"
        )
    return shards


def _partial_index(name: str, column: sa.Column[Any], where: sa.ColumnElement[bool]) -> None:
    sa.Index(name, column, postgresql_where=where, sqlite_where=where)
