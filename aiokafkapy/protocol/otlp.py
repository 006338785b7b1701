"""The small part of OpenTelemetry's ``MetricsData`` (OTLP, protobuf) that clients push to brokers (KIP-714).

Writes numbers as gauges, or as sums that only grow, and reads them again, for the dev broker. Knows no metric's name
and no clock. Kafka's counterpart is ``SinglePointMetric`` with OpenTelemetry's generated classes; a dependency on
protobuf would be out of proportion to six kinds of message.

Rules: field numbers are those of ``opentelemetry/proto/metrics/v1/metrics.proto``, named beside their use; a reader
passes over fields that it does not know; a length beyond the bytes is a MalformedFrameError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..errors import MalformedFrameError
from .codec import unsigned_varint

__all__ = ["MetricPoint", "decode_metrics", "encode_metrics"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DELTA: Final = 1
_CUMULATIVE: Final = 2
_MAX_VARINT_BYTES: Final = 10

Field = tuple[int, int, "int | bytes"]
"""A field's number, its wire type, and its value; fixed ones as bytes."""


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One number of one metric. ``is_sum``: it counts from ``start_ns`` on; else it is a gauge."""

    name: str
    value: float
    is_sum: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)
    time_ns: int = 0
    start_ns: int = 0
    is_delta: bool = False


def encode_metrics(points: Iterable[MetricPoint], resource: Mapping[str, str] | None = None) -> bytes:
    """A ``MetricsData`` with one resource and one scope; ``resource`` has the resource's attributes."""
    metrics = b"".join(_message(2, _metric(point)) for point in points)  # ScopeMetrics.metrics
    attributes = b"".join(_message(1, _key_value(name, value)) for name, value in (resource or {}).items())
    resource_metrics = _message(1, attributes) + _message(2, metrics)  # resource, scope_metrics
    return _message(1, resource_metrics)  # MetricsData.resource_metrics


def decode_metrics(data: bytes) -> tuple[dict[str, str], list[MetricPoint]]:
    """The resource's attributes and the points of a ``MetricsData``; histograms and the like are passed over.

    Raises MalformedFrameError for other bytes.
    """
    resource: dict[str, str] = {}
    points: list[MetricPoint] = []
    for resource_metrics in _messages(data, 1):
        for of_resource in _messages(resource_metrics, 1):
            resource.update(_key_values(of_resource, 1))
        for scope_metrics in _messages(resource_metrics, 2):
            for metric in _messages(scope_metrics, 2):
                points.extend(_points_of(metric))
    return resource, points


# writing


def _metric(point: MetricPoint) -> bytes:
    data = b"".join(_message(7, _key_value(name, value)) for name, value in point.attributes.items())
    if point.is_sum:
        data += _fixed64(2, struct.pack("<Q", point.start_ns))
    data += _fixed64(3, struct.pack("<Q", point.time_ns)) + _fixed64(4, struct.pack("<d", point.value))
    kept = _message(1, data)  # Gauge.data_points, Sum.data_points
    if point.is_sum:
        temporality = _DELTA if point.is_delta else _CUMULATIVE
        kept += _varint(2, temporality) + _varint(3, 1)  # aggregation_temporality, is_monotonic
    return _message(1, point.name.encode()) + _message(7 if point.is_sum else 5, kept)  # name, sum or gauge


def _key_value(name: str, value: str) -> bytes:
    return _message(1, name.encode()) + _message(2, _message(1, value.encode()))  # key, AnyValue.string_value


def _message(number: int, content: bytes) -> bytes:
    return unsigned_varint(number << 3 | _BYTES) + unsigned_varint(len(content)) + content


def _fixed64(number: int, content: bytes) -> bytes:
    return unsigned_varint(number << 3 | _FIXED64) + content


def _varint(number: int, value: int) -> bytes:
    return unsigned_varint(number << 3 | _VARINT) + unsigned_varint(value)


# reading


def _points_of(metric: bytes) -> Iterator[MetricPoint]:
    name = b"".join(_messages(metric, 1)).decode(errors="replace")
    for number, is_sum in ((5, False), (7, True)):
        for kept in _messages(metric, number):
            temporality = next((value for found, kind, value in _fields(kept) if (found, kind) == (2, _VARINT)), 0)
            for data in _messages(kept, 1):
                yield _point(name, data, is_sum, temporality == _DELTA)


def _point(name: str, data: bytes, is_sum: bool, is_delta: bool) -> MetricPoint:
    start_ns = time_ns = 0
    value = 0.0
    for number, kind, content in _fields(data):
        if kind == _FIXED64 and isinstance(content, bytes):
            if number == 2:
                (start_ns,) = struct.unpack("<Q", content)
            elif number == 3:
                (time_ns,) = struct.unpack("<Q", content)
            elif number == 4:  # as_double
                (value,) = struct.unpack("<d", content)
            elif number == 6:  # as_int
                (value,) = struct.unpack("<q", content)
    return MetricPoint(name, value, is_sum, _key_values(data, 7), time_ns, start_ns, is_delta)


def _key_values(data: bytes, number: int) -> dict[str, str]:
    found = {}
    for pair in _messages(data, number):
        key = b"".join(_messages(pair, 1)).decode(errors="replace")
        value = b"".join(text for any_value in _messages(pair, 2) for text in _messages(any_value, 1))
        found[key] = value.decode(errors="replace")
    return found


def _messages(data: bytes, number: int) -> Iterator[bytes]:
    """The contents of the fields of this number: messages, texts and bytes."""
    for found, _, content in _fields(data):
        if found == number and isinstance(content, bytes):
            yield content


def _fields(data: bytes) -> Iterator[Field]:
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _read_varint(data, position)
            yield number, kind, value
            continue
        if kind == _BYTES:
            size, position = _read_varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise MalformedFrameError(f"metrics have a field of the unknown wire type {kind}")
        if size > len(data) - position:
            raise MalformedFrameError(f"metrics have a field of {size} bytes where {len(data) - position} are left")
        yield number, kind, data[position : position + size]
        position += size


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(_MAX_VARINT_BYTES):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, position
    raise MalformedFrameError("metrics end in the middle of a number, or have one of over ten bytes")
