"""The example of a saga: orders are paid and confirmed, or their steps are undone, with services that come and go."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.example_services import load_example, service_of
from tests.waiting import until


@pytest.fixture
def saga(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kafka_broker: DevBroker) -> ModuleType:
    """The example's module, with a database of its own."""
    pytest.importorskip("aiokafka")
    kafka_broker.create_topic("orders", 1)
    kafka_broker.create_topic("payments", 1)
    return load_example("order_saga", monkeypatch, tmp_path, kafka_broker)


@asynccontextmanager
async def payments_of(saga: ModuleType) -> AsyncIterator[None]:
    """The service of the payments, which is stopped in the middle of its work at the end of the block."""
    paying = asyncio.create_task(saga.pay())
    try:
        yield
    finally:
        paying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await paying


async def place(client: httpx.AsyncClient, item: str, price: int = 5) -> int:
    answer = await client.post("/orders", json={"customer": "ann", "item": item, "price": price})
    assert answer.status_code == 201
    return int(answer.json()["order"])


async def reaches(client: httpx.AsyncClient, states: dict[int, str]) -> None:
    """Wait until each order has come to its state."""

    async def have() -> bool:
        return {order: (await client.get(f"/orders/{order}")).json()["state"] for order in states} == states

    await until(have)


def told(broker: DevBroker, topic: str) -> Counter[tuple[int, str]]:
    """The number of each order's events in a topic, by event, for readers of committed records."""
    log = broker.state.topics.partition(topic, 0)
    assert log is not None
    aborted = log.log.aborted_transactions(0, log.log.end_offset)
    assert aborted == []  # so that the next line reads committed records only
    events: list[dict[str, Any]] = [json.loads(record.value or b"") for record in broker.records(topic)]
    return Counter((event["order"], event["event"]) for event in events)


async def test_an_order_is_paid_and_confirmed_or_refused_and_a_useless_payment_is_refunded(
    saga: ModuleType, kafka_broker: DevBroker
) -> None:
    async with service_of(saga) as client, payments_of(saga):
        first, second = await place(client, "kettle"), await place(client, "kettle")  # there is one
        dear = await place(client, "tea", price=51)
        await reaches(client, {first: "confirmed", second: "refunded", dear: "refused"})
        assert (await client.get("/orders/99")).status_code == 404
    assert told(kafka_broker, "payments") == Counter(
        [(first, "taken"), (second, "taken"), (second, "refunded"), (dear, "refused")]
    )
    assert told(kafka_broker, "orders") == Counter(
        [(first, "placed"), (second, "placed"), (dear, "placed"), (first, "confirmed"), (second, "cancelled")]
    )


async def test_orders_are_taken_while_payments_are_away_and_go_on_when_they_are_back(
    saga: ModuleType, kafka_broker: DevBroker
) -> None:
    async with service_of(saga) as client:
        order = await place(client, "tea")
        await until(lambda: told(kafka_broker, "orders")[order, "placed"] == 1)
        assert (await client.get(f"/orders/{order}")).json() == {"state": "placed"}
        async with payments_of(saga):
            await reaches(client, {order: "confirmed"})


async def test_a_payment_is_made_once_though_its_service_ends_before_its_transaction_does(
    saga: ModuleType, kafka_broker: DevBroker
) -> None:
    async with service_of(saga) as client:
        # The transaction that pays cannot be ended, and its service dies; the next one's fences it, and pays.
        kafka_broker.controls.fail_next(ApiKey.TXN_OFFSET_COMMIT, 15, times=None, name="no offsets")
        async with payments_of(saga):
            order = await place(client, "tea")
            await until(lambda: kafka_broker.controls.request_count(ApiKey.TXN_OFFSET_COMMIT) > 0)
        kafka_broker.controls.end_fault("no offsets")
        async with payments_of(saga):
            await reaches(client, {order: "confirmed"})
    partition = kafka_broker.state.topics.partition("payments", 0)
    assert partition is not None
    assert len(partition.log.aborted_transactions(0, partition.log.end_offset)) == 1


async def test_an_event_that_comes_again_changes_no_order(saga: ModuleType, kafka_broker: DevBroker) -> None:
    async with service_of(saga) as client, payments_of(saga):
        order = await place(client, "kettle")
        await reaches(client, {order: "confirmed"})
        (taken,) = kafka_broker.records("payments")
        async with KafkaProducer(kafka_broker.bootstrap_servers) as producer:
            await producer.send("payments", taken.value, key=taken.key)
        other = await place(client, "tea")
        await reaches(client, {other: "confirmed", order: "confirmed"})  # this record is behind the one that came again
    assert told(kafka_broker, "orders")[order, "confirmed"] == 1
