"""Orders over HTTP into a database, and by its outbox into Kafka: both, or none, after any failure in between.

pip install '.[fastapi,outbox]'
AIOKAFKAPY_BOOTSTRAP_SERVERS=localhost:9092 uvicorn outbox_service:app
curl -d '{"customer": "ann", "item": "tea"}' -H 'content-type: application/json' localhost:8000/orders

DATABASE_URL=postgresql+asyncpg://user:password@host/shop uses PostgreSQL; without it there is a file of SQLite. The
service takes orders while Kafka is away. As a process of its own the relay is ``python outbox_service.py``, and the
service is then started with RELAY=elsewhere.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import Column, Integer, MetaData, Table, Text, insert
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from aiokafkapy import ProducerConfig
from aiokafkapy.integrations.outbox import Outbox, OutboxRelay, outbox_table
from aiokafkapy.observability.programs import configure_logging

configure_logging(os.environ.get("LOG_FORMAT", "console"), level=os.environ.get("LOG_LEVEL", "info"))

metadata = MetaData()
orders = Table(
    "orders", metadata, Column("id", Integer, primary_key=True), Column("customer", Text), Column("item", Text)
)
events = outbox_table(metadata)
outbox = Outbox(events)
engine = create_async_engine(os.environ.get("DATABASE_URL", "sqlite+aiosqlite:///orders.db"))


class Order(BaseModel):
    customer: str
    item: str


def relay() -> OutboxRelay:
    """With AIOKAFKAPY_TRANSACTIONAL_ID in the environment each order is published exactly once."""
    return OutboxRelay(engine, events, config=ProducerConfig.from_env())


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)  # a real service has migrations
    app.state.relay = relay()
    if os.environ.get("RELAY") != "elsewhere":
        async with app.state.relay:
            yield
    else:
        yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place(order: Order) -> dict[str, int]:
    """201 means that the order is in the database, and will be in Kafka."""
    async with AsyncSession(engine) as session, session.begin():
        result = await session.execute(insert(orders).values(**order.model_dump()).returning(orders.c.id))
        number = result.scalar_one()
        await outbox.add(session, "orders", order.model_dump_json().encode(), key=order.customer.encode())
    return {"order": number}


@app.get("/outbox")
async def state() -> dict[str, int]:
    """The waiting rows, for an alert."""
    backlog = await app.state.relay.backlog()
    return {"pending": backlog.pending, "refused": backlog.refused}


if __name__ == "__main__":
    asyncio.run(relay().run())
