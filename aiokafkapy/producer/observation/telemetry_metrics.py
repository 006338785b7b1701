"""The producer's metrics under the names that KIP-714 gives them, as points to be pushed.

Owns the names. Pure: it is given the numbers. Kafka's counterpart is ``TelemetryMetricNamingConvention``.

Rules: ``org.apache.kafka.`` with the group and the name, dots for dashes; a metric that Kafka does not have is under
``aiokafkapy.`` instead. A total is a sum, everything else a gauge; a node's and a topic's are attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ...protocol.otlp import MetricPoint

__all__ = ["telemetry_points"]

_OURS: Final = frozenset(
    {
        "batch-total",
        "byte-total",
        "epoch-bump-total",
        "log-truncation-total",
        "loop-lag-avg",
        "loop-lag-max",
        "observer-error-total",
        "produce-request-total",
        "record-drop-total",
        "record-spool-refuse-total",
        "record-spool-replay-total",
        "record-spool-total",
        "records-accepted-total",
        "records-delivered-total",
        "spool-bytes",
        "spool-records",
    }
)
"""Names in ``metrics()`` that Kafka's producer does not have, or uses with another meaning."""
_OURS_OF_NODES: Final = "requests-in-flight-limit"
"""The same of ``node_metrics()``."""


def telemetry_points(
    producer: Mapping[str, float],
    nodes: Mapping[int, Mapping[str, float]],
    topics: Mapping[str, Mapping[str, float]],
) -> list[MetricPoint]:
    """The points of ``metrics()``, ``node_metrics()`` and ``topic_metrics()``, without times."""
    points = list(_points("producer", producer, {}))
    for node_id, numbers in nodes.items():
        points.extend(_points("producer.node", numbers, {"node_id": str(node_id)}))
    for topic, numbers in topics.items():
        points.extend(_points("producer.topic", numbers, {"topic": topic}))
    return points


def _points(group: str, numbers: Mapping[str, float], attributes: Mapping[str, str]) -> Iterator[MetricPoint]:
    for name, value in numbers.items():
        kind, _, detail = name.partition(".")  # error-total.NotEnoughReplicasError
        is_ours = bool(detail) or (group == "producer" and kind in _OURS) or kind == _OURS_OF_NODES
        root = "aiokafkapy" if is_ours else "org.apache.kafka"
        full_name = f"{root}.{group}.{kind.replace('-', '.')}"
        of_what = {**attributes, "error": detail} if detail else attributes
        yield MetricPoint(full_name, float(value), kind.endswith("-total"), of_what)
