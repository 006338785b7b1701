"""The FastAPI integration on the dev broker: in this process, and in a uvicorn process under load until SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, WebSocket

from aiokafkapy import KafkaProducer, ProducerConfig
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import ConfigurationError, IllegalStateError, MetadataTimeoutError, ProducerNotStartedError
from aiokafkapy.integrations.fastapi import ProducerDep, get_producer, health_router, kafka_lifespan
from aiokafkapy.testing.servers.ports import free_port

from .web_service import assert_nothing_is_lost_at_sigterm, web_service


def create_app(broker: DevBroker, drain_timeout: float | None = 20, **options: Any) -> FastAPI:
    app = FastAPI(lifespan=kafka_lifespan(broker.bootstrap_servers, drain_timeout=drain_timeout, **options))
    app.include_router(health_router("/health", ping_timeout=0.2))

    @app.post("/send/{value}")
    async def send(value: str, producer: ProducerDep) -> int:
        return (await producer.send("t", value.encode())).offset

    @app.post("/enqueue/{value}")
    async def enqueue(value: str, producer: ProducerDep) -> None:
        await producer.enqueue("t", value.encode())

    return app


@asynccontextmanager
async def running(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """The application with its lifespan, and a client that calls it without a socket."""
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        yield client


async def test_a_handler_sends_through_the_dependency(kafka_broker: DevBroker) -> None:
    async with running(create_app(kafka_broker)) as client:
        answers = [await client.post(f"/send/{n}") for n in range(3)]
    assert [answer.json() for answer in answers] == [0, 1, 2]
    assert [record.value for record in kafka_broker.records("t")] == [b"0", b"1", b"2"]


async def test_the_producer_lives_as_long_as_the_application_and_again(kafka_broker: DevBroker) -> None:
    app = create_app(kafka_broker)
    for _ in range(2):
        async with running(app):
            producer = app.state.kafka_producer
            assert producer.state.value == "running"
        assert producer.state.value == "closed"


async def test_a_web_socket_finds_the_producer(kafka_broker: DevBroker) -> None:
    app = create_app(kafka_broker)

    @app.websocket("/ws")
    async def ws(socket: WebSocket, producer: ProducerDep) -> None:
        await socket.accept()
        await socket.send_text(producer.state.value)
        await socket.close()

    said = []

    async def receive() -> dict[str, object]:
        return {"type": "websocket.connect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message.get("text"))

    async with app.router.lifespan_context(app):
        scope = {"type": "websocket", "path": "/ws", "query_string": b"", "headers": [], "subprotocols": []}
        await app(scope, receive, send)
    assert said == [None, "running", None]


async def test_it_goes_into_a_lifespan_of_ones_own(kafka_broker: DevBroker) -> None:
    order = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, int]]:
        async with kafka_lifespan(kafka_broker.bootstrap_servers)(app):
            order.append(app.state.kafka_producer.state.value)
            yield {"mine": 1}
            order.append(app.state.kafka_producer.state.value)

    app = FastAPI(lifespan=lifespan)
    async with running(app):
        pass
    assert order == ["running", "running"]
    assert app.state.kafka_producer.state.value == "closed"


async def test_a_test_replaces_the_producer(kafka_broker: DevBroker, kafka_producer: KafkaProducer) -> None:
    app = create_app(kafka_broker)
    app.dependency_overrides[get_producer] = lambda: kafka_producer
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.post("/send/x")).json() == 0
    assert kafka_producer.statistics().delivered == 1


async def test_a_mounted_application_is_told_how_to_have_the_producer(kafka_broker: DevBroker) -> None:
    app = FastAPI(lifespan=kafka_lifespan(kafka_broker.bootstrap_servers))
    inner = create_app(kafka_broker)
    app.mount("/inner", inner)
    async with running(app) as client:
        with pytest.raises(ProducerNotStartedError, match=r"sub\.state = app\.state"):
            await client.post("/inner/send/x")
        inner.state = app.state
        assert (await client.post("/inner/send/x")).json() == 0


async def test_a_second_producer_does_not_replace_the_first(kafka_broker: DevBroker) -> None:
    app = create_app(kafka_broker)
    async with running(app):
        first = app.state.kafka_producer
        with pytest.raises(IllegalStateError, match="has a producer"):
            async with kafka_lifespan("second:9092")(app):
                pass
        assert app.state.kafka_producer is first
        assert first.state.value == "running"


async def test_a_request_without_a_lifespan_has_an_error_with_the_remedy(kafka_broker: DevBroker) -> None:
    transport = httpx.ASGITransport(create_app(kafka_broker))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        with pytest.raises(ProducerNotStartedError, match=r"lifespan=kafka_lifespan\(\.\.\.\)"):
            await client.post("/send/x")


def test_a_wrong_option_fails_before_anything_runs() -> None:
    misspelt: dict[str, Any] = {"lingerms": 5}
    with pytest.raises(ConfigurationError, match="linger_ms"):
        kafka_lifespan("localhost:9092", **misspelt)


async def test_the_application_does_not_start_without_a_broker() -> None:
    app = FastAPI(lifespan=kafka_lifespan(f"127.0.0.1:{free_port()}", max_block_ms=200))
    with pytest.raises(MetadataTimeoutError, match=r"no broker answered.*127\.0\.0\.1"):
        async with running(app):
            pytest.fail("it must not start")


async def test_health_follows_the_broker(kafka_broker: DevBroker) -> None:
    async with running(create_app(kafka_broker)) as client:
        ready = await client.get("/health/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        assert ready.json()["ping_ms"] > 0
        kafka_broker.controls.stall_connections(True)
        not_ready = await client.get("/health/readyz")
        assert (not_ready.status_code, not_ready.json()["status"]) == (503, "not ready")
        assert not_ready.json()["problem"]
        alive = await client.get("/health/livez")
        assert (alive.status_code, alive.json()) == (200, {"status": "alive", "producer": "running"})
        kafka_broker.controls.stall_connections(False)
        assert (await client.get("/health/readyz")).status_code == 200


async def test_readiness_says_which_broker_is_away() -> None:
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("t", partitions=3)
        app = create_app(broker, reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)
        async with running(app) as client:
            await app.state.kafka_producer.warm_up("t")
            (away, *_) = app.state.kafka_producer.statistics().nodes
            broker.controls.drop_connections(node_id=away.node_id)
            async with asyncio.timeout(20):
                while True:
                    brokers = {each["id"]: each for each in (await client.get("/health/readyz")).json()["brokers"]}
                    if brokers[away.node_id]["state"] != "connected":
                        break
    assert [each["state"] for node_id, each in brokers.items() if node_id != away.node_id] == ["connected"] * 2
    lost = brokers[away.node_id]
    assert lost["state"] == "backing off"
    assert 0 < lost["retry_in"] <= 72
    assert "was lost" in lost["last_error"]
    assert lost["address"] == f"{away.host}:{away.port}"


async def test_accepted_records_are_delivered_before_the_application_has_ended(
    kafka_broker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aiokafkapy")
    async with running(create_app(kafka_broker, linger_ms=60_000)) as client:
        for n in range(100):
            assert (await client.post(f"/enqueue/{n}")).status_code == 200
        assert kafka_broker.records("t") == []
    assert [record.value for record in kafka_broker.records("t")] == [str(n).encode() for n in range(100)]
    assert "kafka.drained delivered=100" in caplog.text


async def test_the_drain_ends_at_its_deadline_and_counts_the_rest(
    kafka_broker: DevBroker, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    async with running(create_app(kafka_broker, drain_timeout=0.3)) as client:
        await client.post("/send/first")
        kafka_broker.controls.stall_connections(True)
        for n in range(3):
            await client.post(f"/enqueue/{n}")
        started = loop.time()
    assert 0.25 < loop.time() - started < 20
    kafka_broker.controls.stall_connections(False)
    assert "kafka.not_drained" in caplog.text
    assert "failed=3" in caplog.text


async def test_every_request_that_was_answered_before_sigterm_is_on_the_broker(kafka_broker: DevBroker) -> None:
    # Half the workers wait for the broker, half only for room: with this linger the drain has something to do.
    command = ["-m", "uvicorn", "fastapi_service:app", "--port", "{port}", "--loop", "uvloop", "--log-level", "warning"]
    async with web_service(kafka_broker, command) as (service, session):
        await assert_nothing_is_lost_at_sigterm(kafka_broker, service, session)


def test_the_examples_configuration_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOKAFKAPY_BOOTSTRAP_SERVERS", "one:1,two:2")
    assert "two" in str(ProducerConfig.from_env().bootstrap_servers)


@pytest.mark.parametrize("timeout", ["10", math.nan, True])
def test_a_wrong_timeout_fails_before_anything_runs(timeout: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"kafka_lifespan\(\): timeout"):
        kafka_lifespan("h:1", drain_timeout=timeout)
    with pytest.raises((TypeError, ValueError), match=r"health_router\(\): timeout"):
        health_router(ping_timeout=timeout)
