"""The options are Kafka's, in name and in default."""

from __future__ import annotations

from dataclasses import fields

import pytest

from aiokafkapy.security.sasl.options import SaslOptions
from aiokafkapy.security.sasl.secret import Secret

# SaslConfigs of Kafka 4.1: those with a default.
DEFAULTS = {
    "sasl.login.refresh.window.factor": 0.8,
    "sasl.login.refresh.window.jitter": 0.05,
    "sasl.login.refresh.min.period.seconds": 60,
    "sasl.login.refresh.buffer.seconds": 300,
    "sasl.login.retry.backoff.max.ms": 10_000,
    "sasl.login.retry.backoff.ms": 100,
    "sasl.oauthbearer.assertion.algorithm": "RS256",
    "sasl.oauthbearer.assertion.claim.exp.seconds": 300,
    "sasl.oauthbearer.assertion.claim.jti.include": False,
    "sasl.oauthbearer.assertion.claim.nbf.seconds": 60,
    "sasl.oauthbearer.scope.claim.name": "scope",
    "sasl.oauthbearer.sub.claim.name": "sub",
    "sasl.oauthbearer.header.urlencode": False,
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_kafkas(name: str) -> None:
    assert getattr(SaslOptions(), name.replace(".", "_")) == DEFAULTS[name]


def test_others_are_not_set() -> None:
    unset = {field.name for field in fields(SaslOptions) if getattr(SaslOptions(), field.name) is None}
    assert {field.name.replace("_", ".") for field in fields(SaslOptions) if field.name not in unset} == set(DEFAULTS)


def test_secrets_are_held_and_the_rest_is_as_given() -> None:
    given = SaslOptions(sasl_password="a", sasl_oauthbearer_assertion_private_key_passphrase="b", sasl_username="c")
    options = SaslOptions.of(given)
    assert (options.sasl_password, options.sasl_username) == (Secret("a"), "c")
    assert options.sasl_oauthbearer_assertion_private_key_passphrase == Secret("b")
    assert SaslOptions.of(options) == options
