"""PLAIN by RFC 4616, both halves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import SaslAuthenticationFailedError
from aiokafkapy.security.sasl.plain import (
    PLAIN_CLIENT_STATES,
    PlainCredentialStore,
    PlainMechanism,
    PlainServerExchange,
)
from aiokafkapy.security.sasl.secret import Secret

from .exchanges import authenticate, everything_shown_of

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


def test_the_message_is_that_of_the_rfc() -> None:
    exchange = PlainMechanism("tim", Secret("tanstaaftanstaaf")).exchange("host")
    assert exchange.respond(b"") == b"\0tim\0tanstaaftanstaaf"
    assert not exchange.is_complete
    assert exchange.respond(b"") is None
    assert exchange.is_complete


@given(TEXT, TEXT)
def test_both_halves_agree(username: str, password: str) -> None:
    server = PlainServerExchange(PlainCredentialStore({username: password}))
    authenticate(PlainMechanism(username, Secret(password)).exchange("host"), server)
    assert server.principal == f"User:{username}"
    assert server.expires_at_ms is None


@given(TEXT, TEXT)
def test_another_password_is_refused(one: str, other: str) -> None:
    server = PlainServerExchange(PlainCredentialStore({"alice": one}))
    client = PlainMechanism("alice", Secret(one + other)).exchange("host")
    with pytest.raises(SaslAuthenticationFailedError, match=r"^Authentication failed: Invalid username or password$"):
        authenticate(client, server)
    assert not server.is_complete
    assert server.principal == ""


def test_an_unknown_user_is_refused_in_the_same_words_even_without_a_password() -> None:
    server = PlainServerExchange(PlainCredentialStore({"alice": "x"}))
    with pytest.raises(SaslAuthenticationFailedError, match=r"^Authentication failed: Invalid username or password$"):
        server.respond(b"\0bob\0x")
    store = PlainCredentialStore()
    assert not store.matches("nobody", b"")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"", "3 parts, not 1"),
        (b"alice\0x", "3 parts, not 2"),
        (b"\0alice\0x\0", "3 parts, not 4"),
        (b"\0\0x", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0\xff\0x", "not UTF-8"),
        (b"bob\0alice\0x", "authorization id"),
        (b"\0alice\0" + b"x" * 20_000, "20,007 bytes: at most 16,384"),
    ],
)
def test_an_invalid_message_is_refused_with_its_reason(message: bytes, words: str) -> None:
    server = PlainServerExchange(PlainCredentialStore({"alice": "x"}))
    with pytest.raises(SaslAuthenticationFailedError, match=words):
        server.respond(message)
    assert not server.is_complete


def test_the_own_name_as_authorization_id_is_taken() -> None:
    server = PlainServerExchange(PlainCredentialStore({"alice": "x"}))
    assert server.respond(b"alice\0alice\0x") == b""
    with pytest.raises(SaslAuthenticationFailedError, match="nothing may follow"):
        server.respond(b"alice\0alice\0x")


@given(st.binary())
def test_strange_bytes_are_refused(message: bytes) -> None:
    server = PlainServerExchange(PlainCredentialStore({"alice": "x"}))
    with pytest.raises(SaslAuthenticationFailedError):
        server.respond(message)


@given(st.binary(min_size=1))
def test_a_server_that_asks_for_more_is_not_a_plain_server(challenge: bytes) -> None:
    for before in (0, 1):
        exchange = PlainMechanism("alice", Secret("x")).exchange("host")
        for _ in range(before):
            exchange.respond(b"")
        with pytest.raises(SaslAuthenticationFailedError, match="PLAIN listener"):
            exchange.respond(challenge)
        with pytest.raises(SaslAuthenticationFailedError):
            exchange.respond(b"")  # it stays failed
        assert not exchange.is_complete


def test_a_password_changed_in_the_store_is_the_new_one_at_once() -> None:
    store = PlainCredentialStore({"alice": "old"})
    store["alice"] = "new"
    PlainServerExchange(store).respond(b"\0alice\0new")
    del store["alice"]
    with pytest.raises(SaslAuthenticationFailedError):
        PlainServerExchange(store).respond(b"\0alice\0new")


def test_no_password_is_shown() -> None:
    store = PlainCredentialStore({"alice": "hunter2"})
    mechanism = PlainMechanism("alice", Secret("hunter2"))
    assert "hunter2" not in repr(store) + repr(mechanism) + repr(vars(mechanism)) + repr(vars(mechanism.exchange("h")))
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        exchange = mechanism.exchange("host")
        exchange.respond(b"")
        exchange.respond(b"what")
    assert "hunter2" not in everything_shown_of(caught.value)
    for message in (b"\0alice\0hunter3", b"bob\0alice\0hunter2", b"\xff\0alice\0hunter2"):
        with pytest.raises(SaslAuthenticationFailedError) as caught:
            PlainServerExchange(store).respond(message)
        assert "hunter" not in everything_shown_of(caught.value)


def test_the_states_end() -> None:
    assert [state for state in PLAIN_CLIENT_STATES.successors if PLAIN_CLIENT_STATES.is_final(state)] == [
        state for state in PLAIN_CLIENT_STATES.successors if state.value in ("complete", "failed")
    ]


async def test_preparing_and_closing_need_nothing() -> None:
    mechanism = PlainMechanism("alice", Secret("x"))
    await mechanism.prepare()
    mechanism.close()
    assert (mechanism.name, mechanism.blocks) == ("PLAIN", False)
