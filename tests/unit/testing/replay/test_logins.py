"""SASL of a replay: it is carried out with the replay's own users, in requests and without."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.errors import IllegalSaslStateError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import RequestHeader, decode_response, encode_request
from aiokafkapy.protocol.messages import build_request
from aiokafkapy.security.sasl.scram import ScramMechanism
from aiokafkapy.security.sasl.secret import Secret
from aiokafkapy.testing.replay.logins import Login, Logins

LOGINS = Logins({"ann": "secret"})
PLAIN = b"\0ann\0secret"


def ask(login: Login, api_key: ApiKey, version: int, **fields: Any) -> Any:
    """The body of the answer to a request."""
    frame = encode_request(build_request(api_key, version, **fields), 7, "test")[4:]
    answer = login.answer(RequestHeader(api_key, version, 7, "test"), frame, 0.0)
    assert answer is not None
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    correlation_id, body = decode_response(api_key, version, answer[4:])
    assert correlation_id == 7
    return body


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_is_carried_out_with_a_nonce_of_its_own_each_time(mechanism: str) -> None:
    firsts = []
    for _ in range(2):
        login = Login(LOGINS)
        client = ScramMechanism(mechanism, "ann", Secret("secret")).exchange("localhost")
        body = ask(login, ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)
        assert (body.error_code, mechanism in body.mechanisms) == (0, True)
        message, answer = client.respond(b""), b""
        while message is not None and not client.is_complete:
            answer = ask(login, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message).auth_bytes
            firsts.append(bytes(answer))
            message = client.respond(bytes(answer))
        assert client.is_complete  # the server knew the password, too
        assert not login.is_failed
    assert firsts[0] != firsts[2]


def test_a_wrong_password_is_refused_and_ends_the_login() -> None:
    login = Login(LOGINS)
    ask(login, ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    body = ask(login, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0ann\0guess")
    assert body.error_code == SaslAuthenticationFailedError.code
    assert "guess" not in body.error_message
    assert login.is_failed


def test_a_mechanism_that_it_lacks_is_refused_with_those_that_it_has() -> None:
    login = Login(LOGINS)
    body = ask(login, ApiKey.SASL_HANDSHAKE, 1, mechanism="GSSAPI")
    assert body.error_code == UnsupportedSaslMechanismError.code
    assert list(body.mechanisms) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert login.is_failed


def test_a_proof_that_comes_before_a_mechanism_is_refused() -> None:
    login = Login(LOGINS)
    body = ask(login, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=PLAIN)
    assert body.error_code == IllegalSaslStateError.code
    assert login.is_failed


def test_tokens_without_requests_are_answered_without_or_not_at_all() -> None:
    for token, answer in ((PLAIN, b"\0\0\0\0"), (b"\0ann\0guess", b"")):
        login = Login(LOGINS)
        ask(login, ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
        assert login.takes_tokens
        assert login.token(token, 0.0) == answer
        assert login.is_failed is (answer == b"")
        assert not login.takes_tokens


def test_other_requests_are_left_alone() -> None:
    frame = encode_request(build_request(ApiKey.METADATA, 12, topics=None), 7, "test")[4:]
    assert Login(LOGINS).answer(RequestHeader(ApiKey.METADATA, 12, 7, "test"), frame, 0.0) is None


@pytest.mark.parametrize("users", [{"": "secret"}, {"ann": ""}])
def test_a_user_has_a_name_and_a_password(users: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="has to have a name and a password"):
        Logins(users)
