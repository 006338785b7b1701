"""URLs of clusters: the options read from them; a password in one is never shown."""

from __future__ import annotations

import pytest

from aiokafkapy.client.options.urls import options_of_url
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.producer.config import ProducerConfig


def test_a_url_has_servers_credentials_and_options() -> None:
    config = ProducerConfig.from_url(
        "kafka+sasl-ssl://al%40ice:p%2F%3Aw@a:1,[::1]:2/?sasl.mechanism=PLAIN&acks=1&linger_ms=7", acks="all"
    )
    assert config.bootstrap_addresses == [("a", 1), ("::1", 2)]
    assert (config.security_protocol, config.sasl_mechanism) == ("SASL_SSL", "PLAIN")
    assert (config.sasl_username, config.sasl_password) == ("al@ice", "p/:w")
    assert (config.acks, config.linger_ms) == ("all", 7)


def test_an_ipv6_address_is_a_server_at_any_place() -> None:
    found = options_of_url("kafka://u:p@a,[::1]:2,[2001:db8::1]/?acks=1")
    assert found["bootstrap_servers"] == "a,[::1]:2,[2001:db8::1]"
    assert (found["sasl_username"], found["sasl_password"], found["acks"]) == ("u", "p", "1")


@pytest.mark.parametrize(
    ("scheme", "protocol"),
    [("kafka", "PLAINTEXT"), ("kafka+plaintext", "PLAINTEXT"), ("kafka+ssl", "SSL"), ("KAFKA+SSL", "SSL")],
)
def test_the_scheme_is_the_protocol(scheme: str, protocol: str) -> None:
    assert ProducerConfig.from_url(f"{scheme}://h").security_protocol == protocol


def test_a_plain_scheme_leaves_the_protocol_to_the_query() -> None:
    assert ProducerConfig.from_url("kafka://h/?security.protocol=ssl").security_protocol == "SSL"


@pytest.mark.parametrize(
    "url",
    [
        "h:9092",
        "http://u:hunter2@h",
        "kafka+ssl://u:hunter2@h/x",
        "kafka+ssl://u:hunter2@h/#y",
        "kafka+ssl://u:hunter2@h/?acks",
        "kafka+sasl-ssl://u:hunter2@h/?sasl.password=hunter2",
        "kafka+ssl://u:hunter2@[h",
        "kafka+ssl://u:hunter2?x=1@h",
        "kafka+ssl://u:hunter2:h:9092",
        "kafka+ssl://u:pw@",
        "kafka+ssl://u:hunter2,h:9093",
        "kafka+sasl-ssl://u:hunter2?a=b@h/",
        "kafka+sasl-ssl://u:70000?hunter2=b@h/",
    ],
)
def test_any_other_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        options_of_url(url)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_a_value_that_is_not_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is a int, not a str"):
        ProducerConfig.from_url(5)  # type: ignore[arg-type]


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(ConfigurationError, match="unknown option 'linger'"):
        ProducerConfig.from_url("kafka://h/?linger=5")
