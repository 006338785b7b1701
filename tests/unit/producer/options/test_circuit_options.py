"""The options of a circuit breaker: their valid values, and their way into the producer's configuration."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy import CircuitBreaker, ProducerConfig
from aiokafkapy.errors import ConfigurationError


def config(value: Any) -> ProducerConfig:
    return ProducerConfig(bootstrap_servers="h:1", circuit_breaker=value)


def test_objects_dicts_and_json_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = CircuitBreaker(failures=3, open_ms=500, scope="producer")
    given = {"failures": 3, "open_ms": 500, "scope": "producer"}
    text = '{"failures": 3, "open_ms": 500, "scope": "producer"}'
    assert config(expected).circuit_breaker == expected
    assert config(given).circuit_breaker == expected
    assert config(text).circuit_breaker == expected
    properties = {"bootstrap.servers": "h:1", "circuit.breaker": text}
    assert ProducerConfig.from_properties(properties).circuit_breaker == expected
    monkeypatch.setenv("AIOKAFKAPY_BOOTSTRAP_SERVERS", "h:1")
    monkeypatch.setenv("AIOKAFKAPY_CIRCUIT_BREAKER", text)
    assert ProducerConfig.from_env().circuit_breaker == expected


@pytest.mark.parametrize("value", [None, "", "none"])
def test_none_means_no_breaker(value: Any) -> None:
    assert config(value).circuit_breaker is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"failure": 1}, "'failure' is not an option of CircuitBreaker: write one of failures, open_ms"),
        ({"failures": 0}, "failures=0: .*greater than or equal to 1"),
        ({"failures": True}, "failures=True: .*not a bool"),
        ({"open_ms": 0.5}, r"open_ms=0\.5"),
        ({"probes": 10**5000}, "probes=<a number of 16610 bits>"),
        ({"scope": "broker"}, "scope='broker'"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_the_reason(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        CircuitBreaker(**options)
    with pytest.raises(ConfigurationError, match=words):
        config(options)


@pytest.mark.parametrize(
    ("value", "words"), [(5, "is needed, not int"), ("{", "write JSON"), ({1: 2}, "the name of an option is a int")]
)
def test_an_object_that_is_not_a_circuit_breaker_is_refused(value: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        config(value)
