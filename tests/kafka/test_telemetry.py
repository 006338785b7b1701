"""Our metrics at a real Kafka whose operators subscribe to them (KIP-714): brokers offer the two APIs only where a
plug-in receives the pushes of clients, which ``FileTelemetry.java`` is.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData

from aiokafkapy import KafkaProducer
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.compression import Compression
from aiokafkapy.testing import ApacheKafka, KafkaTools
from aiokafkapy.testing.kafka.jars import DEFAULT_VERSION, KafkaUnavailableError, fetch_jars
from tests.clusters import started
from tests.java_sources import compiled
from tests.waiting import until

PLUG_IN = Path(__file__).with_name("FileTelemetry.java")
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
SUBSCRIBED = "org.apache.kafka.producer.record."
SENT = "org.apache.kafka.producer.record.send.total"
INTERVAL_MS = 200


@dataclass
class Push:
    """One push as the broker gave it to the plug-in."""

    client_instance_id: str
    terminating: bool
    content_type: str
    metrics: list[Metric]
    resource: dict[str, str]

    def total(self, name: str) -> float:
        """The sum that the push has under this name."""
        found = [metric for metric in self.metrics if metric.name == name]
        assert len(found) == 1
        assert found[0].sum.is_monotonic
        return sum(point.as_double for point in found[0].sum.data_points)


class Receiver:
    """A broker with the plug-in, and the pushes to it."""

    def __init__(self, kafka: ApacheKafka, path: Path) -> None:
        self.kafka = kafka
        self._path = path

    def pushes(self, client_id: str) -> list[Push]:
        """The pushes of a client, oldest first; one that is being written is not there yet."""
        text = self._path.read_text() if self._path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [_push(line) for line in lines if line["client_id"] == client_id]

    async def until(self, client_id: str, count: int) -> list[Push]:
        """The pushes of a client once there are so many."""
        await until(lambda: len(self.pushes(client_id)) >= count)
        return self.pushes(client_id)


def _push(line: dict[str, Any]) -> Push:
    (of_resource,) = MetricsData.FromString(base64.b64decode(line["data"])).resource_metrics
    (scope,) = of_resource.scope_metrics
    resource = {each.key: each.value.string_value for each in of_resource.resource.attributes}
    return Push(line["client_instance_id"], line["terminating"], line["content_type"], list(scope.metrics), resource)


@pytest.fixture(scope="module", params=[DEFAULT_VERSION, "3.9.1"])
def receiver(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tools: KafkaTools
) -> Iterator[Receiver]:
    """One node whose clients are asked for the metrics of records."""
    version = request.param
    directory = tmp_path_factory.mktemp("telemetry")
    try:
        classes = compiled(PLUG_IN, fetch_jars(version))
    except KafkaUnavailableError as error:
        if os.environ.get("AIOKAFKAPY_REQUIRE_KAFKA") == "1":
            pytest.fail(f"a Java compiler is required here: {error}", pytrace=False)
        pytest.skip(f"NO JAVA COMPILER: {error}")
    path = directory / "pushes.jsonl"
    config = {"metric.reporters": "FileTelemetry", "file.telemetry.path": path}
    with started(ApacheKafka(version=version, config=config, plugins=[classes])) as kafka:
        options = ("--name", "records", "--metrics", SUBSCRIBED, "--interval", INTERVAL_MS)
        asyncio.run(kafka.tool(CLIENT_METRICS, "--bootstrap-server", kafka.bootstrap_servers, "--alter", *options))
        yield Receiver(kafka, path)


async def test_subscribed_metrics_arrive_and_opentelemetry_reads_them(receiver: Receiver, topic: str) -> None:
    pushed: list[dict[str, Any]] = []
    answered: list[dict[str, Any]] = []

    def watch(frame: dict[str, Any]) -> None:
        if frame["api"] == "PUSH_TELEMETRY":
            (pushed if frame["direction"] == "request" else answered).append(frame["body"])

    async with KafkaProducer(receiver.kafka.bootstrap_servers, client_id=topic) as producer:
        producer.tap(watch)
        for number in range(20):
            await producer.send(topic, b"%d" % number)
        await receiver.until(topic, 2)
        await producer.send_many(topic, [b"more"] * 30)
    pushes = receiver.pushes(topic)
    assert len(pushes) >= 3
    assert [push.terminating for push in pushes] == [False] * (len(pushes) - 1) + [True]
    assert len({push.client_instance_id for push in pushes}) == 1
    assert pushes[0].client_instance_id == pushed[0]["client_instance_id"]
    for push in pushes:
        assert {metric.name for metric in push.metrics} > {SENT, "org.apache.kafka.producer.record.error.total"}
        assert all(metric.name.startswith(SUBSCRIBED) for metric in push.metrics)
        sums = [metric.sum for metric in push.metrics if metric.WhichOneof("data") == "sum"]
        assert {each.aggregation_temporality for each in sums} == {
            AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
        }, "as Kafka's brokers want them"
    assert sum(push.total(SENT) for push in pushes) == 50
    assert {push.content_type for push in pushes} == {"OTLP"}
    # The broker gives its plug-in the decompressed bytes; Kafka's first choice is zstd.
    assert {body["compression_type"] for body in pushed} == {Compression.ZSTD}
    assert {body["error_code"] for body in answered} == {"none"}


async def test_an_application_s_metrics_and_the_id_are_those_of_the_producer(receiver: Receiver, topic: str) -> None:
    """The subscription's prefix is the producer's: an application's own name under it is subscribed to as well."""
    async with KafkaProducer(receiver.kafka.bootstrap_servers, client_id=topic) as producer:
        producer.register_metric_for_subscription("shop.orders", lambda: 3, is_total=True)
        tool, servers = receiver.kafka.tool, receiver.kafka.bootstrap_servers
        options = ("--name", "shop", "--metrics", "shop.", "--interval", INTERVAL_MS, "--match", f"client_id={topic}")
        await tool(CLIENT_METRICS, "--bootstrap-server", servers, "--alter", *options)
        await until(
            lambda: any(metric.name == "shop.orders" for push in receiver.pushes(topic) for metric in push.metrics)
        )
        instance_id = await producer.client_instance_id()
    pushes = receiver.pushes(topic)
    with_ours = [push for push in pushes if any(metric.name == "shop.orders" for metric in push.metrics)]
    assert sum(push.total("shop.orders") for push in with_ours) == 3
    assert {push.client_instance_id for push in pushes} == {str(instance_id)}


