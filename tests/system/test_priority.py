"""A call's own overflow, and topics whose records get room and leave before others, against the dev broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aiokafkapy import BlockingProducer, KafkaProducer, ProducerRecord, TopicOptions
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import BufferExhaustedError, IllegalStateError, RecordDroppedError
from aiokafkapy.testing import MockProducer
from aiokafkapy.typed import Topic

FULL = 4
"""Records that the producers of these tests take."""
ALERTS = {"alerts": TopicOptions(priority="high")}


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker() as broker:
        for topic in ("orders", "alerts"):
            broker.create_topic(topic, partitions=1)
        yield broker


def values(broker: DevBroker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic, 0)]


async def full_producer(broker: DevBroker, **options: Any) -> KafkaProducer[Any, Any]:
    """A producer whose buffer is full, and whose records do not leave by themselves."""
    options = {"buffer_records": FULL, "linger_ms": 30_000, **options}
    producer = KafkaProducer[Any, Any](broker.bootstrap_servers, **options)
    await producer.start()
    for topic in ("orders", "alerts"):
        await producer.partitions_for(topic)
    broker.controls.stall_connections(True)
    while producer.statistics().pending < (FULL if not producer.config.priority_topics else FULL - 1):
        producer.send_nowait("orders", b"%d" % producer.statistics().pending)
    return producer


Call = Callable[[KafkaProducer[Any, Any], str], Awaitable[Any]]


async def by_nowait(producer: KafkaProducer[Any, Any], overflow: Any) -> Any:
    return await producer.send_nowait("orders", b"x", overflow=overflow)


async def by_enqueue(producer: KafkaProducer[Any, Any], overflow: Any) -> Any:
    return await (await producer.enqueue("orders", b"x", overflow=overflow))


async def by_many(producer: KafkaProducer[Any, Any], overflow: Any) -> Any:
    await producer.send_many("orders", [b"x", ProducerRecord("orders", b"y")], overflow=overflow)


async def by_table(producer: KafkaProducer[Any, Any], overflow: Any) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    await producer.send_arrow("orders", pyarrow.table({"value": [b"x", b"y"]}), overflow=overflow)


async def by_tables(producer: KafkaProducer[Any, Any], overflow: Any) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    async with producer.open_table_send("orders", overflow=overflow) as tables:
        result = await (await tables.send(pyarrow.table({"value": [b"x"]})))
        for error in result.failed.values():
            raise error


async def by_thread(producer: KafkaProducer[Any, Any], overflow: Any) -> Any:
    return await asyncio.wrap_future(producer.send_from_thread("orders", b"x", overflow=overflow))


async def by_topic(producer: KafkaProducer[Any, Any], overflow: Any) -> Any:
    return await Topic[str]("orders").bind(producer).send("x", overflow=overflow)


CALLS: list[Call] = [
    lambda producer, overflow: producer.send("orders", b"x", overflow=overflow),  # type: ignore[arg-type]
    by_nowait, by_enqueue, by_many, by_table, by_tables, by_thread, by_topic,
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
async def test_every_call_may_choose_the_overflow_of_its_record(broker: DevBroker, call: Call) -> None:
    producer = await full_producer(broker)
    with pytest.raises(BufferExhaustedError, match="buffer_records is full"):
        await call(producer, "raise")
    with pytest.raises(RecordDroppedError, match="overflow is drop_newest"):
        await call(producer, "drop_newest")
    with pytest.raises(ValueError, match="write one of wait, raise, drop_newest, drop_oldest"):
        await call(producer, "at once")
    with pytest.raises(IllegalStateError, match="no topic has overflow='drop_oldest'"):
        await call(producer, "drop_oldest")
    waiting = asyncio.ensure_future(producer.send("orders", b"waits"))
    broker.controls.stall_connections(False)
    await producer.flush()
    await waiting
    await producer.close()
    assert values(broker, "orders") == [b"0", b"1", b"2", b"3", b"waits"]


async def test_where_there_is_room_it_changes_nothing(broker: DevBroker) -> None:
    topics = {"alerts": TopicOptions(overflow="drop_oldest")}
    async with KafkaProducer(broker.bootstrap_servers, topics=topics) as producer:
        for overflow in ("wait", "raise", "drop_newest", "drop_oldest"):
            await producer.send("orders", overflow.encode(), overflow=overflow)
        await producer.send_many("orders", [b"x"] * 3, overflow="raise")
    assert len(values(broker, "orders")) == 7


async def test_a_call_may_wait_where_its_topic_does_not(broker: DevBroker) -> None:
    producer = await full_producer(broker, overflow="drop_newest")
    waiting = asyncio.ensure_future(producer.send("orders", b"waits", overflow="wait"))
    await asyncio.sleep(0)
    assert producer.statistics().waiters == 1
    broker.controls.stall_connections(False)
    await producer.flush()
    assert (await waiting).offset == FULL
    await producer.close()


async def test_a_transaction_takes_the_policies_that_leave_nothing_out(broker: DevBroker) -> None:
    async with KafkaProducer(broker.bootstrap_servers, transactional_id="a") as producer, producer.transaction():
        await producer.enqueue("orders", b"x", overflow="raise")
        with pytest.raises(IllegalStateError, match="dropped records would leave gaps"):
            await producer.enqueue("orders", b"y", overflow="drop_newest")
    assert values(broker, "orders") == [b"x"]


def test_the_blocking_producer_and_the_mock_take_it_too() -> None:
    async def serve() -> None:
        async with DevBroker() as broker:
            broker.create_topic("orders")
            await asyncio.to_thread(send, broker.bootstrap_servers)
            assert len(broker.records("orders", 0)) == 2

    def send(servers: str) -> None:
        with BlockingProducer(servers) as producer:
            producer.send("orders", b"x", overflow="raise").result(10)
            producer.send_many("orders", [b"y"], overflow="wait")
            with pytest.raises(ValueError, match="write one of"):
                producer.send("orders", b"z", overflow="never").result(10)  # type: ignore[arg-type]

    async def mock() -> None:
        async with MockProducer() as producer:
            await producer.send("orders", b"x", overflow="raise")
            with pytest.raises(ValueError, match="write one of"):
                await producer.send("orders", b"x", overflow="never")  # type: ignore[arg-type]

    asyncio.run(serve())
    asyncio.run(mock())


async def test_alerts_get_room_and_leave_before_clicks_that_wait(broker: DevBroker) -> None:
    producer = await full_producer(broker, topics=ALERTS, priority_reserve_percent=25)
    clicks = [asyncio.ensure_future(producer.send("orders", b"click %d" % number)) for number in range(3)]
    await asyncio.sleep(0)
    assert producer.statistics().waiters == 3
    delivery = producer.send_nowait("alerts", b"the share that is kept")
    alerts = [asyncio.ensure_future(producer.send("alerts", b"alert %d" % number)) for number in range(3)]
    await asyncio.sleep(0)
    assert producer.statistics().waiters == 6
    order: list[str] = []
    for name, calls in (("click", clicks), ("alert", alerts)):
        for call in calls:
            call.add_done_callback(lambda _, name=name: order.append(name))  # type: ignore[misc]
    broker.controls.stall_connections(False)
    await asyncio.gather(producer.flush(), delivery, *clicks, *alerts)
    await producer.close()
    assert order == ["alert"] * 3 + ["click"] * 3
    assert values(broker, "alerts") == [b"the share that is kept", b"alert 0", b"alert 1", b"alert 2"]
    assert values(broker, "orders") == [b"0", b"1", b"2", b"click 0", b"click 1", b"click 2"]


async def test_bulk_and_tables_of_a_topic_with_priority_keep_their_order(broker: DevBroker) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    options: dict[str, Any] = {"buffer_records": 8, "topics": ALERTS, "priority_reserve_percent": 50}
    async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
        numbers = [b"%03d" % number for number in range(200)]
        table = pyarrow.table({"value": [b"%03d" % number for number in range(200, 300)]})
        bulk = asyncio.ensure_future(producer.send_many("alerts", numbers))
        flood = asyncio.ensure_future(producer.send_many("orders", numbers))
        await bulk
        await asyncio.gather(producer.send_arrow("alerts", table), flood)
    assert values(broker, "alerts") == [b"%03d" % number for number in range(300)]
    assert values(broker, "orders") == numbers
