"""The table, as a migration makes it on either database."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata, produce_migrations
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.integrations.outbox.table import outbox_table, shards_of

POSTGRESQL: Any = postgresql.dialect
SQLITE: Any = sqlite.dialect


@pytest.mark.parametrize(
    ("dialect", "identity"),
    [
        (POSTGRESQL(), "id BIGSERIAL NOT NULL"),
        (SQLITE(), "id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"),
    ],
    ids=["postgresql", "sqlite"],
)
def test_ids_are_never_used_twice_and_indexes_have_only_pending_rows(dialect: Any, identity: str) -> None:
    table = outbox_table(sa.MetaData())
    assert identity in str(CreateTable(table).compile(dialect=dialect))
    statements = [str(CreateIndex(index).compile(dialect=dialect)) for index in table.indexes]
    assert sorted(statement[statement.index("(") :] for statement in statements) == [
        "(id) WHERE published_at IS NULL AND error IS NULL",
        "(lane) WHERE error IS NOT NULL",
        "(published_at) WHERE published_at IS NOT NULL",
    ]


def test_alembic_makes_it_as_it_is() -> None:
    metadata = sa.MetaData()
    outbox_table(metadata)
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        for change in produce_migrations(context, metadata).upgrade_ops_list[0].ops:
            for each in getattr(change, "ops", [change]):
                Operations(context).invoke(each)
        assert sorted(sa.inspect(connection).get_table_names()) == ["aiokafkapy_outbox"]
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_the_table_is_in_the_users_metadata_by_its_name() -> None:
    metadata = sa.MetaData()
    table = outbox_table(metadata, "events", schema="shop", shards=3)
    assert metadata.tables["shop.events"] is table
    assert shards_of(table) == 3


@pytest.mark.parametrize("shards", [0, 1_025, True, 1.5, "8"])
def test_a_number_of_shards_that_cannot_be_is_refused(shards: Any) -> None:
    with pytest.raises(ConfigurationError, match="write an int from 1 to 1024"):
        outbox_table(sa.MetaData(), shards=shards)


def test_a_table_that_outbox_table_did_not_make_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'orders' is not an outbox table: make it with outbox_table"):
        shards_of(sa.Table("orders", sa.MetaData()))
