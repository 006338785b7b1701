"""Declarations of options; the check of plain values agrees with pydantic."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from aiokafkapy.broker.config import BrokerConfig, config_model
from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.options.config_fields import ClientConfigFields
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.option_fields import checked, default_of, field_options, names_of, with_values
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.options.config_fields import ProducerConfigFields

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 5, 9, 17, 22, 90, 100, 5_000, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**30,
    0.0, 0.5, 0.9, 1.0, 1.5, -0.1, float("inf"), float("nan"), "", "0", "1", "auto", "all", "none", "lz4",
    "high", "wait", "always", "range", "uniform", "CreateTime", "rebootstrap", "v4", "h:1", "a,b", "User:a",
    "/tmp", b"", b"x", (), ("a",), ("a", 1), [], ["a"], [1], {}, {"a": "b"}, {"a": 1}, {1: "a"}, {"a": None},
    len, object,
]  # fmt: skip


@pytest.mark.parametrize("name", sorted(ProducerConfig.model_fields))
def test_accepted_options_of_a_producer_are_accepted_by_pydantic_too(name: str) -> None:
    required = {} if name == "bootstrap_servers" else {"bootstrap_servers": "h:1"}
    for value in VALUES:
        given = ProducerConfigFields.normalized(ProducerConfigFields.normalized_for_producer({name: value, **required}))
        plain = checked(ProducerConfigFields, given)
        if plain is None:
            continue
        try:
            config = ProducerConfig(**{name: value, **required})
        except ConfigurationError:
            made = with_values(ProducerConfigFields, plain)
            with pytest.raises(ConfigurationError):  # of several options together, which both ways check
                made.check()
                made.check_producer()
            continue
        assert {each: getattr(config, each) for each in plain} == plain
        assert config.model_fields_set == set(plain)


@pytest.mark.parametrize("name", sorted(config_model().model_fields))
def test_accepted_options_of_a_broker_are_accepted_by_pydantic_too(name: str) -> None:
    for value in VALUES:
        try:
            plain = checked(BrokerConfig, {name: value})
        except TypeError:  # of a validator, as pydantic lets it through
            with pytest.raises(TypeError):
                config_model()(**{name: value})
            continue
        if plain is None:
            continue
        try:
            model = config_model()(**{name: value})
        except ValidationError as error:
            pytest.fail(f"{name}={value!r} was taken: {error}")
        found = getattr(model, name)
        assert found == plain[name] or (found != found and plain[name] != plain[name])


def test_most_plain_values_are_taken_without_pydantic() -> None:
    plain = {"linger_ms": 5, "acks": 1, "compression_type": "zstd", "retries": 3, "client_id": "me", "batch_size": 1000}
    assert checked(ProducerConfigFields, plain) == plain
    assert checked(BrokerConfig, {"num_partitions": 6, "sasl_users": {}, "min_insync_replicas": 2}) is not None


@pytest.mark.parametrize(
    "wrong", [{"linger_ms": -1}, {"linger_ms": "5"}, {"nonsense": 1}, {"acks": True}, {"topics": {}}, {"retries": 1.0}]
)
def test_pydantic_is_asked_about_all_other_values(wrong: dict[str, Any]) -> None:
    assert checked(ProducerConfigFields, wrong) is None


def test_a_declaration_with_values_has_the_other_options_defaults_and_is_frozen() -> None:
    made = with_values(ProducerConfigFields, {"bootstrap_servers": "h:1", "linger_ms": 5})
    model = ProducerConfig(bootstrap_servers="h:1", linger_ms=5)
    assert made.model_fields_set == {"bootstrap_servers", "linger_ms"}
    for name in names_of(ProducerConfigFields):
        assert getattr(made, name) == getattr(model, name), name
    with pytest.raises(ValueError, match="linger_ms cannot be set"):
        made.linger_ms = 7


def test_a_model_has_the_fields_and_defaults_of_its_declaration() -> None:
    assert names_of(ProducerConfigFields) == list(ProducerConfig.model_fields)
    assert names_of(ClientConfigFields) == list(ClientConfig.model_fields)
    assert names_of(BrokerConfig) == list(config_model().model_fields)
    for name in ("acks", "linger_ms", "batch_size", "client_id"):
        assert default_of(ProducerConfigFields, name) == default_of(ProducerConfig, name)


def test_the_field_says_whether_its_option_is_secret() -> None:
    assert field_options(BrokerConfig, "ssl_key_password")["repr"] is False
    assert "repr" not in field_options(BrokerConfig, "num_partitions")
