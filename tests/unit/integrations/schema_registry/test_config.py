"""aiokafkapy.integrations.schema_registry.config: options checked when they are given, secrets shown nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.integrations.schema_registry.config import RegistryConfig, RegistryOptions, make_config


def test_several_urls_may_stand_in_one_text() -> None:
    config = make_config("http://a:8081/, https://[::1]:8082/base/", None, {})
    assert config.urls == ("http://a:8081", "https://[::1]:8082/base")


def test_credentials_are_taken_out_of_a_url() -> None:
    config = make_config("http://ann:p%40ss@a:8081", None, {})
    assert (config.urls, config.basic_auth_user_info) == (("http://a:8081",), "ann:p@ss")
    assert "p@ss" not in repr(config)


@pytest.mark.parametrize(
    ("url", "options", "wanted"),
    [
        ("a:8081", {}, "http://"),
        ("", {}, "http://"),
        (None, {}, "empty"),
        ("http://a:99999999", {}, "cannot be read"),
        (7, {}, "must be a str"),
        ("http://a", {"basic_auth_user_info": "secret"}, "user:password"),
        ("http://a:secret@b", {"basic_auth_user_info": "a:secret"}, "twice"),
        ("http://a", {"basic_auth_user_info": "a:secret", "bearer_auth_token": "secret"}, "exclude"),
        ("http://a", {"bearer_auth_token": "secret\n"}, "line break"),
        ("http://a", {"http_headers": {"X-Api-Key": "secret\n"}}, "X-Api-Key"),
        ("http://a", {"http_headers": {"X-Api-Key": "secret\r\nX: 1"}}, "X-Api-Key"),
        ("http://a", {"http_headers": {"X-Api-Key": "secr\u00e9t"}}, "printable ASCII"),
        ("http://a", {"http_headers": {"X Api": "1"}}, "not the name"),
        ("http://a", {"timeout_ms": 0}, "timeout_ms"),
        ("http://a", {"nonsense": 1}, "nonsense"),
        ("https://a", {"ssl_truststore_location": "/not/there.pem"}, "ssl_truststore_location"),
    ],
)
def test_a_wrong_option_is_named_and_no_secret_is_shown(url: Any, options: Any, wanted: str) -> None:
    with pytest.raises(ConfigurationError, match=wanted) as caught:
        make_config(url, None, options)
    assert "secret" not in str(caught.value)


def test_the_options_are_the_fields() -> None:
    assert set(RegistryOptions.__annotations__) == set(RegistryConfig.model_fields) - {"urls"}
