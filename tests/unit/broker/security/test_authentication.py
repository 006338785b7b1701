"""The users of a cluster, and the mechanisms that each listener accepts."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.listeners import Endpoint, Listener, endpoints_of
from aiokafkapy.broker.security.authentication import Authentication, ListenerAuthentication
from aiokafkapy.errors import (
    ConfigurationError,
    KafkaStorageError,
    SaslAuthenticationFailedError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from aiokafkapy.security.sasl.json_web_tokens import TokenValidator, unsecured_token
from aiokafkapy.security.sasl.scram_credential import ScramCredential

USERS = {"alice": "hush-alice"}
# RFC 7515, appendix A.3
RFC_KEY = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
RFC_TOKEN = (
    "eyJhbGciOiJFUzI1NiJ9."
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)
RFC_NOW_MS = 1_300_819_000_000
CREDENTIAL = ScramCredential(b"salt-for-carol", b"stored", b"server", 4_096)


class Keys:
    """Keys that note the calls."""

    def __init__(self) -> None:
        self.jwks: object = {"keys": [RFC_KEY]}
        self.calls: list[str] = []

    def refresh(self, validator: TokenValidator, now_ms: int) -> None:
        self.calls.append("refresh")

    def ask_again(self, validator: TokenValidator, now_ms: int) -> None:
        self.calls.append("ask again")

    def close(self) -> None:
        self.calls.append("close")


def endpoint(config: BrokerConfig, protocol: str = "SASL_PLAINTEXT", **options: Any) -> Endpoint:
    (made,) = endpoints_of({protocol: Listener(protocol, **options)}, config, nodes=1).values()
    return made


def settings(data_dir: Path | None = None, **options: Any) -> ListenerAuthentication:
    config = BrokerConfig.of(sasl_users=USERS)
    made = Authentication(config, data_dir, lambda: 5_000).settings_for(endpoint(config, **options))
    assert made is not None
    return made


def test_a_listener_has_the_mechanisms_that_it_enables() -> None:
    assert list(settings().mechanisms) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert list(settings(sasl_enabled_mechanisms=["OAUTHBEARER"]).mechanisms) == ["OAUTHBEARER"]
    config = BrokerConfig.of()
    assert Authentication(config, None, lambda: 0).settings_for(endpoint(config, "PLAINTEXT")) is None
    with pytest.raises(
        ConfigurationError, match="'AWS_MSK_IAM' is not a mechanism of the dev broker's; write some of PLAIN"
    ):
        settings(sasl_enabled_mechanisms=["AWS_MSK_IAM"])


def test_users_log_in_by_their_password() -> None:
    exchange = settings().mechanisms["PLAIN"]()
    assert exchange.respond(b"\0alice\0hush-alice") == b""
    assert exchange.principal == "User:alice"
    with pytest.raises(SaslAuthenticationFailedError):
        settings().mechanisms["PLAIN"]().respond(b"\0alice\0hush")


def test_a_listeners_options_reach_its_sessions() -> None:
    session = settings(connections_max_reauth_ms=7_000, sasl_server_max_receive_size=99).new_session()
    assert session.max_receive_size == 99
    assert session.failure_delay == 0.1
    session.handshake("PLAIN", has_frames=True)
    assert session.authenticate(b"\0alice\0hush-alice", 0.0, 0) == (b"", 7_000)


def test_changed_credentials_survive_and_count_before_the_given_ones(tmp_path: Path) -> None:
    config = BrokerConfig.of(sasl_users=USERS)
    before = Authentication(config, tmp_path, lambda: 0)
    before.change_scram([("alice", 1, CREDENTIAL), ("carol", 2, CREDENTIAL)])
    before.change_scram([("carol", 2, None), ("dave", 2, CREDENTIAL)])
    after = Authentication(config, tmp_path, lambda: 0)
    assert after.settings_for(endpoint(config)) is not None  # which makes credentials of the passwords
    assert after.scram["SCRAM-SHA-256"]["alice"] == CREDENTIAL
    assert sorted(after.scram["SCRAM-SHA-256"]) == ["alice"]
    assert sorted(after.scram["SCRAM-SHA-512"]) == ["alice", "dave"]
    assert after.scram["SCRAM-SHA-512"]["alice"] != CREDENTIAL


def test_a_credential_that_was_taken_away_is_not_made_again_of_the_password(tmp_path: Path) -> None:
    config = BrokerConfig.of(sasl_users=USERS)
    Authentication(config, tmp_path, lambda: 0).change_scram([("alice", 1, None)])
    again = Authentication(config, tmp_path, lambda: 0)
    assert again.settings_for(endpoint(config)) is not None
    assert (list(again.scram["SCRAM-SHA-256"]), list(again.scram["SCRAM-SHA-512"])) == ([], ["alice"])
    again.change_scram([("alice", 1, CREDENTIAL)])
    last = Authentication(config, tmp_path, lambda: 0)
    assert last.scram["SCRAM-SHA-256"] == {"alice": CREDENTIAL}


def test_a_change_that_cannot_be_kept_is_not_made(tmp_path: Path) -> None:
    authentication = Authentication(BrokerConfig.of(), tmp_path, lambda: 0)
    (tmp_path / "scram-credentials.tmp").mkdir()
    with pytest.raises(KafkaStorageError):
        authentication.change_scram([("carol", 1, CREDENTIAL)])
    assert not authentication.scram["SCRAM-SHA-256"]


def test_unknown_names_and_codes_are_refused() -> None:
    authentication = Authentication(BrokerConfig.of(), None, lambda: 0)
    with pytest.raises(UnacceptableCredentialError):
        authentication.check_scram_user("", 1)
    with pytest.raises(UnsupportedSaslMechanismError):
        authentication.check_scram_user("carol", 3)


def test_tokens_are_believed_unsigned_without_a_url_of_keys() -> None:
    token = unsecured_token({"sub": "alice", "exp": 65})
    message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    exchange = settings(sasl_enabled_mechanisms=["OAUTHBEARER"]).mechanisms["OAUTHBEARER"]()
    exchange.respond(message)
    assert (exchange.principal, exchange.expires_at_ms) == ("User:alice", 65_000)


def test_a_listener_with_a_url_of_keys_believes_the_keys_that_it_is_given() -> None:
    config = BrokerConfig.of(
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url="https://issuer.invalid/keys",
        sasl_oauthbearer_sub_claim_name="iss",
    )
    authentication = Authentication(config, None, lambda: RFC_NOW_MS)
    with pytest.raises(ConfigurationError, match="a broker believes signed tokens or unsecured ones"):
        authentication.settings_for(endpoint(config))
    keys = Keys()
    made = authentication.settings_for(endpoint(config), keys)
    assert made is not None
    exchange = made.mechanisms["OAUTHBEARER"]()
    exchange.respond(f"n,,\x01auth=Bearer {RFC_TOKEN}\x01\x01".encode())
    assert exchange.principal == "User:joe"
    stranger = unsecured_token({"sub": "alice"}).replace(unsecured_token({}).split(".")[0], "eyJraWQiOiJuZXcifQ")
    made.mechanisms["OAUTHBEARER"]().respond(f"n,,\x01auth=Bearer {stranger}\x01\x01".encode())
    authentication.close()
    assert keys.calls == ["refresh", "refresh", "ask again", "close"]


def test_passwords_are_not_shown() -> None:
    config = BrokerConfig.of(sasl_users=USERS)
    made = Authentication(config, None, lambda: 0)
    assert "hush" not in repr((config, made, made.scram, made.settings_for(endpoint(config)), endpoint(config)))


def test_kerberos_is_checked_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    config = BrokerConfig.of(sasl_enabled_mechanisms="GSSAPI", sasl_kerberos_service_name="kafka@HERE")
    with pytest.raises(ConfigurationError, match="'kafka@HERE' is not the name of a service"):
        endpoint(config)
    assert endpoint(config, "PLAINTEXT").config is config  # where nobody authenticates it has no effect
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'aiokafkapy\[kerberos\]'"):
        endpoint(config, sasl_kerberos_service_name="kafka")
