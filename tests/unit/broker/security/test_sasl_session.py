"""One connection's authentication: every step at its time, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from aiokafkapy.broker.security.sasl_session import SASL_STATES, SaslSession, SaslState
from aiokafkapy.errors import IllegalSaslStateError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.security.sasl.mechanism import SaslServerExchange


class Exchange:
    """Two steps, and the token of the second is the name."""

    def __init__(self, expires_at_ms: int | None = None) -> None:
        self.is_complete = False
        self.principal = ""
        self.expires_at_ms = expires_at_ms

    def respond(self, response: bytes) -> bytes:
        if response == b"wrong":
            raise SaslAuthenticationFailedError("no such user")
        if response == b"hello":
            return b"who?"
        self.principal = f"User:{response.decode()}"
        self.is_complete = True
        return b"welcome"


@dataclass
class Settings:
    mechanisms: Mapping[str, Callable[[], SaslServerExchange]] = field(
        default_factory=lambda: {"TWO": Exchange, "OTHER": Exchange, "TOKEN": lambda: Exchange(61_000)}
    )
    max_reauth_ms: int = 0
    failure_delay: float = 0.1
    max_receive_size: int = 1_000
    is_refusing: bool = False


def logged_in(settings: Settings | None = None, *, now: float = 0.0, mechanism: str = "TWO") -> SaslSession:
    session = SaslSession(settings or Settings())
    log_in(session, now, mechanism=mechanism)
    return session


def log_in(session: SaslSession, now: float, name: bytes = b"alice", mechanism: str = "TWO") -> int:
    session.admit(ApiKey.SASL_HANDSHAKE, now)
    session.handshake(mechanism, has_frames=True)
    session.admit(ApiKey.SASL_AUTHENTICATE, now)
    return session.authenticate(name, now, now_ms=1_000)[1]


def test_the_way_in() -> None:
    session = SaslSession(Settings())
    session.admit(ApiKey.API_VERSIONS, 0.0)
    session.versions_told()
    limit_before = session.max_receive_size
    assert limit_before == 1_000
    session.admit(ApiKey.SASL_HANDSHAKE, 0.0)
    session.handshake("TWO", has_frames=True)
    assert not session.takes_tokens
    session.admit(ApiKey.SASL_AUTHENTICATE, 0.0)
    assert session.authenticate(b"hello", 0.0, 0) == (b"who?", 0)
    session.admit(ApiKey.SASL_AUTHENTICATE, 0.0)
    assert session.authenticate(b"alice", 0.0, 0) == (b"welcome", 0)
    assert session.principal == "User:alice"
    assert session.max_receive_size is None
    session.admit(ApiKey.PRODUCE, math.inf)


def test_after_a_handshake_of_version_0_tokens_come_bare() -> None:
    session = SaslSession(Settings())
    session.admit(ApiKey.SASL_HANDSHAKE, 0.0)
    session.handshake("TWO", has_frames=False)
    assert session.takes_tokens
    session.authenticate(b"hello", 0.0, 0)
    assert session.takes_tokens
    session.authenticate(b"alice", 0.0, 0)
    assert not session.takes_tokens


@pytest.mark.parametrize("api_key", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.SASL_AUTHENTICATE, 999])
def test_nothing_else_may_come_first(api_key: int) -> None:
    session = SaslSession(Settings())
    with pytest.raises(IllegalSaslStateError, match="during SASL authentication"):
        session.admit(api_key, 0.0)
    assert session.is_failed
    with pytest.raises(IllegalSaslStateError):
        session.admit(ApiKey.SASL_HANDSHAKE, 0.0)


@pytest.mark.parametrize("api_key", [ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.SASL_HANDSHAKE])
def test_nothing_else_may_come_between(api_key: int) -> None:
    session = SaslSession(Settings())
    session.handshake("TWO", has_frames=True)
    with pytest.raises(IllegalSaslStateError):
        session.admit(api_key, 0.0)
    assert session.is_failed


def test_api_versions_are_answered_once() -> None:
    session = SaslSession(Settings())
    session.admit(ApiKey.API_VERSIONS, 0.0)  # of a version we do not have: it was refused and comes again
    session.admit(ApiKey.API_VERSIONS, 0.0)
    session.versions_told()
    with pytest.raises(IllegalSaslStateError):
        session.admit(ApiKey.API_VERSIONS, 0.0)


def test_a_mechanism_that_is_not_enabled_ends_it() -> None:
    session = SaslSession(Settings())
    with pytest.raises(UnsupportedSaslMechanismError, match="'GSSAPI' is not enabled; enabled are TWO, OTHER, TOKEN"):
        session.handshake("GSSAPI", has_frames=True)
    assert session.is_failed


@pytest.mark.parametrize("is_refusing", [False, True])
def test_a_refusal_ends_it(is_refusing: bool) -> None:
    session = SaslSession(Settings(is_refusing=is_refusing))
    session.handshake("TWO", has_frames=True)
    with pytest.raises(SaslAuthenticationFailedError):
        session.authenticate(b"alice" if is_refusing else b"wrong", 0.0, 0)
    assert session.is_failed
    assert session.principal is None
    with pytest.raises(IllegalSaslStateError):
        session.authenticate(b"alice", 0.0, 0)


def test_a_session_lives_as_long_as_listener_and_credential_let_it() -> None:
    assert log_in(SaslSession(Settings()), 0.0) == 0
    assert log_in(SaslSession(Settings(max_reauth_ms=5_000)), 0.0) == 5_000
    assert log_in(SaslSession(Settings()), 0.0, mechanism="TOKEN") == 60_000
    assert log_in(SaslSession(Settings(max_reauth_ms=5_000)), 0.0, mechanism="TOKEN") == 5_000
    assert log_in(SaslSession(Settings(max_reauth_ms=90_000)), 0.0, mechanism="TOKEN") == 60_000


def test_a_request_of_a_session_that_is_over_ends_it() -> None:
    session = logged_in(Settings(max_reauth_ms=5_000), now=10.0)
    session.admit(ApiKey.PRODUCE, 15.0)
    with pytest.raises(IllegalSaslStateError, match="over"):
        session.admit(ApiKey.PRODUCE, 15.1)
    assert session.is_failed


def test_a_live_session_may_authenticate_again_and_so_may_one_that_is_over() -> None:
    session = logged_in(Settings(max_reauth_ms=5_000), now=10.0)
    for now in (14.0, 30.0):
        assert log_in(session, now) == 5_000
        assert session.principal == "User:alice"
        session.admit(ApiKey.FETCH, now + 4.9)


def test_again_within_a_second_is_an_ordinary_request() -> None:
    session = logged_in()
    log_in(session, 10.0)
    session.admit(ApiKey.SASL_HANDSHAKE, 10.5)
    assert session.state is SaslState.COMPLETE
    with pytest.raises(IllegalSaslStateError):
        session.handshake("TWO", has_frames=True)
    assert session.state is SaslState.COMPLETE, "an answer, not the end"
    log_in(session, 11.0)


def test_another_principal_is_refused() -> None:
    session = logged_in()
    with pytest.raises(SaslAuthenticationFailedError, match=r"from User:alice: User:bob"):
        log_in(session, 1.0, b"bob")
    assert session.is_failed
    assert session.principal == "User:alice"


def test_another_mechanism_is_refused_at_the_next_step() -> None:
    session = logged_in()
    with pytest.raises(SaslAuthenticationFailedError, match="re-authentication of mechanism 'TWO'"):
        log_in(session, 1.0, mechanism="OTHER")
    assert session.is_failed


def test_other_requests_wait_for_the_end_of_a_re_authentication() -> None:
    session = logged_in()
    session.admit(ApiKey.SASL_HANDSHAKE, 1.0)
    session.handshake("TWO", has_frames=True)
    with pytest.raises(IllegalSaslStateError):
        session.admit(ApiKey.PRODUCE, 1.0)


def test_a_session_can_be_ended() -> None:
    session = logged_in(now=5.0)
    assert session.expire(5.5)
    with pytest.raises(IllegalSaslStateError, match="over"):
        session.admit(ApiKey.PRODUCE, 5.5)
    again = logged_in(now=5.0)
    assert again.expire(5.5)
    log_in(again, 5.5)
    again.admit(ApiKey.PRODUCE, 1e9)
    assert not SaslSession(Settings()).expire(0.0)


def test_every_state_can_be_left_for_failure_and_failure_for_nothing() -> None:
    assert SASL_STATES.is_final(SaslState.FAILED)
    for state in SaslState:
        if state is not SaslState.FAILED:
            assert SASL_STATES.can_follow(state, SaslState.FAILED)