async def test_a_transactional_id_is_pushed(receiver: Receiver, topic: str) -> None:
    await receiver.kafka.create_topic(topic)
    producer = KafkaProducer(receiver.kafka.bootstrap_servers, client_id=topic, transactional_id=f"{topic}-x")
    async with producer, producer.transaction():
        await producer.send_many(topic, [b"a", b"b"])
    pushes = receiver.pushes(topic)
    assert pushes[-1].terminating
    assert sum(push.total(SENT) for push in pushes) == 2
    assert {push.resource["transactional_id"] for push in pushes} == {f"{topic}-x"}


async def test_a_client_that_opts_out_pushes_nothing(receiver: Receiver, topic: str) -> None:
    servers, apis = receiver.kafka.bootstrap_servers, set()
    async with (
        KafkaProducer(servers, client_id=topic, enable_metrics_push=False) as producer,
        KafkaProducer(servers, client_id=f"{topic}-beside") as beside,
    ):
        producer.tap(lambda frame: apis.add(frame["api"]))
        await producer.send(topic, b"value")
        await beside.send(topic, b"value")
        await receiver.until(f"{topic}-beside", 2)
    assert receiver.pushes(topic) == []
    assert "PRODUCE" in apis
    assert not apis & {ApiKey.PUSH_TELEMETRY.name, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS.name}


async def test_another_subscription_is_followed(receiver: Receiver, topic: str) -> None:
    """The broker answers UNKNOWN_SUBSCRIPTION_ID to the next push then, and the new subscription is another one."""
    buffer = "org.apache.kafka.producer.buffer."
    kafka = receiver.kafka
    async with KafkaProducer(kafka.bootstrap_servers, client_id=topic) as producer:
        await producer.send(topic, b"value")
        before = await receiver.until(topic, 1)
        assert not any(metric.name.startswith(buffer) for metric in before[-1].metrics)
        options = ("--name", "more", "--metrics", buffer, "--interval", INTERVAL_MS, "--match", f"client_id={topic}")
        await kafka.tool(CLIENT_METRICS, "--bootstrap-server", kafka.bootstrap_servers, "--alter", *options)
        await until(lambda: any(metric.name.startswith(buffer) for metric in receiver.pushes(topic)[-1].metrics))
    pushes = receiver.pushes(topic)
    assert pushes[-1].terminating
    assert len({push.client_instance_id for push in pushes}) == 1, "it keeps its id"
