"""OAUTHBEARER by RFC 7628 and KIP-342, both halves."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import ConfigurationError, SaslAuthenticationFailedError
from aiokafkapy.security.sasl.json_web_tokens import TokenValidator, unsecured_token
from aiokafkapy.security.sasl.oauthbearer import (
    OAUTHBEARER_CLIENT_STATES,
    OAUTHBEARER_SERVER_STATES,
    OAuthBearerClientExchange,
    OAuthBearerServerExchange,
    OAuthBearerToken,
)

from .exchanges import authenticate, everything_shown_of

NOW_MS = 1_700_000_000_000
CLAIMS: dict[str, Any] = {"sub": "alice", "exp": 1_700_000_600, "iat": 1_700_000_000}
TOKEN = unsecured_token(CLAIMS)
# RFC 7628, section 4.1, without the host and the port, which Kafka's clients do not send
RFC_TOKEN = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="


def server_of(**options: Any) -> OAuthBearerServerExchange:
    return OAuthBearerServerExchange(TokenValidator(unsecured=True, **options), NOW_MS)


def test_the_message_is_that_of_the_rfc() -> None:
    client = OAuthBearerClientExchange(OAuthBearerToken(RFC_TOKEN))
    assert client.respond(b"") == b"n,,\1auth=Bearer " + RFC_TOKEN.encode() + b"\1\1"
    assert client.respond(b"") is None
    assert client.is_complete


def test_both_halves_agree_and_extensions_are_carried() -> None:
    server = server_of()
    token = OAuthBearerToken(TOKEN, extensions={"logicalCluster": "lkc-1", "poolId": "a=b,c"})
    messages = authenticate(OAuthBearerClientExchange(token), server)
    assert messages[0].endswith(b"\1logicalCluster=lkc-1\1poolId=a=b,c\1\1")
    assert (server.principal, server.expires_at_ms) == ("User:alice", 1_700_000_600_000)


NAMES = st.text("abcXYZ", min_size=1).filter(lambda name: name.lower() != "auth")
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1)


@given(st.dictionaries(NAMES, VALUES), st.text(min_size=1))
def test_any_extension_that_can_be_sent_arrives(extensions: dict[str, str], sub: str) -> None:
    server = server_of()
    token = OAuthBearerToken(unsecured_token(CLAIMS | {"sub": "x" + sub}), extensions=extensions)
    messages = authenticate(OAuthBearerClientExchange(token), server)
    sent = messages[0].removesuffix(b"\1\1").decode().split("\1")[2:]
    assert sent == [f"{name}={value}" for name, value in extensions.items()]
    assert server.principal == "User:x" + sub


@pytest.mark.parametrize(
    ("claims", "options", "status"),
    [
        ({"exp": 1_699_999_000}, {}, {"status": "invalid_token"}),
        ({}, {"audience": "kafka"}, {"status": "invalid_token"}),
        ({}, {"scope": ["write"]}, {"status": "insufficient_scope", "scope": "write"}),
    ],
)
def test_a_refusal_is_answered_and_then_raised_on_both_sides(
    claims: dict[str, Any], options: dict[str, Any], status: dict[str, str]
) -> None:
    server = server_of(**options)
    client = OAuthBearerClientExchange(OAuthBearerToken(unsecured_token(CLAIMS | claims)))
    first = client.respond(b"")
    assert first is not None
    refusal = server.respond(first)
    assert json.loads(refusal) == status
    assert client.respond(refusal) == b"\1"
    assert not client.is_complete
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        server.respond(b"\1")
    assert json.loads(str(caught.value)) == status
    words = ", ".join(f"{name}={value}" for name, value in status.items())
    with pytest.raises(SaslAuthenticationFailedError, match=f"^the broker refused the token: {words}$"):
        client.respond(b"")
    assert (server.principal, server.is_complete) == ("", False)


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (b"not json", "not json"),
        (b'{"status": {}}', "without a reason"),
        (b"[" * 100_000, r"\[\[\["),
        (b"\xff\x1b[31m", "\ufffd\ufffd\\[31m"),
        (b'{"status":"x' + b"y" * 10_000 + b'"}', "y{400}"),
    ],
)
def test_any_words_of_a_refusal_are_shown_and_bounded(refusal: bytes, words: str) -> None:
    client = OAuthBearerClientExchange(OAuthBearerToken(TOKEN))
    client.respond(b"")
    assert client.respond(refusal) == b"\1"
    with pytest.raises(SaslAuthenticationFailedError, match=words) as caught:
        client.respond(b"")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\1",
        b"n,,\1\1",
        b"n,,\1auth=Basic abc\1\1",
        b"n,,\1auth=Bearer \1\1",
        b"n,,\1auth=Bearer a b\1\1",
        b"n,,\1auth=Bearer abc\1auth=Bearer def\1\1",
        b"n,,\1auth=Bearer abc\1x=1\1x=2\1\1",
        b"n,,\1auth=Bearer abc\1x1=1\1\1",
        b"n,,\1auth=Bearer abc\1x=\1\1",
        b"n,,\1auth=Bearer abc\1\1\1",
        b"n,,\1auth=Bearer abc\1" + b"a=b\1" * 100_000 + b"\1",
        b"n,,\1auth=Bearer abc\1",
        b"y,,\1auth=Bearer abc\1\1",
        b"n,a=,\1auth=Bearer abc\1\1",
        b"n,a=bob,\1auth=Bearer " + TOKEN.encode() + b"\1\1",
        b"n,,\1auth=Bearer " + b"a" * 600_000 + b"\1\1",
    ],
)
def test_an_invalid_message_fails_at_once(message: bytes) -> None:
    server = server_of()
    with pytest.raises(SaslAuthenticationFailedError, match=r"^Authentication failed: "):
        server.respond(message)
    with pytest.raises(SaslAuthenticationFailedError):
        server.respond(b"n,,\1auth=Bearer " + TOKEN.encode() + b"\1\1")
    assert not server.is_complete


def test_a_hundred_thousand_extensions_cost_little() -> None:
    message = b"n,,\1auth=Bearer abc\1" + b"a=b\1" * 130_000 + b"\1"
    tracemalloc.start()
    try:
        with pytest.raises(SaslAuthenticationFailedError):
            server_of().respond(message)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(message)
    finally:
        tracemalloc.stop()


def test_the_own_name_as_authorization_id_and_a_scheme_in_any_case_are_taken() -> None:
    server = server_of()
    assert server.respond(b"n,a=alice,\1auth=bearer  " + TOKEN.encode() + b"\1\1") == b""
    assert server.is_complete


@given(st.binary(max_size=200))
def test_strange_bytes_fail_the_server_for_good(message: bytes) -> None:
    server = server_of()
    with pytest.raises(SaslAuthenticationFailedError):
        server.respond(message)
        server.respond(b"\1")
    assert not server.is_complete


@given(st.binary(min_size=1, max_size=200), st.binary(max_size=20))
def test_strange_bytes_fail_the_client_for_good(challenge: bytes, more: bytes) -> None:
    client = OAuthBearerClientExchange(OAuthBearerToken(TOKEN))
    with pytest.raises(SaslAuthenticationFailedError):
        client.respond(challenge)
    client = OAuthBearerClientExchange(OAuthBearerToken(TOKEN))
    client.respond(b"")
    assert client.respond(challenge) == b"\1"
    for _ in range(2):
        with pytest.raises(SaslAuthenticationFailedError):
            client.respond(more)
    assert not client.is_complete


def test_a_refusal_that_is_too_long_is_not_read_as_one() -> None:
    client = OAuthBearerClientExchange(OAuthBearerToken(TOKEN))
    client.respond(b"")
    with pytest.raises(SaslAuthenticationFailedError, match="600000 bytes that OAUTHBEARER does not know"):
        client.respond(b"x" * 600_000)


@pytest.mark.parametrize("value", ["", "a b", "tok\1en", "t\u00f6ken", None, 7, b"token"])
def test_a_token_that_cannot_be_sent_is_refused_when_it_is_made(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="give the access token alone"):
        OAuthBearerToken(value)


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"Auth": "x"}, {"a-b": "x"}, {"": "x"}, {"a": ""}, {"a": "\1"}])
def test_extensions_that_cannot_be_sent_are_refused_when_they_are_made(extensions: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="SASL extension"):
        OAuthBearerToken(TOKEN, extensions=extensions)


def test_no_token_is_shown() -> None:
    token = OAuthBearerToken(TOKEN, principal="alice")
    assert TOKEN not in repr(token)
    client = OAuthBearerClientExchange(token)
    message = client.respond(b"") or b""
    client.respond(b'{"status":"invalid_token"}')
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        client.respond(b"")
    assert TOKEN not in everything_shown_of(caught.value)
    server = OAuthBearerServerExchange(TokenValidator(unsecured=True), NOW_MS * 2)
    server.respond(message)
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        server.respond(b"\1")
    assert TOKEN not in everything_shown_of(caught.value)
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        server_of().respond(message.replace(b"n,,", b"n,a=bob,"))
    assert TOKEN not in everything_shown_of(caught.value)


def test_the_states_end_in_two() -> None:
    for final in (
        [state.value for state in OAUTHBEARER_CLIENT_STATES.successors if OAUTHBEARER_CLIENT_STATES.is_final(state)],
        [state.value for state in OAUTHBEARER_SERVER_STATES.successors if OAUTHBEARER_SERVER_STATES.is_final(state)],
    ):
        assert final == ["complete", "failed"]
