"""The credential that a broker keeps of a password: RFC 7677's figures, and Kafka's text form."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.security.sasl.scram_credential import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramCredential,
    ScramCredentialStore,
    password_bytes,
    scram_hash,
)
from aiokafkapy.security.sasl.secret import Secret

# RFC 7677, section 3: user "user", password "pencil".
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
# As PostgreSQL, which stores the same two keys, prints them for that password, salt and count.
STORED_KEY = "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
SERVER_KEY = "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


def test_the_keys_are_those_of_the_rfc() -> None:
    credential = ScramCredential.from_password(SCRAM_SHA_256, "pencil", iterations=4096, salt=SALT)
    assert base64.b64encode(credential.stored_key).decode() == STORED_KEY
    assert base64.b64encode(credential.server_key).decode() == SERVER_KEY


def test_the_keys_with_sha_512_are_those_that_kafka_makes() -> None:
    """ScramFormatter and ScramCredentialUtils of Kafka 4.1 made this of "päncil"."""
    credential = ScramCredential.from_password(SCRAM_SHA_512, "p\u00e4ncil", iterations=8_192, salt=SALT)
    assert credential.format() == (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,"
        "stored_key=Qyw5QAE/HJyWyfsOs655PeD5CSs8MWgZLpg12wYuw/k5tlQY/6ct6FPipcdPcDnMgLdNc+lFhHBncIr4J3texw==,"
        "server_key=+ywCupLLJFre+othXZ1uVS579nDnYMKOqinqJPQJHXDyDdQn5m3iQbNAkSkiVcgs2NBocP67A9xWQlRpaJa7JQ==,"
        "iterations=8192"
    )


def test_the_text_is_kafkas_and_is_read_back() -> None:
    credential = ScramCredential.from_password(SCRAM_SHA_256, "pencil", iterations=4096, salt=SALT)
    text = f"salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key={STORED_KEY},server_key={SERVER_KEY},iterations=4096"
    assert credential.format() == text
    assert ScramCredential.parse(text) == credential


@given(st.text(), st.sampled_from([SCRAM_SHA_256, SCRAM_SHA_512]))
def test_each_credential_has_a_salt_of_its_own_and_survives_its_text(password: str, mechanism: str) -> None:
    one, other = (ScramCredential.from_password(mechanism, password) for _ in range(2))
    assert one.salt != other.salt
    assert one.stored_key != other.stored_key
    assert ScramCredential.parse(one.format()) == one
    salted = scram_hash(mechanism).salted_password(password_bytes(Secret(password)), one.salt, one.iterations)
    assert ScramCredential.from_salted_password(mechanism, salted, iterations=4096, salt=one.salt) == one
    assert ScramCredential.from_salted_password(mechanism, salted.reveal(), iterations=4096, salt=one.salt) == one


@pytest.mark.parametrize("iterations", [0, 4095, 16_385, -1])
def test_iterations_that_no_broker_takes_are_refused(iterations: int) -> None:
    with pytest.raises(ConfigurationError, match=f"iterations={iterations} .* write 4096 to 16384"):
        ScramCredential.from_password(SCRAM_SHA_256, "pencil", iterations=iterations)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=QQ==",
        "salt=QQ==,stored_key=QQ==,server_key=QQ==,iterations=4096,iterations=4096",
        "salt=QQ==,stored_key=!secret,server_key=QQ==,iterations=4096",
        "salt=QQ==,stored_key=secret,server_key=QQ==,iterations=4096",
        "salt=QQ==,stored_key=QQ==,server_key=QQ==,iterations=many",
        "salt=QQ==,stored_key=QQ==,server_key=QQ==,iterations=99999999999999999999",
        "salt=QQ==,stored_key=QQ==,server_key=QQ==,iterations=\u0664",
    ],
)
def test_an_invalid_text_is_refused_without_showing_its_keys(text: str) -> None:
    with pytest.raises(ConfigurationError, match="a SCRAM credential") as caught:
        ScramCredential.parse(text)
    assert "secret" not in str(caught.value)


@given(st.text())
def test_any_text_is_a_credential_or_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        ScramCredential.parse(text)


def test_no_key_is_shown() -> None:
    credential = ScramCredential.from_password(SCRAM_SHA_512, "pencil")
    store = ScramCredentialStore({"alice": credential})
    for shown in (repr(credential), repr(store)):
        assert repr(credential.stored_key) not in shown
        assert repr(credential.server_key) not in shown
    assert repr(store) == "ScramCredentialStore(['alice'])"


@pytest.mark.parametrize("password", ["pencil", "m²", "5µm", "a½", "nª1", "x¨y", "stra\u00dfe", "I\u00adX", "\u0007"])
def test_a_password_is_hashed_as_it_was_given_as_kafkas_tools_do(password: str) -> None:
    """SASLprep made 'm2' of 'm²', and no broker of Kafka's took that."""
    made_by_kafka = hashlib.pbkdf2_hmac("sha512", password.encode(), b"salt", 4096)
    assert ScramCredential.from_password(SCRAM_SHA_512, password, salt=b"salt") == ScramCredential.from_salted_password(
        SCRAM_SHA_512, made_by_kafka, iterations=4096, salt=b"salt"
    )


def test_another_mechanism_is_named_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match="'SCRAM-SHA-1' is not a SCRAM mechanism: write 'SCRAM-SHA-256'"):
        scram_hash("SCRAM-SHA-1")
