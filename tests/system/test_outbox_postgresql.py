"""An outbox on PostgreSQL alone: it is woken, relays share its shards, and the server may be killed."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from aiokafkapy.broker import DevBroker
from aiokafkapy.integrations.outbox import Outbox, OutboxRelay, outbox_table, relay
from aiokafkapy.testing.servers.postgresql import PostgreSQL
from tests.inside import setting_of_server
from tests.outboxes import QUICK, opened_outbox
from tests.waiting import until


@pytest.fixture
def broker(kafka_broker: DevBroker) -> DevBroker:
    """A broker with the topic ``t`` of one partition."""
    kafka_broker.create_topic("t", 1)
    return kafka_broker


async def test_a_commit_wakes_the_relay_at_once(
    postgresql: PostgreSQL, broker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "OWNING_SECONDS", 600.0)
    async with (
        opened_outbox(postgresql) as outbox,
        outbox.relay(broker.bootstrap_servers, poll_interval=600.0) as woken,
    ):
        await until(lambda: woken.statistics().is_connected)
        for number in range(3):
            await outbox.add(b"%d" % number)
            await until(outbox.is_empty, 10)


async def test_the_server_notices_within_a_minute_that_a_relays_host_is_gone(
    postgresql: PostgreSQL, broker: DevBroker
) -> None:
    """The server kept the session, and with it the locks, by the system's keep-alive of two hours."""
    async with opened_outbox(postgresql) as outbox, outbox.relay(broker.bootstrap_servers) as running:
        await until(lambda: running.statistics().is_connected)
        found = {}
        for name in ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"):
            found[name.removeprefix("tcp_")] = await setting_of_server(running, name)
    assert found == {
        "keepalives_idle": "30",
        "keepalives_interval": "10",
        "keepalives_count": "3",
        "user_timeout": "60000",
    }


async def test_relays_share_the_shards_as_they_come_and_go(postgresql: PostgreSQL, broker: DevBroker) -> None:
    async with opened_outbox(postgresql) as outbox, AsyncExitStack() as stack:
        relays = [await stack.enter_async_context(outbox.relay(broker.bootstrap_servers)) for _ in range(3)]

        def shares() -> list[int]:
            owned = [shard for each in relays for shard in each.statistics().shards]
            return sorted(len(each.statistics().shards) for each in relays) if len(owned) == len(set(owned)) else []

        await until(lambda: shares() == [2, 3, 3])
        await relays.pop().stop()
        await until(lambda: shares() == [4, 4])


async def test_a_server_that_is_killed_costs_nothing(postgresql: PostgreSQL, broker: DevBroker) -> None:
    async with opened_outbox(postgresql) as outbox:
        async with outbox.relay(broker.bootstrap_servers) as running:
            await outbox.add(*[b"%d" % number for number in range(10)], key=b"k")
            await until(lambda: running.statistics().published == 10)
            postgresql.stop(kill=True)
            await until(lambda: running.statistics().database_failures > 0)
            assert not running.statistics().is_connected
            postgresql.start()
            await outbox.engine.dispose()
            await outbox.add(*[b"%d" % number for number in range(10, 20)], key=b"k")
            await until(outbox.is_empty)
        assert [record.value for record in broker.records("t")] == [b"%d" % number for number in range(20)]


async def test_a_table_may_be_in_a_schema_and_need_quotes(postgresql: PostgreSQL, broker: DevBroker) -> None:
    metadata = sa.MetaData()
    table = outbox_table(metadata, "Out box", schema="Shop", shards=1)
    engine = create_async_engine(postgresql.url("asyncpg"))
    async with engine.begin() as connection:
        await connection.execute(sa.schema.CreateSchema("Shop"))
        await connection.run_sync(metadata.create_all)
    async with OutboxRelay(engine, table, broker.bootstrap_servers, **QUICK) as running:
        async with engine.begin() as connection:
            await Outbox(table).add(connection, "t", b"row", key=b"k")
        await until(lambda: running.statistics().published == 1)
    await engine.dispose()
    assert [record.value for record in broker.records("t")] == [b"row"]
