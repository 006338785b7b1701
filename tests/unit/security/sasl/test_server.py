"""The server half for each mechanism's name."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.security.sasl.json_web_tokens import TokenValidator, unsecured_token
from aiokafkapy.security.sasl.plain import PlainCredentialStore
from aiokafkapy.security.sasl.scram_credential import ScramCredential, ScramCredentialStore
from aiokafkapy.security.sasl.server import server_mechanism


def test_each_authentication_has_an_exchange_of_its_own_over_the_users_as_they_are_now() -> None:
    users = ScramCredentialStore()
    make = server_mechanism("SCRAM-SHA-256", users)
    assert make() is not make()
    users["late"] = ScramCredential.from_password("SCRAM-SHA-256", "x")
    assert make().respond(b"n,,n=late,r=abc").startswith(b"r=abc")


def test_a_token_is_judged_by_the_time_of_its_exchange() -> None:
    times = iter((1_000, 900_000))
    make = server_mechanism("OAUTHBEARER", TokenValidator(unsecured=True), now_ms=lambda: next(times))
    message = b"n,,\1auth=Bearer " + unsecured_token({"sub": "a", "exp": 10}).encode() + b"\1\1"
    assert make().respond(message) == b""
    assert make().respond(message) == b'{"status": "invalid_token"}'


@pytest.mark.parametrize(
    ("name", "users", "words"),
    [
        ("PLAIN", ScramCredentialStore(), "PLAIN has no use for a ScramCredentialStore"),
        ("SCRAM-SHA-512", PlainCredentialStore(), "SCRAM-SHA-512 has no use for a PlainCredentialStore"),
        ("PLAIN", {}, "PLAIN has no use for a dict"),
        ("OAUTHBEARER", TokenValidator(unsecured=True), "OAUTHBEARER has no use for a TokenValidator without now_ms"),
        ("OAUTHBEARER", {}, "OAUTHBEARER has no use for a dict: see server_mechanism"),
        ("GSSAPI", {}, "GSSAPI has no use for a dict: see server_mechanism"),
        ("AWS_MSK_IAM", None, "'AWS_MSK_IAM' is not a mechanism of a broker: write one of PLAIN, SCRAM-SHA-256"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(name: str, users: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        server_mechanism(name, users)
