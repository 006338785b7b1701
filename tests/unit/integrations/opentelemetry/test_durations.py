from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.semconv._incubating.attributes import messaging_attributes as names
from opentelemetry.semconv._incubating.metrics import messaging_metrics

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.integrations.opentelemetry import KafkaDurations
from aiokafkapy.observability.observer import BatchDone
from aiokafkapy.protocol.api import ApiKey

DURATION = messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION
SENT = messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def provider(reader: InMemoryMetricReader) -> Any:
    provider = MeterProvider([reader], shutdown_on_exit=False)
    yield provider
    provider.shutdown()


def points(reader: InMemoryMetricReader, name: str) -> list[Any]:
    data = reader.get_metrics_data()
    return [
        (metric.unit, point)
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
        for point in metric.data.data_points
    ]


def done(
    topic: str, queued: float, in_flight: float, records: int = 1, error: BaseException | None = None
) -> BatchDone:
    return BatchDone(topic, 0, records, 100, 100, 1, queued, in_flight, 0.0, 5, error)


async def test_batches_of_a_producer_are_measured(
    kafka_broker: DevBroker, reader: InMemoryMetricReader, provider: MeterProvider
) -> None:
    durations = KafkaDurations(provider, client_id="shop")
    async with KafkaProducer(kafka_broker.bootstrap_servers, observers=[durations]) as producer:
        await producer.send_many("orders", [b"one", b"two", b"three"])
        kafka_broker.controls.fail_next(ApiKey.PRODUCE, errors.InvalidRecordError)
        with pytest.raises(errors.InvalidRecordError):
            await producer.send("orders", b"four")
    common = {
        names.MESSAGING_SYSTEM: "kafka",
        names.MESSAGING_OPERATION_NAME: "send",
        names.MESSAGING_OPERATION_TYPE: "send",
        names.MESSAGING_CLIENT_ID: "shop",
        names.MESSAGING_DESTINATION_NAME: "orders",
    }
    sent = {point.attributes.get("error.type"): point for _, point in points(reader, SENT)}
    assert sent[None].attributes == common
    assert sent["InvalidRecordError"].attributes == {**common, "error.type": "InvalidRecordError"}
    assert {error: point.value for error, point in sent.items()} == {None: 3, "InvalidRecordError": 1}
    for unit, point in points(reader, DURATION):
        assert unit == "s"
        assert 1 <= point.count <= 3, "a batch each"
        assert 0 < point.sum < 10


def test_a_duration_is_from_a_batch_s_first_record_to_its_outcome(
    reader: InMemoryMetricReader, provider: MeterProvider
) -> None:
    durations = KafkaDurations(provider)
    for queued, in_flight in ((0.004, 0.002), (0.0, 0.3), (20.0, 1.0)):
        durations.batch_done(done("t", queued, in_flight))
    ((_, point),) = points(reader, DURATION)
    assert point.sum == pytest.approx(21.306)
    assert point.explicit_bounds[:3] == (0.005, 0.01, 0.025), "seconds, not the SDK's default"
    buckets = dict(zip([*point.explicit_bounds, float("inf")], point.bucket_counts, strict=True))
    assert {bound: count for bound, count in buckets.items() if count} == {0.01: 1, 0.5: 1, float("inf"): 1}


def test_topics_are_bounded(reader: InMemoryMetricReader, provider: MeterProvider) -> None:
    durations = KafkaDurations(provider, topics_max=2)
    for number in (*range(5), 0):
        durations.batch_done(done(f"t{number}", 0.0, 0.1, records=10))
    found = {point.attributes[names.MESSAGING_DESTINATION_NAME]: point.value for _, point in points(reader, SENT)}
    assert found == {"t0": 20, "t1": 10, "*": 30}
    with pytest.raises(ValueError, match="topics_max=0"):
        KafkaDurations(provider, topics_max=0)


def test_without_a_provider_nothing_is_recorded_and_nothing_fails() -> None:
    KafkaDurations().batch_done(done("t", 0.0, 0.1, error=errors.KafkaError()))
