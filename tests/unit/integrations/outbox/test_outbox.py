"""The outbox without a server: its error without its extra, its statements for PostgreSQL, and its rows."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from aiokafkapy import BytesWithHeaders, ProducerRecord
from aiokafkapy.errors import SerializationError
from aiokafkapy.integrations.outbox import Outbox, outbox_table
from aiokafkapy.integrations.outbox.outbox import channel_of
from aiokafkapy.integrations.outbox.rows import decode_headers

KEYED = [ProducerRecord("t", b"v", b"%d" % number) for number in (2, 1, 2)]


def statements(outbox: Outbox, *records: ProducerRecord, dialect: str = "postgresql") -> list[tuple[str, object]]:
    made = outbox._statements(records)
    assert made is not None
    return [(str(text).partition("(")[0], values) for text, values in made.before(dialect)]


def with_schema_id(data: str) -> bytes:
    return BytesWithHeaders(data.encode(), {"id": data.encode()})


async def with_schema_id_later(data: str) -> bytes:
    return with_schema_id(data)


def test_without_the_extra_the_error_names_it() -> None:
    program = "import sys; sys.modules['sqlalchemy'] = None; import aiokafkapy.integrations.outbox"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith("an asynchronous driver: pip install 'aiokafkapy[outbox]'")


def test_keys_are_locked_once_each_in_one_order_and_the_commit_is_announced() -> None:
    (lock, locks), (notify, channel) = statements(Outbox(outbox_table(sa.MetaData())), *KEYED)
    assert (lock, notify) == ("SELECT count", "SELECT pg_notify")
    assert isinstance(locks, dict)
    assert locks["numbers"] == sorted(set(locks["numbers"]))
    assert len(locks["numbers"]) == 2
    assert channel == {"channel": "aiokafkapy_outbox"}


def test_a_row_without_a_key_of_its_own_lane_is_not_locked() -> None:
    outbox = Outbox(outbox_table(sa.MetaData()))
    for record in (ProducerRecord("t", b"v"), ProducerRecord("t", b"v", b"k", 0)):
        assert [text for text, _ in statements(outbox, record)] == ["SELECT pg_notify"]


def test_locks_and_notifications_are_for_postgresql_and_can_be_left_out() -> None:
    table = outbox_table(sa.MetaData())
    assert statements(Outbox(table), *KEYED, dialect="sqlite") == []
    assert statements(Outbox(table, orders_keys=False, notifies=False), *KEYED) == []


def test_a_channel_is_as_long_as_postgresql_takes() -> None:
    assert channel_of(outbox_table(sa.MetaData(), "x" * 80)) == "x" * 63


def test_a_row_has_the_callers_headers_and_then_those_of_its_serializers() -> None:
    table = outbox_table(sa.MetaData())
    outbox = Outbox(table, key_serializer=with_schema_id, value_serializer=with_schema_id)
    with sa.create_engine("sqlite://").begin() as connection:
        table.create(connection)
        outbox.add_blocking(connection, "t", "value", key="key", headers=[("own", None)])
        (row,) = connection.execute(sa.select(table)).all()
    assert (row.key, row.value) == (b"key", b"value")
    assert decode_headers(row.headers) == (("own", None), ("id", b"key"), ("id", b"value"))


async def test_the_headers_of_an_async_serializer_are_in_the_row() -> None:
    table = outbox_table(sa.MetaData())
    engine = create_async_engine("sqlite+aiosqlite://")
    async with engine.begin() as connection:
        await connection.run_sync(table.create)
        await Outbox(table, value_serializer=with_schema_id_later).add(connection, "t", "value")
        (row,) = (await connection.execute(sa.select(table))).all()
    await engine.dispose()
    assert (row.value, decode_headers(row.headers)) == (b"value", (("id", b"value"),))


def test_a_serializer_may_want_the_topic_and_its_failure_names_it() -> None:
    class Picky:
        wants_topic = True

        def __call__(self, topic: str, data: object) -> bytes:
            raise asyncio.CancelledError(topic, data)

    record = ProducerRecord("t", b"v")
    with pytest.raises(SerializationError, match="value_serializer failed for a record of topic 't'"):
        Outbox(outbox_table(sa.MetaData()), value_serializer=Picky())._serialized_at_once(record)


async def test_a_serializer_that_is_cancelled_fails_its_record_and_not_the_caller() -> None:
    async def cancelled(_data: object) -> bytes:
        raise asyncio.CancelledError

    outbox = Outbox(outbox_table(sa.MetaData()), value_serializer=cancelled)
    with pytest.raises(SerializationError, match="value_serializer failed for a record of topic 't'"):
        await outbox._serialized(ProducerRecord("t", b"v"))
