"""A user's tests: the fixtures, the dev broker and its faults, the mock producer, and the other tools."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import pytest

from aiokafkapy import ConsumedRecord, KafkaProducer, RecordMetadata, errors
from aiokafkapy.broker import Controls, DevBroker, FaultSchedule, Listener
from aiokafkapy.console import Console
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import (
    ApacheKafka,
    FaultProxy,
    MockProducer,
    Recording,
    ReplayBroker,
    SchemaRegistry,
    TestCertificates,
    VirtualClock,
    assert_produced,
    in_memory,
)
from aiokafkapy.testing.kafka_cluster import KafkaCluster
from aiokafkapy.testing.simulation import Report, Simulation, simulate


@pytest.mark.kafka_broker(nodes=3)
@pytest.mark.kafka_producer(linger_ms=5)
async def order_is_published(kafka_producer: KafkaProducer, kafka_broker: DevBroker) -> None:
    await kafka_producer.send("orders", b"1", key=b"ann")
    (record,) = assert_produced(kafka_broker, "orders", value=b"1", key=b"ann", count=1)
    assert_type(record, ConsumedRecord)
    assert kafka_broker.records("orders", partition=0)[0].value == b"1"


async def cluster_of_any_kind(kafka_cluster: KafkaCluster) -> None:
    async with KafkaProducer(kafka_cluster.bootstrap_servers) as producer:
        await producer.send("orders", b"1")


@pytest.mark.kafka_seeds(20)
def all_seeds(kafka_simulation: Callable[..., list[Report]]) -> None:
    async def scenario(simulation: Simulation) -> None:
        async with KafkaProducer(simulation.bootstrap_servers) as producer:
            await producer.send("orders", b"1")

    reports = kafka_simulation(scenario)
    assert_type(reports[0], Report)
    simulate(scenario, seeds=[1, 2])


async def faults() -> None:
    with in_memory():
        async with DevBroker(nodes=3, version="4.0") as broker:
            broker.create_topic("orders", 3, replication_factor=3, config={"retention.ms": "1000"})
            controls = broker.controls
            assert_type(controls, Controls)
            controls.fail_next(ApiKey.PRODUCE, errors.NotLeaderOrFollowerError, topic="orders")
            controls.drop_next(0, times=2)
            controls.delay(ApiKey.METADATA, 0.5)
            controls.throttle(None, 100)
            controls.set_leader("orders", 0, None)
            controls.play(FaultSchedule.from_seed(7, seconds=1))
            async with KafkaProducer(broker.bootstrap_servers) as producer:
                await producer.send("orders", b"1")
            assert controls.request_count(ApiKey.PRODUCE) == 1


async def secured(directory: Path) -> None:
    with TestCertificates(directory) as certificates:
        listener = Listener("SSL", **certificates.server_options())
        async with DevBroker(listeners={"SECURE": listener}) as broker:
            options: dict[str, Any] = certificates.client_options()
            async with KafkaProducer(broker.bootstrap_servers_of("SECURE"), **options) as producer:
                await producer.ping()


async def mocked() -> None:
    producer = MockProducer(auto_complete=False)
    delivery = producer.send_nowait("orders", b"1")
    assert producer.complete_next()
    assert_type(await delivery, RecordMetadata)
    assert_type(producer.records("orders"), list[ConsumedRecord])
    assert_produced(producer, "orders", count=1)
    await published_by(producer)


async def published_by(producer: KafkaProducer) -> None:
    await producer.send("orders", b"1")


async def proxied(bootstrap_servers: str, path: Path) -> None:
    async with FaultProxy(bootstrap_servers, record=path) as proxy:
        proxy.cut()
        proxy.fail_produce(errors.RequestTimedOutError)
        request = await proxy.seen(ApiKey.PRODUCE)
        print(request, proxy.request_count(0))
    recording = Recording.read(path)
    async with ReplayBroker(recording, speed=None) as replay:
        print(replay.bootstrap_servers, replay.unplayed)


async def others() -> None:
    clock = VirtualClock()
    assert_type(clock.advance(3), float)
    async with SchemaRegistry() as registry:
        print(registry.url, registry.register("orders-value", '"string"'))
    if ApacheKafka.available():
        async with ApacheKafka(nodes=1) as kafka:
            await kafka.create_topic("orders", partitions=3)


async def show(broker: DevBroker) -> None:
    async with Console.of_broker(broker, read_only=True) as console:
        print(console.url)
