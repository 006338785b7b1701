"""The outbox on the dev broker, with SQLite and with a real PostgreSQL: committed rows are published, in order."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from aiokafkapy import KafkaProducer, ProducerRecord, errors, json_serializer
from aiokafkapy.admin import TopicAdmin
from aiokafkapy.broker import DevBroker
from aiokafkapy.integrations.outbox import Outbox, OutboxRelay, database, transactional_publisher
from aiokafkapy.integrations.outbox.database import RelayDatabase
from aiokafkapy.integrations.outbox.marker_topic import MarkerTopic
from aiokafkapy.integrations.outbox.transactional_publisher import TransactionalPublisher
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.state import ProducerState
from aiokafkapy.protocol.api import ApiKey
from tests.inside import database_of, leave_unmarked, producers_of, task_of
from tests.outboxes import QUICK, TestOutbox, opened_outbox
from tests.reading import committed_values
from tests.waiting import until

MODES = pytest.mark.parametrize("mode", [{}, {"transactional_id": "service"}], ids=["at least once", "exactly once"])


@pytest.fixture
def broker(kafka_broker: DevBroker) -> DevBroker:
    """A broker with the topic ``t`` of one partition."""
    kafka_broker.create_topic("t", 1)
    return kafka_broker


def values(broker: DevBroker, topic: str = "t") -> list[bytes | None]:
    """All that was written, aborted records too."""
    return [record.value for record in broker.records(topic)]


class TestWriting:
    """Records as rows of the caller's own transaction."""

    @MODES
    async def test_committed_rows_are_published_as_they_are_and_rolled_back_ones_are_not(
        self, outbox: TestOutbox, broker: DevBroker, mode: dict[str, Any]
    ) -> None:
        async with outbox.relay(broker.bootstrap_servers, **mode):
            async with AsyncSession(outbox.engine) as session, session.begin():
                await outbox.outbox.add(
                    session, "t", b"value", key=b"key", headers={"h": b"1", "n": None}, partition=0, timestamp_ms=5_000
                )
                await session.execute(sa.insert(outbox.orders).values(value=b"value"))
            async with AsyncSession(outbox.engine) as session:
                await outbox.outbox.add(session, "t", b"never")
                await session.rollback()
            await outbox.add(b"last")
            await until(outbox.is_empty)
        # Rows of different keys have no order; and a transaction's marker may lie between.
        first, last = (next(one for one in broker.records("t") if one.value == value) for value in (b"value", b"last"))
        assert (first.key, first.value, first.timestamp_ms) == (b"key", b"value", 5_000)
        assert list(first.headers) == [("h", b"1"), ("n", None)]
        assert (last.key, last.partition) == (None, 0)
        committed = await committed_values(broker.bootstrap_servers, "t")
        assert len(committed) == 2
        assert set(committed) == {b"last", b"value"}

    async def test_sessions_and_connections_of_both_kinds_are_taken(
        self, outbox: TestOutbox, broker: DevBroker
    ) -> None:
        records = [ProducerRecord("t", b"%d" % number, b"k") for number in range(2)]
        async with AsyncSession(outbox.engine) as session, session.begin():
            assert await outbox.outbox.add_many(session, records) == 2
            assert await outbox.outbox.add_many(session, []) == 0

        def in_a_thread(connection: sa.Connection) -> None:
            outbox.outbox.add_blocking(connection, "t", b"2", key=b"k")
            with Session(connection) as session:
                outbox.outbox.add_blocking(session, "t", b"3", key=b"k")
                session.commit()

        async with outbox.engine.begin() as connection:
            await connection.run_sync(in_a_thread)
        async with outbox.relay(broker.bootstrap_servers):
            await until(outbox.is_empty)
        assert values(broker) == [b"0", b"1", b"2", b"3"]

    async def test_serializers_are_those_of_the_producer(self, outbox: TestOutbox) -> None:
        async def later(data: str) -> bytes:
            return data.encode()

        typed = Outbox(outbox.table, key_serializer=later, value_serializer=json_serializer)
        async with outbox.engine.begin() as connection:
            await typed.add(connection, "t", {"a": 1}, key="ann")
            with pytest.raises(errors.SerializationError, match="value_serializer failed for a record of topic 't'"):
                await typed.add(connection, "t", {1, 2})
            with pytest.raises(errors.SerializationError, match="asynchronous: use `await add"):
                await connection.run_sync(lambda sync: typed.add_blocking(sync, "t", key="ann"))
        (row,) = await outbox.rows()
        assert (row.key, row.value) == (b"ann", b'{"a":1}')

    async def test_the_wrong_kind_of_session_is_named_with_the_right_call(self, outbox: TestOutbox) -> None:
        unusable: Any = object()
        with pytest.raises(TypeError, match=r"a object is not an AsyncSession .* `add_blocking\(\.\.\.\)`"):
            await outbox.outbox.add(unusable, "t", b"")
        with pytest.raises(TypeError, match=r"not a Session or Connection.* `await add\(\.\.\.\)`"):
            outbox.outbox.add_blocking(unusable, "t", b"")


