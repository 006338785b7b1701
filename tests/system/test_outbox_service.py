"""The example of a service with an outbox: its relay in the service, and in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest

from aiokafkapy.broker import DevBroker
from tests.example_services import EXAMPLES, load_example, service_of
from tests.waiting import until

EXAMPLE = EXAMPLES / "outbox_service.py"
ORDER = {"customer": "ann", "item": "tea"}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kafka_broker: DevBroker) -> ModuleType:
    """The example's module, with a database of its own."""
    return load_example("outbox_service", monkeypatch, tmp_path, kafka_broker)


async def test_orders_are_taken_while_kafka_is_away_and_published_later(
    service: ModuleType, kafka_broker: DevBroker
) -> None:
    kafka_broker.create_topic("orders", 1)
    kafka_broker.controls.stop_node(1)
    async with service_of(service) as client:
        for _ in range(3):
            assert (await client.post("/orders", json=ORDER)).status_code == 201
        assert (await client.get("/outbox")).json() == {"pending": 3, "refused": 0}
        kafka_broker.controls.start_node(1)
        await until(lambda: len(kafka_broker.records("orders")) == 3)
    assert [(record.key, record.value) for record in kafka_broker.records("orders")] == [
        (b"ann", b'{"customer":"ann","item":"tea"}')
    ] * 3


async def test_the_relay_is_a_process_of_its_own_which_ends_at_sigterm(
    service: ModuleType, kafka_broker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_broker.create_topic("orders", 1)
    monkeypatch.setenv("RELAY", "elsewhere")
    async with service_of(service) as client:
        assert (await client.post("/orders", json=ORDER)).json() == {"order": 1}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), env={**os.environ, "LOG_LEVEL": "error"}
    )
    try:
        await until(lambda: kafka_broker.records("orders"))
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
