"""Our few messages of OTLP against those that are generated from OpenTelemetry's own definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Gauge,
    Histogram,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)

from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.protocol.otlp import MetricPoint, decode_metrics, encode_metrics

GAUGE = MetricPoint("org.apache.kafka.producer.record.queue.time.avg", 2.5, time_ns=1_700_000_000_123_456_789)
SUM = MetricPoint("total", 3.0, True, {"topic": "ü", "node_id": "1"}, time_ns=2**63, start_ns=5)
DELTA = MetricPoint("total", 7.0, True, {}, time_ns=9, start_ns=8, is_delta=True)

numbers = st.integers(0, 2**64 - 1)
texts = st.text(max_size=200)
points = st.builds(
    MetricPoint,
    texts,
    st.floats(allow_nan=False),
    st.booleans(),
    st.dictionaries(texts, texts, max_size=3),
    numbers,
    st.just(0),
)


def test_opentelemetry_reads_the_metrics_that_we_write() -> None:
    read = MetricsData.FromString(encode_metrics([GAUGE, SUM, DELTA], {"transactional_id": "x"}))
    (of_resource,) = read.resource_metrics
    assert [(each.key, each.value.string_value) for each in of_resource.resource.attributes] == [
        ("transactional_id", "x")
    ]
    (scope,) = of_resource.scope_metrics
    gauge, total, delta = scope.metrics
    assert (gauge.name, gauge.WhichOneof("data")) == (GAUGE.name, "gauge")
    (data,) = gauge.gauge.data_points
    assert (data.as_double, data.time_unix_nano, data.start_time_unix_nano) == (2.5, GAUGE.time_ns, 0)
    assert total.sum.is_monotonic
    assert total.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert delta.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    (data,) = total.sum.data_points
    assert {each.key: each.value.string_value for each in data.attributes} == {"topic": "ü", "node_id": "1"}
    assert (data.as_double, data.time_unix_nano, data.start_time_unix_nano) == (3.0, 2**63, 5)


@given(st.lists(points, max_size=5), st.dictionaries(texts, texts, max_size=3))
def test_written_metrics_are_read_again_also_when_opentelemetry_has_passed_them_on(
    written: list[MetricPoint], resource: dict[str, str]
) -> None:
    data = encode_metrics(written, resource)
    assert decode_metrics(data) == (resource, written)
    assert decode_metrics(MetricsData.FromString(data).SerializeToString()) == (resource, written)


def test_other_writers_are_read_and_unknown_fields_passed_over() -> None:
    whole = NumberDataPoint(as_int=-4, time_unix_nano=1, attributes=[KeyValue(key="n", value=AnyValue(int_value=1))])
    metrics = [Metric(name="h", histogram=Histogram()), Metric(name="g", unit="ms", gauge=Gauge(data_points=[whole]))]
    others = MetricsData(resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=metrics)])])
    assert decode_metrics(others.SerializeToString()) == ({}, [MetricPoint("g", -4.0, False, {"n": ""}, 1)])


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        decode_metrics(data)
    except MalformedFrameError:
        pass


@pytest.mark.parametrize("data", [b"\x0a\x05ab", b"\x0b", b"\x80" * 11, b"\x80"])
def test_bytes_that_end_too_early_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedFrameError):
        decode_metrics(data)