class TestOrder:
    """The order of rows of one key, and of one partition."""

    @MODES
    async def test_writers_and_relays_beside_each_other_keep_the_order_of_each_key(
        self, outbox: TestOutbox, broker: DevBroker, mode: dict[str, Any]
    ) -> None:
        written: dict[bytes, list[bytes]] = {}
        chance = random.Random(5)

        async def write(key: bytes) -> None:
            for number in range(15):
                async with outbox.open_transaction() as connection:
                    value = b"%s %d" % (key, number)
                    await outbox.outbox.add(connection, "t", value, key=key)
                    await asyncio.sleep(chance.uniform(0, 0.01))
                written.setdefault(key, []).append(value)

        async with AsyncExitStack() as stack:
            relays = [outbox.relay(broker.bootstrap_servers, batch_rows=7, **mode) for _ in range(3)]
            for relay in relays:
                await stack.enter_async_context(relay)
            await asyncio.gather(*(write(b"key %d" % number) for number in range(6)))
            await until(outbox.is_empty)
        seen = await committed_values(broker.bootstrap_servers, "t")
        for key, its_values in written.items():
            assert [value for value in seen if value is not None and value.startswith(key)] == its_values
        assert len(seen) == 90

    async def test_the_second_of_two_transactions_with_one_key_waits_for_the_first(
        self, outbox: TestOutbox, broker: DevBroker
    ) -> None:
        """Ids of a key are in the order of commits; SQLite has one writer at a time by itself."""
        if not outbox.is_postgresql:
            pytest.skip("SQLite lets one transaction write at a time")
        async with outbox.relay(broker.bootstrap_servers):
            async with outbox.open_transaction() as first:
                await outbox.outbox.add(first, "t", b"first", key=b"k")
                second = asyncio.create_task(outbox.add(b"second", key=b"k"))
                await outbox.add(b"another", key=b"l")
                await until(lambda: values(broker) == [b"another"])
                assert not second.done()
            await second
            await until(outbox.is_empty)
        assert values(broker) == [b"another", b"first", b"second"]

    async def test_a_lower_id_that_is_committed_later_is_published_too(
        self, outbox: TestOutbox, broker: DevBroker
    ) -> None:
        if not outbox.is_postgresql:
            pytest.skip("SQLite lets one transaction write at a time")
        free = Outbox(outbox.table, orders_keys=False)
        async with outbox.relay(broker.bootstrap_servers):
            async with outbox.open_transaction() as first, outbox.open_transaction() as second:
                await free.add(first, "t", b"lower", key=b"k")
                await free.add(second, "t", b"higher", key=b"k")
                await second.commit()
                await until(lambda: values(broker) == [b"higher"])
            await until(outbox.is_empty)
        assert values(broker) == [b"higher", b"lower"], "in the order of commits"

    async def test_rows_without_a_key_keep_the_order_of_their_topic_or_partition(
        self, outbox: TestOutbox, kafka_broker: DevBroker
    ) -> None:
        kafka_broker.create_topic("one", 1)
        kafka_broker.create_topic("two", 2)
        numbers = [b"%d" % number for number in range(60)]
        for number in numbers:
            await outbox.add(number, topic="one")
            await outbox.add(number, topic="two", partition=1, key=b"%d" % (int(number) % 7))
        async with outbox.relay(kafka_broker.bootstrap_servers, batch_rows=11):
            await until(outbox.is_empty)
        assert [record.value for record in kafka_broker.records("one", 0)] == numbers
        assert [record.value for record in kafka_broker.records("two", 1)] == numbers


