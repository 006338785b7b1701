from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.producer.observation.application_metrics import (
    Registered,
    application_points,
    register_metric,
    unregister_metric,
)
from aiokafkapy.protocol.otlp import MetricPoint


def test_values_are_asked_for_each_time() -> None:
    registered: Registered = {}
    numbers = iter(range(5, 100))
    register_metric(registered, "shop.orders", lambda: next(numbers), is_total=True, attributes={"kind": "book"})
    register_metric(registered, "shop.orders", lambda: 1.5, is_total=False, attributes=None)
    for expected in (5.0, 6.0):
        assert list(application_points(registered)) == [
            MetricPoint("shop.orders", expected, True, {"kind": "book"}),
            MetricPoint("shop.orders", 1.5),
        ]


def test_the_same_again_takes_its_place_and_can_be_taken_out() -> None:
    registered: Registered = {}
    register_metric(registered, "a", lambda: 1, is_total=False, attributes={"x": "1", "y": "2"})
    register_metric(registered, "a", lambda: 2, is_total=False, attributes={"y": "2", "x": "1"})
    assert [point.value for point in application_points(registered)] == [2]
    assert not unregister_metric(registered, "a", None)
    assert unregister_metric(registered, "a", {"x": "1", "y": "2"})
    assert list(application_points(registered)) == []


class Odd:
    def __float__(self) -> float:
        raise LookupError("odd")


@pytest.mark.parametrize(
    "value",
    [lambda: 1 / 0, lambda: "many", lambda: None, lambda: float("nan"), lambda: float("inf"), Odd, asyncio.sleep],
)
def test_a_metric_without_a_value_is_left_out_and_logged(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    registered: Registered = {}
    name = f"odd-{id(value)}"  # it is told once in a while
    register_metric(registered, name, value, is_total=False, attributes=None)
    register_metric(registered, "good", lambda: 1, is_total=False, attributes=None)
    assert [point.name for point in application_points(registered)] == ["good"]
    assert "telemetry.metric_failed" in caplog.text
    assert name in caplog.text


def test_an_interrupt_passes() -> None:
    def interrupted() -> float:
        raise KeyboardInterrupt

    registered: Registered = {}
    register_metric(registered, "a", interrupted, is_total=False, attributes=None)
    with pytest.raises(KeyboardInterrupt):
        list(application_points(registered))


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"name": 5}, TypeError, "is a int"),
        ({"name": ""}, ConfigurationError, "has 0 characters"),
        ({"name": "x" * 256}, ConfigurationError, "has 256 characters"),
        ({"name": "org.apache.kafka.producer.record.send.total"}, ConfigurationError, "the producer's own"),
        ({"value": 5}, TypeError, "its value is a int"),
        ({"attributes": {"a": 5}}, TypeError, "each a str"),
        ({"name": "a\udc80"}, ConfigurationError, "not valid Unicode"),
        ({"attributes": {"a": "file\udc80"}}, ConfigurationError, "not valid Unicode"),
        ({"attributes": {"\ud800": "b"}}, ConfigurationError, "not valid Unicode"),
    ],
)
def test_a_wrong_argument_is_an_error_at_once(arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    given = {"name": "a", "value": lambda: 1, "is_total": False, "attributes": None, **arguments}
    with pytest.raises(error, match=said):
        register_metric({}, **given)
