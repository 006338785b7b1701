"""A user's web services: FastAPI, aiohttp and Litestar, with health, metrics, tracing and an outbox."""

from typing import Annotated, Any, TypedDict, assert_type

import sqlalchemy as sa
from aiohttp import web
from fastapi import Depends, FastAPI
from litestar import Litestar, post
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from aiokafkapy import KafkaProducer, ProducerConfig, ProducerRecord, json_serializer
from aiokafkapy.integrations.aiohttp import PRODUCER, add_health_routes, request_headers_middleware, setup_kafka
from aiokafkapy.integrations.asgi import DeadlineMiddleware, RequestHeadersMiddleware
from aiokafkapy.integrations.fastapi import ProducerDep, get_producer, health_router, kafka_lifespan
from aiokafkapy.integrations.litestar import KafkaPlugin
from aiokafkapy.integrations.litestar import ProducerDep as LitestarProducer
from aiokafkapy.integrations.opentelemetry import KafkaDurations, KafkaTracing
from aiokafkapy.integrations.outbox import Outbox, OutboxBacklog, OutboxRelay, OutboxStatistics, outbox_table
from aiokafkapy.integrations.prometheus import exposition, watch
from aiokafkapy.integrations.settings import ProducerSettings


class Order(TypedDict):
    id: int


app = FastAPI(lifespan=kafka_lifespan("localhost:9092", value_serializer=json_serializer, drain_timeout=5, linger_ms=5))
app.include_router(health_router("/health"))
app.add_middleware(DeadlineMiddleware, seconds=3)
app.add_middleware(RequestHeadersMiddleware, headers=["traceparent"])


@app.post("/orders")
async def place(order: Order, producer: ProducerDep[str, Order]) -> int:
    metadata = await producer.send("orders", order, key="ann")
    return metadata.offset


@app.post("/untyped")
async def place_untyped(producer: ProducerDep) -> int:
    return (await producer.send("orders", {"id": 1})).offset


@app.post("/by-hand")
async def place_by_hand(producer: Annotated[KafkaProducer[Any, Any], Depends(get_producer)]) -> None:
    await producer.enqueue("orders", b"1")


@app.get("/metrics")
async def metrics(producer: ProducerDep) -> bytes:
    watch(producer)
    text, _ = exposition()
    return text


async def handle(request: web.Request) -> web.Response:
    producer = request.app[PRODUCER]
    assert_type(producer, KafkaProducer[Any, Any])
    metadata = await producer.send("orders", await request.read())
    return web.json_response({"offset": metadata.offset})


def make_app() -> web.Application:
    other = web.Application(middlewares=[request_headers_middleware(["traceparent"])])
    setup_kafka(other, config=ProducerConfig(bootstrap_servers="localhost:9092"), undelivered_path="/var/undelivered")
    add_health_routes(other)
    other.router.add_post("/orders", handle)
    return other


@post("/orders")
async def place_by_litestar(data: Order, kafka_producer: LitestarProducer) -> int:
    return (await kafka_producer.send("orders", data)).offset


litestar = Litestar([place_by_litestar], plugins=[KafkaPlugin("localhost:9092", value_serializer=json_serializer)])


async def start_by_settings() -> None:
    async with KafkaProducer(config=ProducerSettings()) as producer:
        await producer.send("orders", b"1")


async def trace(bootstrap_servers: str) -> None:
    tracing = KafkaTracing(client_id="shop")
    async with KafkaProducer(bootstrap_servers, interceptors=[tracing], observers=[KafkaDurations()]) as producer:
        await tracing.send_many(producer, "orders", [b"1"])


TABLE = outbox_table(sa.MetaData())
OUTBOX = Outbox(TABLE, value_serializer=json_serializer)


async def place_in_outbox(engine: AsyncEngine, order: Order) -> None:
    async with engine.begin() as connection:
        await OUTBOX.add(connection, "orders", order, key=b"ann", headers={"a": b"1"})
    async with AsyncSession(engine) as session, session.begin():
        assert_type(await OUTBOX.add_many(session, [ProducerRecord("orders", order)]), int)


async def relay(engine: AsyncEngine) -> None:
    async with OutboxRelay(engine, TABLE, "localhost:9092", linger_ms=5) as publishing:
        assert_type(publishing.statistics(), OutboxStatistics)
        assert_type(await publishing.backlog(), OutboxBacklog)
        publishing.wake()