class TestRefused:
    """A record that cannot be published is parked; others are published, those behind it by choice."""

    async def test_a_partitioner_that_raises_costs_its_row_alone(self, outbox: TestOutbox, broker: DevBroker) -> None:
        def place(topic: str, key: bytes, *_: object) -> int:
            if key == b"bad":
                raise LookupError("no place for it")
            return 0

        await outbox.add(b"parked", key=b"bad")
        await outbox.add(b"sent", key=b"good")
        async with outbox.relay(broker.bootstrap_servers, partitioner=place) as relay:
            await until(lambda: relay.statistics().published == relay.statistics().refused == 1)
            assert "no place for it" in str(relay.statistics().last_error)
        assert values(broker) == [b"sent"]

    @MODES
    @pytest.mark.parametrize(("on_error", "who"), [("stop", "the broker"), ("skip", "the producer")])
    async def test_it_stops_its_key_or_nothing(
        self, outbox: TestOutbox, kafka_broker: DevBroker, mode: dict[str, Any], on_error: str, who: str
    ) -> None:
        limit: dict[str, Any] = {"max_message_bytes": 2_000} if who == "the broker" else {}
        kafka_broker.create_topic("t", 1, **limit)
        options: dict[str, Any] = mode if who == "the broker" else {**mode, "max_request_size": 2_000}
        await outbox.add(b"before", key=b"k")
        await outbox.add(b"x" * 3_000, key=b"k")
        await outbox.add(b"behind", key=b"k")
        await outbox.add(b"beside", key=b"l")
        wanted = [b"before", b"beside"] if on_error == "stop" else [b"before", b"behind", b"beside"]
        async with outbox.relay(kafka_broker.bootstrap_servers, on_error=on_error, **options) as relay:
            await until(lambda: relay.statistics().published == len(wanted))
            await until(lambda: relay.statistics().refused == 1 and relay.statistics().unmarked == 0)
            assert "TooLarge" in str(relay.statistics().last_error)
            backlog = await relay.backlog()
        assert sorted(await committed_values(kafka_broker.bootstrap_servers, "t"), key=str) == wanted
        assert (backlog.pending, backlog.refused) == (len({b"behind"} - set(wanted)), 1)
        parked, *waiting = await outbox.rows()
        assert "TooLarge" in parked.error
        assert [row.value for row in waiting] == ([b"behind"] if on_error == "stop" else [])

    @pytest.mark.parametrize("is_blocking", [False, True])
    async def test_it_is_published_when_it_was_dealt_with_and_waiting_rows_follow(
        self, outbox: TestOutbox, broker: DevBroker, *, is_blocking: bool
    ) -> None:
        await outbox.add(b"x" * 3_000, b"behind", key=b"k")
        async with outbox.relay(broker.bootstrap_servers, max_request_size=2_000) as relay:
            await until(lambda: relay.statistics().refused == 1)
        async with outbox.relay(broker.bootstrap_servers) as relay:
            async with AsyncSession(outbox.engine) as session, session.begin():
                assert await outbox.outbox.retry_refused(session, [-1]) == 0
                if is_blocking:
                    assert await session.run_sync(outbox.outbox.retry_refused_blocking) == 1
                else:
                    assert await outbox.outbox.retry_refused(session) == 1
            await until(outbox.is_empty)
        assert values(broker) == [b"x" * 3_000, b"behind"]

    async def test_a_row_that_was_damaged_is_one_too(self, outbox: TestOutbox, broker: DevBroker) -> None:
        await outbox.add(b"damaged", b"behind", key=b"k")
        async with outbox.engine.begin() as connection:
            await connection.execute(sa.update(outbox.table).where(outbox.table.c.id == 1).values(headers="{"))
        async with outbox.relay(broker.bootstrap_servers, on_error="skip") as relay:
            await until(lambda: relay.statistics().refused == relay.statistics().published == 1)
        assert values(broker) == [b"behind"]

    @MODES
    @pytest.mark.parametrize("linger_ms", [0, 20])
    async def test_a_batch_that_a_broker_refuses_for_one_record_costs_no_other(
        self, outbox: TestOutbox, broker: DevBroker, mode: dict[str, Any], linger_ms: int
    ) -> None:
        """Its records go in one request (``linger_ms``), or the first one goes alone, before the others are taken."""

        def refuse(_: object, request: Any) -> None:
            partitions = [each for topic in request.topic_data for each in topic.partition_data]
            if any(b"refused" in bytes(each.records) for each in partitions):
                broker.controls.fail_next(ApiKey.PRODUCE, errors.InvalidRecordError, topic="t")

        broker.controls.on_request(ApiKey.PRODUCE, refuse)
        numbers = [b"refused", *(b"%d" % number for number in range(1, 10))]
        await outbox.add(*numbers, key=b"k")
        options = {**mode, "linger_ms": linger_ms}
        async with outbox.relay(broker.bootstrap_servers, on_error="skip", **options) as relay:
            await until(lambda: relay.statistics().published == 9 and relay.statistics().refused == 1)
        assert await committed_values(broker.bootstrap_servers, "t") == numbers[1:], "the first was refused alone"

    @pytest.mark.kafka_broker(auto_create_topics_enable=False)
    @MODES
    async def test_a_topic_that_is_missing_is_tried_again_and_holds_no_other(
        self, outbox: TestOutbox, broker: DevBroker, mode: dict[str, Any]
    ) -> None:
        await outbox.add(b"early", topic="missing", key=b"k")
        await outbox.add(b"early", partition=99)
        await outbox.add(b"beside", key=b"k")
        if mode:
            broker.create_topic("aiokafkapy-outbox", 1, config={"cleanup.policy": "compact"})
        async with outbox.relay(broker.bootstrap_servers, **mode) as relay:
            await until(lambda: values(broker) != [])
            await until(lambda: any("missing" in held for held in relay.statistics().held))
            broker.create_topic("missing", 1)
            await until(lambda: relay.statistics().published == 2)
            assert relay.statistics().refused == 0
        assert await committed_values(broker.bootstrap_servers, "missing") == [b"early"]
        assert await committed_values(broker.bootstrap_servers, "t") == [b"beside"]
        assert [row.partition for row in await outbox.rows()] == [99]


