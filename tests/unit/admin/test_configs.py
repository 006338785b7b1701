"""The options of topics: the form of written values, and the sources of answered ones."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.admin import ConfigEntry, ConfigSource
from aiokafkapy.admin.configs import config_changes, config_text, entry_of
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_response


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("compact", "compact"),
        (-1, "-1"),
        (0.5, "0.5"),
        (True, "true"),
        (False, "false"),
        (["compact", "delete"], "compact,delete"),
        ((), ""),
    ],
)
def test_a_value_is_written_as_kafka_reads_it(value: Any, text: str) -> None:
    assert config_text("x", value) == text


@pytest.mark.parametrize("value", [None, b"1", [1], {"a": "b"}])
def test_a_value_of_another_kind_is_refused_with_its_option(value: Any) -> None:
    with pytest.raises(TypeError, match=r"retention\.ms="):
        config_text("retention.ms", value)


def test_each_change_has_its_operation() -> None:
    changes = config_changes({"a": 1}, ["b"], {"c": "x"}, {"d": ["y", "z"]})
    assert {(each["name"], each["config_operation"], each["value"]) for each in changes} == {
        ("a", 0, "1"),
        ("b", 1, None),
        ("c", 2, "x"),
        ("d", 3, "y,z"),
    }
    with pytest.raises(TypeError, match="list of names"):
        config_changes(None, "retention.ms", None, None)


def test_an_entry_hides_a_secret_and_knows_its_source() -> None:
    configs = [
        {"name": "a", "value": "1", "config_source": 5},
        {"name": "b", "value": "x", "config_source": 4, "is_sensitive": True, "read_only": True},
        {"name": "c", "value": "2", "config_source": 99},
    ]
    results = [{"resource_type": 2, "resource_name": "t", "configs": configs}]
    body = build_response(ApiKey.DESCRIBE_CONFIGS, 1, results=results)
    first, second, third = [entry_of(entry) for entry in body.results[0].configs]
    assert first == ConfigEntry("a", "1", ConfigSource.DEFAULT_CONFIG)
    assert first.is_default
    assert second == ConfigEntry("b", None, ConfigSource.STATIC_BROKER_CONFIG, is_sensitive=True, is_read_only=True)
    assert not second.is_default
    assert third.source is ConfigSource.UNKNOWN
