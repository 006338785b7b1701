"""The dev broker's options."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.config import BrokerConfig, config_model
from aiokafkapy.errors import ConfigurationError


def test_defaults_are_kafkas_where_no_line_says_otherwise() -> None:
    config = BrokerConfig()
    assert (config.num_network_threads, config.num_io_threads, config.queued_max_requests) == (3, 8, 500)
    assert (config.socket_request_max_bytes, config.connections_max_idle_ms) == (104_857_600, 600_000)
    assert (config.message_max_bytes, config.num_partitions) == (1_048_588, 1)


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match=r"option 'auto\.create\.topic\.enable'; did you mean 'auto_"):
        BrokerConfig.of(**{"auto.create.topic.enable": False})


def test_a_wrong_value_names_option_and_value() -> None:
    with pytest.raises(ConfigurationError, match=r"num_io_threads: .* \(got 0\)"):
        BrokerConfig.of(num_io_threads=0)


def test_a_list_may_be_text_with_commas() -> None:
    config = BrokerConfig.of(sasl_enabled_mechanisms="PLAIN, SCRAM-SHA-512", ssl_enabled_protocols="TLSv1.3")
    assert config.sasl_enabled_mechanisms == ["PLAIN", "SCRAM-SHA-512"]
    assert config.ssl_enabled_protocols == ["TLSv1.3"]


def test_a_configuration_cannot_be_changed() -> None:
    config = BrokerConfig()
    with pytest.raises(ValueError, match="frozen"):
        config.num_partitions = 3


def test_every_option_has_a_description() -> None:
    for name, field in config_model().model_fields.items():
        assert field.description, name
        assert not name.endswith("_ms") or "illiseconds" in field.description, name