class TestOutages:
    """Outages of the database, of Kafka, and of the relay."""

    @MODES
    async def test_brokers_that_are_away_cost_no_row_and_no_order(
        self, outbox: TestOutbox, broker: DevBroker, mode: dict[str, Any]
    ) -> None:
        broker.controls.stop_node(1)
        numbers = [b"%d" % number for number in range(20)]
        await outbox.add(*numbers[:10], key=b"k")
        options = {**mode, "max_block_ms": 300, "delivery_timeout_ms": 600, "request_timeout_ms": 300}
        async with outbox.relay(broker.bootstrap_servers, **options) as relay:
            await until(lambda: relay.statistics().held)
            broker.controls.start_node(1)
            await until(lambda: relay.statistics().published == 10)
            broker.controls.stop_node(1)
            await outbox.add(*numbers[10:], key=b"k")
            await until(lambda: relay.statistics().held)
            broker.controls.start_node(1)
            await until(outbox.is_empty)
        assert await committed_values(broker.bootstrap_servers, "t") == numbers

    @MODES
    async def test_records_that_expire_are_sent_again_in_their_order(
        self, outbox: TestOutbox, broker: DevBroker, mode: dict[str, Any]
    ) -> None:
        numbers = [b"%d" % number for number in range(30)]
        broker.controls.fail_next(ApiKey.PRODUCE, errors.NotEnoughReplicasError, topic="t", times=None)
        options = {**mode, "request_timeout_ms": 200, "delivery_timeout_ms": 300, "batch_size": 200}
        async with outbox.relay(broker.bootstrap_servers, **options) as relay:
            await outbox.add(*numbers, key=b"k")
            await until(lambda: relay.statistics().held == ("topic t",))
            broker.controls.clear()
            await until(outbox.is_empty)
        assert await committed_values(broker.bootstrap_servers, "t") == numbers

    @MODES
    async def test_a_database_that_fails_after_the_records_were_sent_is_reported_first(
        self, outbox: TestOutbox, broker: DevBroker, mode: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failures = 2
        mark = RelayDatabase.mark

        async def failing(self: RelayDatabase, rows: Any) -> int:
            nonlocal failures
            if rows and failures:
                failures -= 1
                raise ConnectionError("the database is away")
            return await mark(self, rows)

        monkeypatch.setattr(RelayDatabase, "mark", failing)
        await outbox.add(*[b"%d" % number for number in range(10)], key=b"k")
        async with outbox.relay(broker.bootstrap_servers, **mode) as relay:
            await until(outbox.is_empty)
            assert relay.statistics().database_failures == 2
            await until(lambda: relay.statistics().unmarked == 0)
        assert await committed_values(broker.bootstrap_servers, "t") == [b"%d" % number for number in range(10)]

    @pytest.mark.parametrize("kept", [None, 60.0, 0.0])
    async def test_published_rows_are_deleted_or_kept_for_a_time(
        self, outbox: TestOutbox, broker: DevBroker, kept: float | None
    ) -> None:
        await outbox.add(b"one", b"two", key=b"k")
        async with outbox.relay(broker.bootstrap_servers, keep_published=kept) as relay:
            await until(lambda: relay.statistics().published == 2)
            if kept == 60.0:
                await until(lambda: relay.statistics().unmarked == 0)
            else:
                await until(outbox.is_empty)
            assert (await relay.backlog()).pending == 0
        rows = await outbox.rows()
        assert [row.value for row in rows if row.published_at is not None] == ([b"one", b"two"] if kept else [])
        async with outbox.relay(broker.bootstrap_servers, keep_published=60.0) as relay:
            await outbox.add(b"three", key=b"k")
            await until(lambda: relay.statistics().published == 1)
        assert values(broker) == [b"one", b"two", b"three"]

    async def test_published_rows_are_deleted_under_load_too_some_at_a_time(
        self, outbox: TestOutbox, broker: DevBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database, "PURGED_AT_ONCE", 3)
        await outbox.add(*[b"%d" % number for number in range(20)], key=b"k")
        async with outbox.relay(broker.bootstrap_servers, keep_published=0.0, batch_rows=4):
            await until(outbox.is_empty)
        assert values(broker) == [b"%d" % number for number in range(20)]

    @MODES
    async def test_another_relay_takes_over_the_shards_that_one_leaves(
        self, outbox: TestOutbox, broker: DevBroker, mode: dict[str, Any]
    ) -> None:
        first, second = (outbox.relay(broker.bootstrap_servers, **mode) for _ in range(2))
        async with second:
            async with first:
                await outbox.add(*[b"%d" % number for number in range(10)])
                await until(outbox.is_empty)
                owned = [*first.statistics().shards, *second.statistics().shards]
                assert len(owned) == len(set(owned))
            await outbox.add(b"ten")
            await until(outbox.is_empty)
            await until(lambda: len(second.statistics().shards) == 3)
        assert await committed_values(broker.bootstrap_servers, "t") == [*(b"%d" % n for n in range(10)), b"ten"]

    async def test_a_fenced_relay_publishes_nothing(self, outbox: TestOutbox, broker: DevBroker) -> None:
        """A relay that lost its shard without knowing it, as after a pause: its transaction is not committed."""
        config = ProducerConfig(bootstrap_servers=broker.bootstrap_servers, **QUICK)
        late, owner = (TransactionalPublisher(config, "service", "markers", "stop") for _ in range(2))
        async with outbox.relay(broker.bootstrap_servers) as relay:
            await until(lambda: len(relay.statistics().shards) == 3)
            database = database_of(relay)
            broker.controls.stop_node(1)  # so that the relay itself publishes nothing
            await outbox.add(b"row")
            rows = await database.pending(range(3), (), 10)
            await relay.stop(0)
        broker.controls.start_node(1)
        try:
            assert await late.take_over([rows[0].shard]) == ({}, (await late.take_over([rows[0].shard]))[1])
            assert (await owner.take_over([rows[0].shard]))[0] == {}
            refused = await late.publish(rows)
            assert [str(held) for held in refused.held] == [f"shard {rows[0].shard}"]
            assert refused.published == []
            assert (await owner.publish(rows)).published == rows
            found, _ = await late.take_over([rows[0].shard])
            assert found == {rows[0].id: rows[0].uid}, "taken anew, it is told of the published rows"
        finally:
            await late.close(0)
            await owner.close(0)
        assert await committed_values(broker.bootstrap_servers, "t") == [b"row"]


@pytest.mark.kafka_broker(version="3.6", auto_create_topics_enable=False)
@pytest.mark.parametrize(
    ("topic", "held", "beside"), [("t", "topic t", [b"beside"]), ("aiokafkapy-outbox", "shard 0", [])]
)
@pytest.mark.parametrize("error", [errors.TopicAuthorizationFailedError, errors.PolicyViolationError])
async def test_partitions_that_a_transaction_may_not_have_hold_their_topic(
    error: type[errors.KafkaError], topic: str, held: str, beside: list[bytes], tmp_path: Path, broker: DevBroker
) -> None:
    """Before transaction.version 2 partitions are added by a request of their own, and its error was of no record."""
    broker.create_topic("other", 1)
    broker.create_topic("aiokafkapy-outbox", 1, config={"cleanup.policy": "compact"})

    async def is_beside() -> bool:
        return await committed_values(broker.bootstrap_servers, "other") == beside

    async with opened_outbox(tmp_path, shards=1) as outbox:
        fault = broker.controls.fail_next(ApiKey.ADD_PARTITIONS_TO_TXN, error, topic=topic, times=None)
        await outbox.add(b"row")
        await outbox.add(b"beside", topic="other")
        async with outbox.relay(broker.bootstrap_servers, transactional_id="service") as relay:
            await until(lambda: held in relay.statistics().held)
            assert (relay.statistics().last_error or "").startswith(error.__name__)
            await until(is_beside)
            broker.controls.end_fault(fault)
            await until(outbox.is_empty)
            assert relay.statistics().refused == 0
    assert await committed_values(broker.bootstrap_servers, "t") == [b"row"]
    assert await committed_values(broker.bootstrap_servers, "other") == [b"beside"]


async def test_a_take_over_that_is_cancelled_closes_the_producers_that_it_had(
    kafka_broker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: asyncio.Queue[KafkaProducer[Any, Any]] = asyncio.Queue()

    class HalfOfThem(KafkaProducer[Any, Any]):
        async def start(self) -> None:
            if self.config.transactional_id != "service-0":
                await asyncio.Event().wait()
            await super().start()
            started.put_nowait(self)

    monkeypatch.setattr(transactional_publisher, "KafkaProducer", HalfOfThem)
    config = ProducerConfig(bootstrap_servers=kafka_broker.bootstrap_servers, **QUICK)
    publisher = TransactionalPublisher(config, "service", "markers", "stop")
    taking_over = asyncio.ensure_future(publisher.take_over([0, 1]))
    producer = await started.get()
    taking_over.cancel()
    await asyncio.wait([taking_over])
    assert taking_over.cancelled()
    assert producer.state is ProducerState.CLOSED


@pytest.mark.parametrize("steps", range(1, 4))
async def test_closing_that_is_cancelled_leaves_no_producer_open(steps: int, kafka_broker: DevBroker) -> None:
    """After one step the tasks are there, and none has begun: as when a relay is stopped that is just ending."""
    config = ProducerConfig(bootstrap_servers=kafka_broker.bootstrap_servers, **QUICK)
    publisher = TransactionalPublisher(config, "service", "markers", "stop")
    await publisher.take_over([0, 1])
    producers = producers_of(publisher)
    closing = asyncio.ensure_future(publisher.close(0))
    for _ in range(steps):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    assert [producer.state for producer in producers] == [ProducerState.CLOSED] * 2


@pytest.mark.parametrize("who", ["the broker", "the producer"])
async def test_a_batch_whose_marker_is_too_large_is_halved(tmp_path: Path, broker: DevBroker, who: str) -> None:
    """The batch was tried again as it was, and its shard published nothing any more."""
    limit: dict[str, Any] = {"max_message_bytes": 2_000} if who == "the broker" else {}
    broker.create_topic("aiokafkapy-outbox", 1, config={"cleanup.policy": "compact"}, **limit)
    options: dict[str, Any] = {} if limit else {"max_request_size": 2_000}
    numbers = [b"%d" % number for number in range(100)]
    async with opened_outbox(tmp_path) as outbox:
        await outbox.add(*numbers, key=b"k")
        async with outbox.relay(broker.bootstrap_servers, transactional_id="service", **options) as relay:
            await until(outbox.is_empty)
            assert relay.statistics().refused == 0
    assert await committed_values(broker.bootstrap_servers, "t") == numbers


@pytest.mark.kafka_broker(nodes=3)
async def test_the_topic_of_markers_is_compacted_and_has_three_copies_on_three_nodes(kafka_broker: DevBroker) -> None:
    config = ProducerConfig(bootstrap_servers=kafka_broker.bootstrap_servers)
    assert await MarkerTopic(config, "markers").find([b"service-0"]) == {}
    async with TopicAdmin(kafka_broker.bootstrap_servers) as admin:
        (partition,) = (await admin.describe("markers")).partitions
        configs = await admin.configs("markers")
        await admin.create("forgets", partitions=1)
    assert len(partition.replicas) == 3
    assert (configs["cleanup.policy"], configs["min.insync.replicas"]) == ("compact", "2")
    with pytest.raises(errors.ConfigurationError, match=r"'forgets'.*cleanup.policy=delete: expected compact"):
        await MarkerTopic(config, "forgets").find([b"service-0"])


class TestLife:
    """The relay as a task."""

    async def test_neither_database_nor_kafka_need_be_there_at_the_start(
        self, outbox: TestOutbox, broker: DevBroker
    ) -> None:
        async with outbox.engine.begin() as connection:
            await connection.run_sync(outbox.metadata.drop_all)
        async with outbox.relay(broker.bootstrap_servers) as relay:
            await until(lambda: relay.statistics().database_failures > 0)
            assert not relay.statistics().is_connected
            async with outbox.engine.begin() as connection:
                await connection.run_sync(outbox.metadata.create_all)
            await outbox.add(b"row")
            await until(outbox.is_empty)
            assert relay.statistics().is_connected
        assert values(broker) == [b"row"]

    async def test_stopping_lets_the_batch_come_to_its_end(self, outbox: TestOutbox, broker: DevBroker) -> None:
        broker.controls.delay(ApiKey.PRODUCE, 0.3)
        await outbox.add(*[b"%d" % number for number in range(10)], key=b"k")
        relay = outbox.relay(broker.bootstrap_servers)
        await relay.start()
        await until(lambda: broker.controls.request_count(ApiKey.PRODUCE))
        await relay.stop()
        await relay.stop()
        assert await outbox.is_empty()
        assert relay.statistics().published == 10

    @pytest.mark.parametrize("how", ["a time-out", "cancellation"])
    async def test_it_ends_at_once_when_it_must_and_loses_nothing(
        self, outbox: TestOutbox, broker: DevBroker, how: str
    ) -> None:
        broker.controls.stall_connections(True)
        await outbox.add(b"row")
        relay = outbox.relay(broker.bootstrap_servers, max_block_ms=60_000)
        task = asyncio.create_task(relay.run(signals=()))
        await until(lambda: relay.statistics().shards)
        async with asyncio.timeout(5):
            if how == "a time-out":
                await relay.stop(0.05)
                await task
            else:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        broker.controls.stall_connections(False)
        async with outbox.relay(broker.bootstrap_servers):
            await until(outbox.is_empty)
        assert values(broker)[-1:] == [b"row"]

    async def test_it_leaves_no_task_behind_when_it_ends_at_once(self, outbox: TestOutbox) -> None:
        async def live() -> None:
            relay = outbox.relay("localhost:1")
            await relay.start()
            await until(lambda: relay.statistics().is_connected)
            await relay.stop(0)

        before = asyncio.all_tasks()
        for _ in range(5):
            await live()
        await until(lambda: asyncio.all_tasks() <= before)

    @MODES
    async def test_a_batch_does_not_wait_for_records_that_would_join_it(
        self, outbox: TestOutbox, broker: DevBroker, mode: dict[str, Any]
    ) -> None:
        await outbox.add(b"row")
        async with outbox.relay(broker.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=70_000, **mode):
            await until(outbox.is_empty)
        assert await committed_values(broker.bootstrap_servers, "t") == [b"row"]

    async def test_a_bug_ends_it_loudly(
        self,
        outbox: TestOutbox,
        broker: DevBroker,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(RelayDatabase, "pending", None)
        relay = outbox.relay(broker.bootstrap_servers)
        with pytest.raises(TypeError, match="not callable"):
            await relay.run(signals=())
        assert "outbox.crashed" in caplog.text
        with pytest.raises(errors.IllegalStateError, match="started before: make a new one"):
            await relay.start()

    async def test_a_relay_that_is_cancelled_while_it_connects_leaves_the_file_to_the_service(
        self, tmp_path: Path
    ) -> None:
        outbox = TestOutbox(f"sqlite+aiosqlite:///{tmp_path}/service.db", "outbox")
        relay = outbox.relay("localhost:1")
        await relay.start()
        task = task_of(relay)

        @sa.event.listens_for(outbox.engine.sync_engine, "before_cursor_execute")
        def cancel(*_: object) -> None:
            task.cancel()

        await asyncio.wait([task])
        with contextlib.closing(sqlite3.connect(tmp_path / "service.db", timeout=1)) as service:
            service.execute("CREATE TABLE written (number)")
        await outbox.engine.dispose()

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"on_error": "explode"}, "on_error='explode': write 'stop' or 'skip'"),
            ({"batch_rows": 0}, "batch_rows=0: write 1 to 10000"),
            ({"keep_published": -1}, "keep_published=-1: write seconds"),
            ({"keep_published": float("nan")}, "keep_published=nan: write seconds"),
            ({"keep_published": float("inf")}, "keep_published=inf: write seconds, 0 to 1000000000"),
            ({"poll_interval": 0}, "poll_interval=0: write more than 0 seconds"),
            ({"acks": 1}, "enable_gapless_guarantee=True needs enable_idempotence=True"),
            ({"lingerms": 5}, "linger_ms"),
            ({"manual_flush": True, "linger_ms": None}, "manual_flush=True contradicts a relay"),
            ({"value_serializer": bytes}, "serialized when they are added, and would be a second time"),
            ({"key_serializer": bytes}, "serialized when they are added, and would be a second time"),
        ],
    )
    async def test_options_that_cannot_work_are_refused_at_once(self, options: dict[str, Any], text: str) -> None:
        with pytest.raises(errors.ConfigurationError, match=text):
            TestOutbox("sqlite+aiosqlite:///never.db", "outbox").relay("localhost:9092", **options)

    async def test_a_table_of_another_kind_and_a_database_in_memory_are_refused(self) -> None:
        outbox = TestOutbox("sqlite+aiosqlite:///never.db", "outbox")
        with pytest.raises(errors.ConfigurationError, match="is not an outbox table: make it with outbox_table"):
            OutboxRelay(outbox.engine, outbox.orders, "localhost:9092")
        with pytest.raises(errors.ConfigurationError, match="a relay needs the path of a file"):
            OutboxRelay(create_async_engine("sqlite+aiosqlite://"), outbox.table, "localhost:9092")


