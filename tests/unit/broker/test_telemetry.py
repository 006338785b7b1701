from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from aiokafkapy.broker.telemetry import MOST_PUSHES, ClientTelemetry
from aiokafkapy.errors import (
    InvalidConfigError,
    InvalidRecordError,
    InvalidRequestError,
    KafkaError,
    TelemetryTooLargeError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from aiokafkapy.protocol.otlp import MetricPoint, encode_metrics
from aiokafkapy.record.compression import Compression, compress

ID = UUID(int=7)
DATA = encode_metrics([MetricPoint("a.total", 3.0, True)], {"transactional_id": "x"})


@pytest.fixture
def telemetry() -> ClientTelemetry:
    telemetry = ClientTelemetry()
    telemetry.subscribe()
    return telemetry


def push(telemetry: ClientTelemetry, **changes: Any) -> None:
    arguments = {
        "client_instance_id": ID,
        "client_id": "me",
        "subscription_id": telemetry.subscription_id,
        "terminating": False,
        "compression_type": 0,
        "data": DATA,
    }
    telemetry.push(**{**arguments, **changes})


def test_nothing_is_offered_before_there_is_a_receiver() -> None:
    telemetry = ClientTelemetry()
    assert not telemetry.is_offered
    telemetry.subscribe()
    assert telemetry.is_offered


def test_administrators_subscriptions_are_put_together() -> None:
    telemetry = ClientTelemetry()
    telemetry.configure("a", {"metrics": "x,y", "interval.ms": "5000"}, validate_only=True)
    assert not telemetry.is_offered
    telemetry.configure("a", {"metrics": "x,y", "interval.ms": "5000"})
    telemetry.configure("b", {"metrics": "y,z"})
    assert (telemetry.is_offered, telemetry.metrics, telemetry.push_interval_ms) == (True, ("x", "y", "z"), 5_000)
    telemetry.configure("a", {"metrics": None, "interval.ms": None})
    assert (telemetry.subscriptions, telemetry.metrics, telemetry.push_interval_ms) == (["b"], ("y", "z"), 300_000)


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("", {}, InvalidRequestError),
        ("a", {"no.such": "1"}, InvalidRequestError),
        ("a", {"interval.ms": "99"}, InvalidRequestError),
        ("a", {"match": "client_id=a"}, InvalidConfigError),
    ],
)
def test_an_invalid_subscription_is_refused(
    name: str, changes: dict[str, str | None], expected: type[KafkaError]
) -> None:
    telemetry = ClientTelemetry()
    with pytest.raises(expected):
        telemetry.configure(name, changes)
    assert telemetry.subscriptions == []


@pytest.mark.parametrize("codec", list(Compression))
def test_a_push_is_kept_decoded(telemetry: ClientTelemetry, codec: Compression) -> None:
    push(telemetry, compression_type=int(codec), data=DATA if codec is Compression.NONE else compress(codec, DATA))
    (kept,) = telemetry.pushes
    assert (kept.client_instance_id, kept.client_id, kept.terminating, kept.compression) == (ID, "me", False, codec)
    assert kept.resource == {"transactional_id": "x"}
    assert kept.values() == {"a.total": 3.0}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"client_instance_id": None}, InvalidRequestError),
        ({"subscription_id": 1}, UnknownSubscriptionIdError),
        ({"compression_type": 1}, UnsupportedCompressionTypeError),
        ({"compression_type": 77}, UnsupportedCompressionTypeError),
        ({"data": bytes(1_000)}, TelemetryTooLargeError),
        ({"data": b"\xff\xff"}, InvalidRecordError),
        ({"data": b"no zstd", "compression_type": 4}, InvalidRecordError),
    ],
)
def test_an_invalid_push_is_refused(
    telemetry: ClientTelemetry, changes: dict[str, Any], error: type[KafkaError]
) -> None:
    telemetry.subscribe(max_bytes=500, compressions=[Compression.ZSTD])
    with pytest.raises(error):
        push(telemetry, **changes)
    assert not telemetry.pushes


def test_another_subscription_has_another_id(telemetry: ClientTelemetry) -> None:
    before = telemetry.subscription_id
    assert telemetry.subscription_id == before
    telemetry.subscribe(["org.apache.kafka.producer."])
    assert telemetry.subscription_id != before
    with pytest.raises(ValueError, match="push_interval_ms=0"):
        telemetry.subscribe(push_interval_ms=0)


def test_the_latest_pushes_are_kept(telemetry: ClientTelemetry) -> None:
    for number in range(MOST_PUSHES + 5):
        push(telemetry, client_id=str(number))
    assert len(telemetry.pushes) == MOST_PUSHES
    assert telemetry.pushes[-1].client_id == str(MOST_PUSHES + 4)
