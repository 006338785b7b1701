"""A saga of two services: orders are placed, paid, and confirmed, or their steps are undone.

pip install '.[fastapi,outbox]' aiokafka
AIOKAFKAPY_BOOTSTRAP_SERVERS=localhost:9092 uvicorn order_saga:app      # the orders
AIOKAFKAPY_BOOTSTRAP_SERVERS=localhost:9092 python order_saga.py        # the payments
curl -d '{"customer": "ann", "item": "tea", "price": 5}' -H 'content-type: application/json' localhost:8000/orders

    orders: placed ─→ payments: taken ────→ orders: confirmed      there was one left
       │                  │                 orders: cancelled ──→ payments: refunded ──→ orders: refunded
       │                  └─ refused ─────→ orders: refused        nothing was taken, nothing is undone
       └─ 201 to the customer, who asks for the order's state

No transaction spans both services. Each step is one in its own: the orders' state and their events are rows of one
transaction of the database, which the outbox publishes; the payments read an event, and write theirs with its offset,
in one transaction of Kafka. A step that fails after others were done is answered by their opposites (compensation).

Events come once by the outbox's transactional id and by read_committed. The orders' own consumer commits its offsets
after the database's transaction, so it may read an event again: an order that has gone on already does not change.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import Column, Integer, MetaData, Table, Text, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from aiokafkapy import KafkaProducer, ProducerConfig
from aiokafkapy.integrations.outbox import Outbox, OutboxRelay, outbox_table
from aiokafkapy.observability.programs import configure_logging

configure_logging(os.environ.get("LOG_FORMAT", "console"), level=os.environ.get("LOG_LEVEL", "info"))

ORDERS, PAYMENTS = "orders", "payments"
STOCK = {"tea": 100, "kettle": 1}
CREDIT = 50
"""The most that a customer may spend at once."""

metadata = MetaData()
orders = Table(
    "orders",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("customer", Text),
    Column("item", Text),
    Column("price", Integer),
    Column("state", Text),
)
stock = Table("stock", metadata, Column("item", Text, primary_key=True), Column("left", Integer))
events = outbox_table(metadata)
outbox = Outbox(events, value_serializer=lambda event: json.dumps(event).encode())
engine = create_async_engine(os.environ.get("DATABASE_URL", "sqlite+aiosqlite:///orders.db"))


class Order(BaseModel):
    customer: str
    item: str
    price: int


# the orders


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)  # a real service has migrations
        if not (await connection.execute(select(stock))).all():
            await connection.execute(insert(stock), [{"item": item, "left": left} for item, left in STOCK.items()])
    config = ProducerConfig.from_env(transactional_id="orders-outbox")
    async with OutboxRelay(engine, events, config=config) as relay:
        following = asyncio.create_task(follow_payments(relay))
        try:
            yield
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place(order: Order) -> dict[str, int]:
    """201: the order is in the database, and the saga takes its way, even if a service is away now."""
    async with AsyncSession(engine) as session, session.begin():
        row = insert(orders).values(**order.model_dump(), state="placed").returning(orders.c.id)
        number = (await session.execute(row)).scalar_one()
        await tell(session, "placed", {"order": number, **order.model_dump()})
    return {"order": number}


@app.get("/orders/{number}")
async def state(number: int) -> dict[str, str]:
    async with engine.connect() as connection:
        found = await connection.scalar(select(orders.c.state).where(orders.c.id == number))
    if found is None:
        raise HTTPException(404, f"there is no order {number}")
    return {"state": found}


async def tell(session: AsyncSession, what: str, order: dict[str, Any]) -> None:
    """An event of an order, in the transaction that changes it. The key keeps an order's events in their order."""
    await outbox.add(session, ORDERS, {"event": what, **order}, key=b"%d" % order["order"])


async def follow_payments(relay: OutboxRelay) -> None:
    """The outcome of each payment decides the next step of its order."""
    async with consumer_of(PAYMENTS, "orders") as consumer:
        async for record in consumer:
            async with AsyncSession(engine) as session, session.begin():
                await go_on(session, json.loads(record.value or b""))  # a tombstone is not an event
            relay.wake()
            await consumer.commit()


async def go_on(session: AsyncSession, event: dict[str, Any]) -> None:
    """The next step of an order. An event that comes again finds it in another state, and changes nothing."""
    order = {name: event[name] for name in ("order", "customer", "item", "price")}
    match event["event"]:
        case "refused":
            await advance(session, order, "placed", "refused")
        case "refunded":
            await advance(session, order, "cancelled", "refunded")
        case "taken" if await advance(session, order, "placed", "confirmed"):
            if await take_from_stock(session, order["item"]):
                await tell(session, "confirmed", order)
            else:  # the payment was taken for nothing: it is to be undone
                await advance(session, order, "confirmed", "cancelled")
                await tell(session, "cancelled", order)


async def advance(session: AsyncSession, order: dict[str, Any], before: str, after: str) -> bool:
    """Move an order from one state to another; False when it is not in the first."""
    is_ours = (orders.c.id == order["order"]) & (orders.c.state == before)
    changed = await session.execute(update(orders).where(is_ours).values(state=after).returning(orders.c.id))
    return changed.first() is not None


async def take_from_stock(session: AsyncSession, item: str) -> bool:
    has_some = (stock.c.item == item) & (stock.c.left > 0)
    taken = await session.execute(update(stock).where(has_some).values(left=stock.c.left - 1).returning(stock.c.item))
    return taken.first() is not None


# the payments


async def pay() -> None:
    """Read orders, and write payments, each batch in one transaction with the offsets of the orders."""
    config = ProducerConfig.from_env(transactional_id="payments-1")  # one for each instance
    async with KafkaProducer(config=config) as producer, consumer_of(ORDERS, "payments") as consumer:
        async for batch in producer.consume_transform_produce(consumer):
            async with batch:
                for record in batch:
                    order = json.loads(record.value or b"")
                    answer = answer_to(order)
                    if answer is not None:
                        event = json.dumps({**order, "event": answer}).encode()
                        await producer.enqueue(PAYMENTS, event, key=record.key)


def answer_to(order: dict[str, Any]) -> str | None:
    """A payment, or its opposite: a real service calls its bank here, with the order's number, which makes it once."""
    match order["event"]:
        case "placed":
            return "taken" if order["price"] <= CREDIT else "refused"
        case "cancelled":
            return "refunded"
    return None


# both services


@asynccontextmanager
async def consumer_of(topic: str, group: str) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=os.environ.get("AIOKAFKAPY_BOOTSTRAP_SERVERS", "localhost:9092"),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(pay())
