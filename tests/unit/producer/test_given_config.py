from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.given_config import as_model, make_config, plain_config
from aiokafkapy.producer.options.config_fields import ProducerConfigFields


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"acks": 1},
        {"linger_ms": "auto", "max_in_flight_requests_per_connection": "auto"},
        {"request_timeout_ms": 200_000},
        {"retry_backoff_ms": 5_000, "compression_type": "LZ4", "compression_lz4_level": 3},
        {"manual_flush": True, "key_serializer": str.encode},
    ],
)
def test_plain_options_are_meant_as_pydantic_s_model_means_them(options: dict[str, Any]) -> None:
    plain, model = make_config("h:1", None, options), ProducerConfig(bootstrap_servers="h:1", **options)
    assert type(plain) is ProducerConfigFields
    assert plain.model_fields_set == model.model_fields_set
    for name in ProducerConfig.model_fields:
        assert getattr(plain, name) == getattr(model, name), name
    for name in ("required_acks", "effective_linger_ms", "most_in_flight", "compression", "compression_level"):
        assert getattr(plain, name) == getattr(model, name), name
    assert plain.for_topic("t") is plain
    assert as_model(plain) == model
    assert as_model(plain).model_fields_set == model.model_fields_set
    assert make_config(None, plain, {}) is plain  # for a second producer
    with pytest.raises(ConfigurationError, match="write config=ProducerConfig"):
        make_config(None, plain, {"linger_ms": 5})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acks": 1, "enable_idempotence": True}, "enable_idempotence=True contradicts acks=1"),
        ({"max_request_size": 100, "buffer_memory": 10}, "max_request_size=100 is more than buffer_memory=10"),
        ({"linger_ms": -1}, "linger_ms=-1 is out of range: write at least 0"),
        ({"linger_msec": 1}, "did you mean linger_ms"),
    ],
)
def test_a_wrong_option_raises_the_same_error_both_ways(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as said:
        make_config("h:1", None, options)
    with pytest.raises(ConfigurationError) as expected:
        ProducerConfig(bootstrap_servers="h:1", **options)
    assert str(said.value) == str(expected.value)


def test_the_application_gets_a_model() -> None:
    producer = KafkaProducer("h:1", linger_ms=5)
    assert producer.config == ProducerConfig(bootstrap_servers="h:1", linger_ms=5)
    assert producer.config is producer.config
    assert producer.config.model_copy(update={"linger_ms": 7}).linger_ms == 7


def test_credentials_may_change_later_so_they_have_a_model() -> None:
    options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "u"}
    assert plain_config({"bootstrap_servers": "h:1", **options, "sasl_password": "p"}) is None
    found = make_config("h:1", None, {**options, "sasl_password": "p"})
    assert found.with_credentials(sasl_password="q").sasl_password == "q"


def test_an_unknown_name_is_refused_with_none_too() -> None:
    assert make_config("h:1", None, {"sasl_mechanism": None, "acks": None}).acks == "all"
    with pytest.raises(ConfigurationError, match=r"unknown option 'ssl_truststore_locations': .*_location"):
        make_config("h:1", None, {"ssl_truststore_locations": None})
