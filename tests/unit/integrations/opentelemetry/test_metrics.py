"""Producers' metrics through the SDK's reader in memory."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.integrations.measurements import MEASUREMENTS, WatchedProducer
from aiokafkapy.integrations.opentelemetry import metrics, watch
from aiokafkapy.protocol.api import ApiKey


@pytest.fixture(autouse=True)
def _no_two_collections_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "FRESH", 0.0)


def collected(reader: InMemoryMetricReader) -> dict[tuple[str, tuple[Any, ...]], tuple[float, str]]:
    """Values and units by name and attributes' values."""
    data = reader.get_metrics_data()
    return {
        (metric.name, tuple((point.attributes or {}).values())): (getattr(point, "value", 0.0), metric.unit or "")
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


async def test_a_watched_producer_is_in_every_collection_until_it_is_closed(kafka_broker: DevBroker) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    servers = kafka_broker.bootstrap_servers
    async with KafkaProducer(servers, client_id="x") as one, KafkaProducer(servers, client_id="x") as other:
        for producer in (one, other, one):
            watch(producer, provider)
        await one.send("t", b"v")
        kafka_broker.controls.fail_next(ApiKey.PRODUCE, errors.RecordTooLargeError)
        (failed,) = await other.send_many("t", [b"v"], return_exceptions=True)
        assert isinstance(failed, errors.RecordTooLargeError)
        found = collected(reader)
    names = [("records_delivered", ("x",)), ("connections", ("x",)), ("errors", ("x", "RecordTooLargeError"))]
    assert [found[f"kafka.producer.{name}", values][0] for name, values in names] == [1, 4, 1]
    assert found["kafka.producer.buffer_size", ("x",)][1] == "By"
    latency, unit = found["kafka.producer.request_latency_max", ("x",)]
    assert 0 < latency < 10
    assert unit == "s"
    assert {name for name, _ in found} >= {f"kafka.producer.{each.name}" for each in MEASUREMENTS}
    assert collected(reader) == {}
    provider.shutdown()


async def test_one_collection_reads_a_producer_once(
    kafka_producer: KafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "FRESH", 60.0)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    watch(kafka_producer, provider)
    reads: list[WatchedProducer] = []
    read = WatchedProducer.read

    def counted(self: WatchedProducer) -> Any:
        reads.append(self)
        return read(self)

    monkeypatch.setattr(WatchedProducer, "read", counted)
    assert len(collected(reader)) >= len(MEASUREMENTS)
    assert len(reads) == 1
    provider.shutdown()


async def test_watching_waits_for_no_collection_that_waits_for_the_loop(
    kafka_broker: DevBroker, kafka_producer: KafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    watch(kafka_producer, provider)
    is_reading, may_go_on = threading.Event(), threading.Event()

    def held(self: WatchedProducer) -> None:
        is_reading.set()
        assert may_go_on.wait(60)

    async with KafkaProducer(kafka_broker.bootstrap_servers, client_id="other") as other:
        with monkeypatch.context() as patched:
            patched.setattr(WatchedProducer, "read", held)
            collection = asyncio.ensure_future(asyncio.to_thread(reader.get_metrics_data))
            await asyncio.to_thread(is_reading.wait)
            unblock = threading.Timer(30.0, may_go_on.set)
            unblock.start()
            watch(other, provider)
            assert not may_go_on.is_set()
            unblock.cancel()
            may_go_on.set()
            await collection
        assert ("kafka.producer.connections", ("other",)) in collected(reader)
    provider.shutdown()
