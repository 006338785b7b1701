from __future__ import annotations

from aiokafkapy.producer.observation.telemetry_metrics import telemetry_points
from aiokafkapy.protocol.otlp import MetricPoint


def test_names_are_those_of_the_kip() -> None:
    producer = {"record-queue-time-avg": 1.5, "record-send-total": 3}
    points = telemetry_points(producer, {1: {"request-latency-max": 2.0}}, {"orders": {"byte-total": 7}})
    assert points == [
        MetricPoint("org.apache.kafka.producer.record.queue.time.avg", 1.5),
        MetricPoint("org.apache.kafka.producer.record.send.total", 3.0, True),
        MetricPoint("org.apache.kafka.producer.node.request.latency.max", 2.0, False, {"node_id": "1"}),
        MetricPoint("org.apache.kafka.producer.topic.byte.total", 7.0, True, {"topic": "orders"}),
    ]


def test_a_name_is_ours_exactly_where_java_has_none() -> None:
    names = {"request-total", "txn-commit-time-ns-total", "produce-request-total", "record-drop-total", "spool-bytes"}
    assert {point.name for point in telemetry_points(dict.fromkeys(names, 1.0), {}, {})} == {
        "org.apache.kafka.producer.request.total",
        "org.apache.kafka.producer.txn.commit.time.ns.total",
        "aiokafkapy.producer.produce.request.total",
        "aiokafkapy.producer.record.drop.total",
        "aiokafkapy.producer.spool.bytes",
    }


def test_metrics_that_kafka_does_not_have_are_under_our_own_name() -> None:
    nodes = {1: {"requests-in-flight-limit": 3.0}}
    points = telemetry_points({"loop-lag-max": 4.0, "error-total.NetworkError": 2}, nodes, {})
    assert points == [
        MetricPoint("aiokafkapy.producer.loop.lag.max", 4.0),
        MetricPoint("aiokafkapy.producer.error.total", 2.0, True, {"error": "NetworkError"}),
        MetricPoint("aiokafkapy.producer.node.requests.in.flight.limit", 3.0, False, {"node_id": "1"}),
    ]
