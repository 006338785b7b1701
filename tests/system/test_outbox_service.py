"""The example of a service with an outbox: its relay in the service, and in a process of its own."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from aiokafkapy.broker import DevBroker
from tests.outboxes import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "outbox_service.py"
ORDER = {"customer": "ann", "item": "tea"}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kafka_broker: DevBroker) -> ModuleType:
    """The example's module, with a database of its own."""
    monkeypatch.setenv("AIOKAFKAPY_BOOTSTRAP_SERVERS", kafka_broker.bootstrap_servers)
    monkeypatch.setenv("DATABASE_URL", f"sqlite+aiosqlite:///{tmp_path / 'orders.db'}")
    monkeypatch.setattr("aiokafkapy.observability.programs.configure_logging", lambda *_, **__: None)
    spec = importlib.util.spec_from_file_location("outbox_service", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def running(service: ModuleType) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(service.app)
    async with (
        service.app.router.lifespan_context(service.app),
        httpx.AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        yield client


async def test_orders_are_taken_while_kafka_is_away_and_published_later(
    service: ModuleType, kafka_broker: DevBroker
) -> None:
    kafka_broker.create_topic("orders", 1)
    kafka_broker.controls.stop_node(1)
    async with running(service) as client:
        for _ in range(3):
            assert (await client.post("/orders", json=ORDER)).status_code == 201
        assert (await client.get("/outbox")).json() == {"pending": 3, "refused": 0}
        kafka_broker.controls.start_node(1)
        await eventually(lambda: len(kafka_broker.records("orders")) == 3)
    assert [(record.key, record.value) for record in kafka_broker.records("orders")] == [
        (b"ann", b'{"customer":"ann","item":"tea"}')
    ] * 3


async def test_the_relay_is_a_process_of_its_own_which_ends_at_sigterm(
    service: ModuleType, kafka_broker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_broker.create_topic("orders", 1)
    monkeypatch.setenv("RELAY", "elsewhere")
    async with running(service) as client:
        assert (await client.post("/orders", json=ORDER)).json() == {"order": 1}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), env={**os.environ, "LOG_LEVEL": "error"}
    )
    try:
        await eventually(lambda: kafka_broker.records("orders"))
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