class TestSqlite:
    """The tests for databases in a file only."""

    async def test_a_service_that_writes_for_long_delays_the_relay_and_costs_nothing(
        self, outbox: TestOutbox, broker: DevBroker
    ) -> None:
        if outbox.is_postgresql:
            pytest.skip("PostgreSQL has many writers")
        await outbox.add(b"row")
        with writing(str(outbox.engine.url.database)):
            async with outbox.relay(broker.bootstrap_servers, database_timeout=0.2) as relay:
                await until(lambda: relay.statistics().database_failures > 0)
        async with outbox.relay(broker.bootstrap_servers):
            await until(outbox.is_empty)
        assert set(values(broker)) == {b"row"}

    async def test_no_relay_that_stands_by_publishes_a_batch_again_while_the_service_writes(
        self, outbox: TestOutbox, broker: DevBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if outbox.is_postgresql:
            pytest.skip("PostgreSQL has many writers")
        mark = RelayDatabase.mark
        engine = create_async_engine(outbox.url, connect_args={"timeout": 0.05})
        first, *others = (
            OutboxRelay(engine, outbox.table, broker.bootstrap_servers, poll_interval=0.02, **QUICK) for _ in range(3)
        )
        async with AsyncExitStack() as stack:
            service = stack.enter_context(ExitStack())

            async def mark_while_the_service_writes(database: RelayDatabase, rows: Mapping[int, UUID]) -> int:
                monkeypatch.setattr(RelayDatabase, "mark", mark)
                service.enter_context(writing(str(engine.url.database)))
                return await mark(database, rows)

            stack.push_async_callback(engine.dispose)
            await stack.enter_async_context(first)
            await until(lambda: first.statistics().shards)
            for each in others:
                await stack.enter_async_context(each)
            monkeypatch.setattr(RelayDatabase, "mark", mark_while_the_service_writes)
            await outbox.add(b"row")
            await until(lambda: first.statistics().database_failures > 5)  # others ask for shards every second
            service.close()
            await until(outbox.is_empty)
        assert values(broker) == [b"row"]

    async def test_the_markers_of_many_shards_are_told_some_rows_at_a_time(
        self, tmp_path: Path, broker: DevBroker
    ) -> None:
        """A statement takes 32,766 values, each row is two: nothing was published again after such a start."""
        async with opened_outbox(tmp_path) as outbox:

            @sa.event.listens_for(outbox.engine.sync_engine, "connect")
            def limit(connection: Any, _: object) -> None:
                raw = connection.driver_connection._conn  # aiosqlite has no call for it
                raw.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)

            await outbox.engine.dispose()  # so that each connection has the limit
            await outbox.add(b"row")
            relay = outbox.relay(broker.bootstrap_servers)
            leave_unmarked(relay, {number: UUID(int=number) for number in range(1_000, 25_000)})
            async with relay:
                await until(outbox.is_empty)
                await until(lambda: relay.statistics().unmarked == 0)
            assert relay.statistics().database_failures == 0
        assert values(broker) == [b"row"]


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Another process's transaction, as far as the file knows."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()
