"""The table, as a migration makes it on either database."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.integrations.outbox.table import outbox_table, shards_of


@pytest.mark.parametrize(
    ("dialect", "identity"),
    [
        (postgresql.dialect(), "id BIGSERIAL NOT NULL"),
        (sqlite.dialect(), "id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"),
    ],
    ids=["postgresql", "sqlite"],
)
def test_ids_are_never_used_twice_and_indexes_have_only_what_is_looked_for(dialect: Any, identity: str) -> None:
    table = outbox_table(sa.MetaData())
    assert identity in str(CreateTable(table).compile(dialect=dialect))
    statements = [str(CreateIndex(index).compile(dialect=dialect)) for index in table.indexes]
    assert sorted(statement[statement.index("(") :] for statement in statements) == [
        "(id) WHERE published_at IS NULL AND error IS NULL",
        "(lane) WHERE error IS NOT NULL",
        "(published_at) WHERE published_at IS NOT NULL",
    ]


def test_it_is_in_the_users_metadata_by_its_name() -> None:
    metadata = sa.MetaData()
    table = outbox_table(metadata, "events", schema="shop", shards=3)
    assert metadata.tables["shop.events"] is table
    assert shards_of(table) == 3


@pytest.mark.parametrize("shards", [0, 1_025, True, 1.5, "8"])
def test_a_number_of_shards_that_cannot_be_is_refused(shards: Any) -> None:
    with pytest.raises(ConfigurationError, match="write an int from 1 to 1024"):
        outbox_table(sa.MetaData(), shards=shards)


def test_another_table_is_none_of_an_outbox() -> None:
    with pytest.raises(ConfigurationError, match="'orders' is none of an outbox: make it with outbox_table"):
        shards_of(sa.Table("orders", sa.MetaData()))
