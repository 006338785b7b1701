"""SCRAM by RFC 5802 and RFC 7677: their exchange byte for byte, and each half against a dishonest peer."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafkapy.errors import SaslAuthenticationFailedError
from aiokafkapy.security.sasl.scram import (
    SCRAM_CLIENT_STATES,
    SCRAM_SERVER_STATES,
    ScramMechanism,
    ScramServerExchange,
    new_nonce,
)
from aiokafkapy.security.sasl.scram_credential import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    DelegationToken,
    ScramCredential,
    ScramCredentialStore,
)
from aiokafkapy.security.sasl.secret import Secret

from .exchanges import authenticate, everything_shown_of

MECHANISMS = [SCRAM_SHA_256, SCRAM_SHA_512]
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
REFUSED = "^Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-...$"

# RFC 7677, section 3
EXCHANGE = [
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
]

# The result of ScramFormatter and ScramMessages of Kafka 4.1 for the password "päncil" for the user "a=b,c": the RFCs
# have no exchange with SHA-512.
KAFKAS_PROOF = b"8kpFI0PPUNATmqEfxuZhwg8nbbUY+OXutovv99wTs3bJV5KR5VsJvrsc87GGD4tnPvlyXHKvDYGDlXvxC6eRyw=="
KAFKAS_EXCHANGE = [
    b"n,,n=a=3Db=2Cc,r=clientnonce",
    b"r=clientnonceservernonce,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=8192",
    b"c=biws,r=clientnonceservernonce,p=" + KAFKAS_PROOF,
    b"v=zfxdKIj5KLm7vr/UbR7gpFe/XNTGZyLxq01gsU+0//ASl5VMwVoMpOXWcC0iVxum/soPvdVmmJeH8g+V/46wAw==",
]


def client_of(username: str = "user", password: str = "pencil", mechanism: str = SCRAM_SHA_256) -> ScramMechanism:
    return ScramMechanism(mechanism, username, Secret(password), nonce=lambda: "rOprNGfwEbeRWgbNEkqO")


def server_of(
    users: Mapping[str, str] | None = None,
    mechanism: str = SCRAM_SHA_256,
    tokens: Mapping[str, DelegationToken] | None = None,
) -> ScramServerExchange:
    store = ScramCredentialStore(
        {
            user: ScramCredential.from_password(mechanism, password, salt=SALT)
            for user, password in ({"user": "pencil"} if users is None else users).items()
        }
    )
    return ScramServerExchange(mechanism, store, tokens=tokens, nonce=lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")


def test_the_exchange_is_that_of_the_rfc() -> None:
    server = server_of()
    assert authenticate(client_of().exchange("host"), server) == EXCHANGE
    assert server.principal == "User:user"
    assert server.expires_at_ms is None


def test_the_exchange_with_sha_512_is_kafkas() -> None:
    credential = ScramCredential.from_password(SCRAM_SHA_512, "p\u00e4ncil", iterations=8_192, salt=SALT)
    server = ScramServerExchange(SCRAM_SHA_512, {"a=b,c": credential}, nonce=lambda: "servernonce")
    client = ScramMechanism(SCRAM_SHA_512, "a=b,c", Secret("p\u00e4ncil"), nonce=lambda: "clientnonce")
    assert authenticate(client.exchange("host"), server) == KAFKAS_EXCHANGE


NAME = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


@settings(max_examples=40)
@given(NAME, st.text(min_size=1), st.sampled_from(MECHANISMS))
def test_both_halves_agree(username: str, password: str, mechanism: str) -> None:
    server = server_of({username: password}, mechanism)
    authenticate(ScramMechanism(mechanism, username, Secret(password)).exchange("host"), server)
    assert server.principal == f"User:{username}"


@pytest.mark.parametrize(("username", "sent"), [("a=b,c", b"a=3Db=2Cc"), ("=2C", b"=3D2C"), (",,==", b"=2C=2C=3D=3D")])
def test_names_with_signs_of_the_protocol_are_escaped(username: str, sent: bytes) -> None:
    client = client_of(username)
    first = client.exchange("host").respond(b"")
    assert first == b"n,,n=%b,r=rOprNGfwEbeRWgbNEkqO" % sent
    authenticate(client.exchange("host"), server_of({username: "pencil"}))


def test_a_name_is_sent_as_it_was_given() -> None:
    assert client_of("m\u00b2").exchange("host").respond(b"") == b"n,,n=m\xc2\xb2,r=rOprNGfwEbeRWgbNEkqO"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password_unknown_user_and_no_message_are_refused_in_the_same_words(mechanism: str) -> None:
    refusals = []
    for client in (client_of("user", "pen", mechanism), client_of("nobody", "pencil", mechanism)):
        with pytest.raises(SaslAuthenticationFailedError, match=REFUSED) as caught:
            authenticate(client.exchange("host"), server_of(mechanism=mechanism))
        refusals.append(str(caught.value))
    with pytest.raises(SaslAuthenticationFailedError, match=REFUSED) as caught:
        server_of(mechanism=mechanism).respond(b"\0user\0pencil")
    assert {*refusals, str(caught.value)} == {refusals[0]}


def test_a_server_without_the_password_is_found_out() -> None:
    client = client_of().exchange("host")
    client.respond(b"")
    client.respond(EXCHANGE[1])
    forged = base64.b64encode(hashlib.sha256(b"guess").digest())
    with pytest.raises(SaslAuthenticationFailedError, match="does not know the password"):
        client.respond(b"v=" + forged)
    assert not client.is_complete
    with pytest.raises(SaslAuthenticationFailedError):
        client.respond(EXCHANGE[3])


def test_a_server_that_skips_its_first_message_is_found_out() -> None:
    client = client_of().exchange("host")
    client.respond(b"")
    with pytest.raises(SaslAuthenticationFailedError, match="sent a first message that is not SCRAM-SHA-256"):
        client.respond(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (EXCHANGE[1].replace(b"r=rO", b"r=xO"), "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=QQ==,i=4096", "nonce"),
        (EXCHANGE[1].replace(b"4096", b"4095"), "asks for 4095 iterations .*: 4,096 to 1,000,000"),
        (EXCHANGE[1].replace(b"4096", b"1000001"), "asks for 1000001 iterations .*: 4,096 to 1,000,000"),
        (EXCHANGE[1].replace(b"4096", b"9" * 5_000), "asks for 9{100}… iterations .*: 4,096 to 1,000,000"),
        (EXCHANGE[1].replace(b"4096", b"0"), "asks for 0 iterations"),
        (EXCHANGE[1].replace(b"4096", b"-1"), "not SCRAM-SHA-256"),
        (EXCHANGE[1].replace(b"s=", b"s=="), "not SCRAM-SHA-256"),
        (b"", "not SCRAM-SHA-256"),
        (b"x" * 20_000, "sent 20,000 bytes, at most 16,384"),
    ],
)
def test_a_first_message_that_is_not_right_is_refused_with_its_reason(challenge: bytes, words: str) -> None:
    client = client_of().exchange("host")
    client.respond(b"")
    with pytest.raises(SaslAuthenticationFailedError, match=words):
        client.respond(challenge)


def test_the_servers_own_error_is_raised() -> None:
    client = client_of().exchange("host")
    client.respond(b"")
    client.respond(EXCHANGE[1])
    with pytest.raises(SaslAuthenticationFailedError, match="the broker refused: invalid-proof"):
        client.respond(b"e=invalid-proof")


def test_extensions_that_nobody_knows_are_signed_and_ignored() -> None:
    server, client = server_of(), client_of().exchange("host")
    first = client.respond(b"")
    assert first is not None
    final = client.respond(server.respond(first) + b",x=unknown")
    assert final is not None
    with pytest.raises(SaslAuthenticationFailedError, match=REFUSED):
        server.respond(final)  # an addition to the server's message on the way changes the signed bytes


@pytest.mark.parametrize(
    "first",
    [
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,a=other,n=user,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user,r=a,b",
        b"n,,n=user",
        b"n,,n=us\xc3\xa9r,r=abc",
        b"n,,n=user,r=abc," + b"x=y," * 5_000 + b"z=z",
    ],
)
def test_a_first_message_that_kafka_refuses_is_refused(first: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailedError):
        server_of().respond(first)


def test_the_own_name_as_authorization_id_is_signed_and_taken() -> None:
    server = server_of()
    challenge = server.respond(b"n,a=user,n=user,r=abc")
    assert challenge.startswith(b"r=abc%hvYD")
    with pytest.raises(SaslAuthenticationFailedError, match=REFUSED):  # its header is another than was bound
        server.respond(b"c=biws,r=abc%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    "final",
    [
        EXCHANGE[2].replace(b"k0,", b"k1,"),
        EXCHANGE[2].replace(b"biws", b"eSws"),
        EXCHANGE[2].replace(b"p=dHz", b"p=eHz"),
        EXCHANGE[2][:-4],
        EXCHANGE[2].partition(b",p=")[0],
        EXCHANGE[2].partition(b",p=")[0] + b",p=",
        b"",
    ],
)
def test_a_final_message_that_is_not_right_is_refused(final: bytes) -> None:
    server = server_of()
    server.respond(EXCHANGE[0])
    with pytest.raises(SaslAuthenticationFailedError, match=REFUSED):
        server.respond(final)
    assert not server.is_complete
    assert server.principal == ""
    with pytest.raises(SaslAuthenticationFailedError, match=REFUSED):
        server.respond(EXCHANGE[2])  # the client has had its one try


def test_a_stored_credential_of_too_few_iterations_is_of_no_use() -> None:
    weak = ScramCredential(SALT, bytes(32), bytes(32), 4_095)
    with pytest.raises(SaslAuthenticationFailedError, match=REFUSED):
        ScramServerExchange(SCRAM_SHA_256, {"user": weak}).respond(EXCHANGE[0])


def test_a_delegation_token_stands_for_its_owner_until_it_ends() -> None:
    hmac_text = "aGVsbG8="
    token = DelegationToken("User:alice", ScramCredential.from_password(SCRAM_SHA_256, hmac_text), 1_700_000_000_000)
    client = ScramMechanism(SCRAM_SHA_256, "token-id", Secret(hmac_text), is_token=True, nonce=lambda: "abc")
    assert client.exchange("host").respond(b"") == b"n,,n=token-id,r=abc,tokenauth=true"
    server = server_of({"token-id": "another"}, tokens={"token-id": token})
    authenticate(client.exchange("host"), server)
    assert (server.principal, server.expires_at_ms) == ("User:alice", 1_700_000_000_000)


def test_a_token_is_not_a_user_and_a_user_not_a_token() -> None:
    token = DelegationToken("User:alice", ScramCredential.from_password(SCRAM_SHA_256, "x"), 1)
    as_user = client_of("token-id", "x").exchange("host")
    with pytest.raises(SaslAuthenticationFailedError, match=REFUSED):
        authenticate(as_user, server_of(tokens={"token-id": token}))
    as_token = ScramMechanism(SCRAM_SHA_256, "user", Secret("pencil"), is_token=True).exchange("host")
    with pytest.raises(SaslAuthenticationFailedError, match=REFUSED):
        authenticate(as_token, server_of(tokens={"token-id": token}))


def test_the_password_is_hashed_once_for_many_authentications_and_again_for_another_salt() -> None:
    client = client_of()
    with patch.object(hashlib, "pbkdf2_hmac", wraps=hashlib.pbkdf2_hmac) as derive:
        server_of()  # the credential
        made = derive.call_count
        for _ in range(5):
            authenticate(client.exchange("host"), server_of())
        assert derive.call_count == made + 1 + 5
        for number in range(20):
            exchange = client.exchange("host")
            exchange.respond(b"")
            exchange.respond(EXCHANGE[1].replace(b"s=W22", b"s=W%02d" % number))
        assert len(vars(client)["_salted"]) <= 8
        derive.reset_mock()
        client.close()
        exchange = client.exchange("host")
        exchange.respond(b"")
        exchange.respond(EXCHANGE[1])
        assert derive.call_count == 1


@given(st.binary(max_size=200), st.integers(0, 2))
def test_strange_bytes_fail_the_client_for_good(challenge: bytes, after: int) -> None:
    client = client_of()
    vars(client)["_salted"][SALT, 4096] = Secret(bytes(32))  # no need to hash for each example
    exchange = client.exchange("host")
    for before in (b"", EXCHANGE[1])[:after]:
        exchange.respond(before)
    if after == 0 and not challenge:
        return
    with pytest.raises(SaslAuthenticationFailedError):
        exchange.respond(challenge)
    with pytest.raises(SaslAuthenticationFailedError):
        exchange.respond(b"")
    assert not exchange.is_complete


@given(st.binary(max_size=200), st.booleans())
def test_strange_bytes_fail_the_server_for_good(response: bytes, after: bool) -> None:
    users = {"user": ScramCredential(SALT, bytes(32), bytes(32), 4_096)}
    server = ScramServerExchange(SCRAM_SHA_256, users)
    if after:
        server.respond(EXCHANGE[0])
    with pytest.raises(SaslAuthenticationFailedError):
        server.respond(response)
    with pytest.raises(SaslAuthenticationFailedError):
        server.respond(EXCHANGE[0])
    assert not server.is_complete


def test_nothing_may_follow_the_end() -> None:
    client, server = client_of().exchange("host"), server_of()
    authenticate(client, server)
    with pytest.raises(SaslAuthenticationFailedError, match="after the end of SCRAM-SHA-256"):
        client.respond(b"more")
    assert client.is_complete
    with pytest.raises(SaslAuthenticationFailedError):
        server.respond(EXCHANGE[0])
    assert server.is_complete


def test_no_password_and_nothing_made_of_it_is_shown() -> None:
    mechanism = client_of(password="hunter2hunter2")
    salted = hashlib.pbkdf2_hmac("sha256", b"hunter2hunter2", SALT, 4096)
    for last in (b"v=" + base64.b64encode(bytes(32)), b"e=other-error", b"nonsense"):
        exchange = mechanism.exchange("host")
        exchange.respond(b"")
        exchange.respond(EXCHANGE[1])
        with pytest.raises(SaslAuthenticationFailedError) as caught:
            exchange.respond(last)
        shown = everything_shown_of(caught.value) + repr(mechanism) + repr(vars(mechanism)) + repr(vars(exchange))
        assert "hunter2" not in shown
        assert repr(salted) not in shown


def test_nonces_are_new_and_printable() -> None:
    nonces = {new_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert all(nonce.isascii() and nonce.isprintable() and "," not in nonce and len(nonce) >= 24 for nonce in nonces)


def test_the_states_end_in_two() -> None:
    for final in (
        [state.value for state in SCRAM_CLIENT_STATES.successors if SCRAM_CLIENT_STATES.is_final(state)],
        [state.value for state in SCRAM_SERVER_STATES.successors if SCRAM_SERVER_STATES.is_final(state)],
    ):
        assert final == ["complete", "failed"]


async def test_preparing_needs_nothing_and_hashing_blocks() -> None:
    mechanism = client_of()
    await mechanism.prepare()
    assert (mechanism.name, mechanism.blocks) == ("SCRAM-SHA-256", True)
    assert repr(mechanism) == "ScramMechanism('SCRAM-SHA-256', 'user')"
