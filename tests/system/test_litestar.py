"""The Litestar plugin on the dev broker."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar import Litestar, post
from litestar.di import Provide
from litestar.middleware import DefineMiddleware
from litestar.params import FromPath

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import ConfigurationError, IllegalStateError
from aiokafkapy.integrations.asgi import RequestHeadersMiddleware
from aiokafkapy.integrations.litestar import KafkaPlugin, ProducerDep
from aiokafkapy.integrations.request_headers import RequestHeaders


@post("/send/{value:str}")
async def send(value: FromPath[str], kafka_producer: ProducerDep) -> int:
    return (await kafka_producer.send("t", value.encode(), partition=0)).offset


@asynccontextmanager
async def running(app: Litestar) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
    async with app.lifespan(), httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


async def test_a_handler_sends_through_the_dependency(kafka_broker: DevBroker) -> None:
    app = Litestar([send], plugins=[KafkaPlugin(kafka_broker.bootstrap_servers)])
    async with running(app) as client:
        answers = [await client.post(f"/send/{number}") for number in range(3)]
        producer = app.state.kafka_producer
    assert [answer.json() for answer in answers] == [0, 1, 2]
    assert producer.state.value == "closed"


async def test_health_follows_the_broker(kafka_broker: DevBroker) -> None:
    plugin = KafkaPlugin(kafka_broker.bootstrap_servers, health_prefix="/health", ping_timeout=0.2)
    async with running(Litestar([send], plugins=[plugin])) as client:
        await client.post("/send/1")
        ready = await client.get("/health/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        assert [each["state"] for each in ready.json()["brokers"]] == ["connected"]
        kafka_broker.controls.stall_connections(True)
        assert (await client.get("/health/readyz")).status_code == 503
        alive = await client.get("/health/livez")
        assert (alive.status_code, alive.json()) == (200, {"status": "alive", "producer": "running"})
        kafka_broker.controls.stall_connections(False)


async def test_health_routes_may_be_left_out_and_the_producer_replaced(
    kafka_broker: DevBroker, kafka_producer: KafkaProducer
) -> None:
    app = Litestar(
        [send],
        plugins=[KafkaPlugin(kafka_broker.bootstrap_servers, health_prefix=None)],
        dependencies={"kafka_producer": Provide(lambda: kafka_producer, sync_to_thread=False)},
    )
    async with running(app) as client:
        assert (await client.get("/readyz")).status_code == 404
        await client.post("/send/1")
    assert kafka_producer.statistics().delivered == 1


async def test_request_headers_go_along(kafka_broker: DevBroker) -> None:
    app = Litestar(
        [send],
        plugins=[KafkaPlugin(kafka_broker.bootstrap_servers, interceptors=[RequestHeaders()])],
        middleware=[DefineMiddleware(RequestHeadersMiddleware, headers=["x-tenant"])],
    )
    async with running(app) as client:
        answer = await client.post("/send/1", headers={"x-request-id": "7", "x-tenant": "blue"})
    assert answer.headers["x-request-id"] == "7"
    assert dict(kafka_broker.records("t", 0)[0].headers) == {"x-request-id": b"7", "x-tenant": b"blue"}


async def test_undelivered_records_are_in_the_file(kafka_broker: DevBroker, tmp_path: Path) -> None:
    path = tmp_path / "file"
    app = Litestar(
        [send], plugins=[KafkaPlugin(kafka_broker.bootstrap_servers, drain_timeout=0.2, undelivered_path=path)]
    )
    async with app.lifespan():
        kafka_broker.controls.stall_connections(True)
        waiting = asyncio.ensure_future(app.state.kafka_producer.send("t", b"v"))
        await asyncio.sleep(0)
    await asyncio.wait([waiting])
    kafka_broker.controls.stall_connections(False)
    assert waiting.exception() is not None
    assert '"value": "v"' in path.read_text()


def test_a_wrong_option_fails_before_anything_runs() -> None:
    misspelt: dict[str, Any] = {"lingerms": 5}
    with pytest.raises(ConfigurationError, match="linger_ms"):
        KafkaPlugin("localhost:9092", **misspelt)


def test_a_second_plugin_does_not_replace_the_first() -> None:
    with pytest.raises(IllegalStateError, match="has a producer"):
        Litestar([send], plugins=[KafkaPlugin("first:9092"), KafkaPlugin("second:9092", health_prefix=None)])


@pytest.mark.parametrize("timeout", ["10", math.nan, True])
@pytest.mark.parametrize("option", ["drain_timeout", "ping_timeout"])
def test_a_wrong_timeout_fails_before_anything_runs(option: str, timeout: Any) -> None:
    options: dict[str, Any] = {option: timeout}
    with pytest.raises((TypeError, ValueError), match=r"KafkaPlugin\(\): timeout"):
        KafkaPlugin("h:1", **options)
