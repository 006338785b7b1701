"""The aiohttp integration on the dev broker: in this process, and in a process of its own under load until SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import ConfigurationError, IllegalStateError, MetadataTimeoutError
from aiokafkapy.integrations.aiohttp import PRODUCER, add_health_routes, setup_kafka
from aiokafkapy.testing.servers.ports import free_port

from .web_service import assert_nothing_is_lost_at_sigterm, web_service


async def _send(request: web.Request) -> web.Response:
    metadata = await request.config_dict[PRODUCER].send("t", await request.read())
    return web.json_response(metadata.offset)


async def _enqueue(request: web.Request) -> web.Response:
    await request.config_dict[PRODUCER].enqueue("t", await request.read())
    return web.Response()


def create_app(broker: DevBroker, drain_timeout: float | None = 20, **options: Any) -> web.Application:
    app = web.Application()
    setup_kafka(app, broker.bootstrap_servers, drain_timeout=drain_timeout, **options)
    add_health_routes(app, "/health", ping_timeout=0.2)
    app.router.add_post("/send", _send)
    app.router.add_post("/enqueue", _enqueue)
    return app


@asynccontextmanager
async def running(app: web.Application) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    async with TestClient(TestServer(app)) as client:
        yield client


async def test_a_handler_sends_through_the_typed_key(kafka_broker: DevBroker) -> None:
    async with running(create_app(kafka_broker)) as client:
        assert [await (await client.post("/send", data=str(n))).json() for n in range(3)] == [0, 1, 2]
    assert [record.value for record in kafka_broker.records("t")] == [b"0", b"1", b"2"]


async def test_a_sub_application_finds_the_producer(kafka_broker: DevBroker) -> None:
    app = create_app(kafka_broker)
    inner = web.Application()
    inner.router.add_post("/send", _send)
    app.add_subapp("/inner", inner)
    async with running(app) as client:
        assert await (await client.post("/inner/send", data="x")).json() == 0


async def test_the_producer_lives_as_long_as_the_application(kafka_broker: DevBroker) -> None:
    app = create_app(kafka_broker)
    assert app[PRODUCER].state.value == "new"
    async with running(app):
        assert app[PRODUCER].state.value == "running"
    assert app[PRODUCER].state.value == "closed"


def test_a_wrong_option_fails_before_anything_runs() -> None:
    misspelt: dict[str, Any] = {"lingerms": 5}
    with pytest.raises(ConfigurationError, match="linger_ms"):
        setup_kafka(web.Application(), "localhost:9092", **misspelt)


async def test_the_application_does_not_start_without_a_broker() -> None:
    app = web.Application()
    setup_kafka(app, f"127.0.0.1:{free_port()}", max_block_ms=200)
    runner = web.AppRunner(app)
    with pytest.raises(MetadataTimeoutError, match=r"no broker answered.*127\.0\.0\.1"):
        await runner.setup()
    await runner.cleanup()


async def test_health_follows_the_broker(kafka_broker: DevBroker) -> None:
    async with running(create_app(kafka_broker)) as client:
        ready = await client.get("/health/readyz")
        assert (ready.status, (await ready.json())["status"]) == (200, "ready")
        kafka_broker.controls.stall_connections(True)
        not_ready = await client.get("/health/readyz")
        assert (not_ready.status, (await not_ready.json())["status"]) == (503, "not ready")
        alive = await client.get("/health/livez")
        assert (alive.status, await alive.json()) == (200, {"status": "alive", "producer": "running"})
        kafka_broker.controls.stall_connections(False)
        assert (await client.get("/health/readyz")).status == 200


async def test_accepted_records_are_delivered_before_the_application_has_ended(
    kafka_broker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aiokafkapy")
    async with running(create_app(kafka_broker, linger_ms=60_000)) as client:
        for n in range(100):
            assert (await client.post("/enqueue", data=str(n))).status == 200
        assert kafka_broker.records("t") == []
    assert [record.value for record in kafka_broker.records("t")] == [str(n).encode() for n in range(100)]
    assert "kafka.drained delivered=100" in caplog.text


async def test_the_drain_ends_at_its_deadline_and_counts_the_rest(
    kafka_broker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    async with running(create_app(kafka_broker, drain_timeout=0.3)) as client:
        await client.post("/send", data="first")
        kafka_broker.controls.stall_connections(True)
        for n in range(3):
            await client.post("/enqueue", data=str(n))
        started = loop.time()
    assert 0.25 < loop.time() - started < 20
    kafka_broker.controls.stall_connections(False)
    assert "kafka.not_drained" in caplog.text
    assert "failed=3" in caplog.text


async def test_every_request_that_was_answered_before_sigterm_is_on_the_broker(kafka_broker: DevBroker) -> None:
    async with web_service(kafka_broker, ["aiohttp_service.py"]) as (service, session):
        await assert_nothing_is_lost_at_sigterm(kafka_broker, service, session)


async def test_a_second_producer_does_not_replace_the_first() -> None:
    app = web.Application()
    setup_kafka(app, "first:9092")
    with pytest.raises(IllegalStateError, match="has a producer"):
        setup_kafka(app, "second:9092")
    assert app[PRODUCER].config.bootstrap_servers == "first:9092"


async def test_health_routes_without_a_producer_name_the_missing_part(caplog: pytest.LogCaptureFixture) -> None:
    app = web.Application()
    add_health_routes(app)
    async with running(app) as client:
        for path in ("/livez", "/readyz"):
            assert (await client.get(path)).status == 500
    assert caplog.text.count("ProducerNotStartedError: the application has no producer") == 2


@pytest.mark.parametrize("timeout", ["10", math.nan, True])
def test_a_wrong_timeout_fails_before_anything_runs(timeout: Any) -> None:
    app = web.Application()
    with pytest.raises((TypeError, ValueError), match=r"setup_kafka\(\): timeout"):
        setup_kafka(app, "h:1", drain_timeout=timeout)
    with pytest.raises((TypeError, ValueError), match=r"add_health_routes\(\): timeout"):
        add_health_routes(app, ping_timeout=timeout)
