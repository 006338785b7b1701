"""Both halves of GSSAPI against each other, with a real KDC's tickets; skipped loudly where there is none."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError, SaslAuthenticationFailedError
from aiokafkapy.security.sasl.gssapi import GssapiMechanism
from aiokafkapy.security.sasl.gssapi_server import (
    GSSAPI_SERVER_STATES,
    GssapiServerExchange,
    KerberosService,
)
from aiokafkapy.security.sasl.mechanism import SaslClientExchange
from aiokafkapy.security.sasl.server import server_mechanism
from tests.realms import Realm, opened_realm

from .exchanges import authenticate

REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI: "


@pytest.fixture(scope="module")
def realm() -> Iterator[Realm]:
    with opened_realm() as realm:
        yield realm


@pytest.fixture
def alice(realm: Realm) -> Iterator[SaslClientExchange]:
    with realm.kdc.in_environment(realm.kdc.tickets_of("alice", realm.alice)):
        yield GssapiMechanism().exchange("localhost")


@pytest.fixture
def server(realm: Realm, alice: SaslClientExchange) -> GssapiServerExchange:
    return KerberosService("kafka", str(realm.service)).exchange()


def test_a_client_with_a_ticket_is_its_principal(alice: SaslClientExchange, server: GssapiServerExchange) -> None:
    authenticate(alice, server)
    assert (server.principal, server.expires_at_ms) == ("User:alice", None)
    with pytest.raises(SaslAuthenticationFailedError, match="0 bytes came where GSSAPI expects none"):
        server.respond(b"")
    assert server.is_complete


def test_the_environment_names_the_keytab_and_the_host_of_a_principal_is_left_out(realm: Realm) -> None:
    variables = realm.kdc.tickets_of("kafka/localhost", realm.service)
    with realm.kdc.in_environment({**variables, "KRB5_KTNAME": str(realm.service)}):
        server = server_mechanism("GSSAPI", KerberosService("kafka"))()
        authenticate(GssapiMechanism().exchange("localhost"), server)
    assert server.principal == "User:kafka"


def test_a_key_of_another_keytab_does_not_count(
    realm: Realm, alice: SaslClientExchange, server: GssapiServerExchange
) -> None:
    realm.kdc.add_principal("other/localhost")
    with pytest.raises(SaslAuthenticationFailedError, match=REFUSED + r".*other/localhost"):
        server.respond(GssapiMechanism("other").exchange("localhost").respond(b"") or b"")
    assert not server.principal


def test_a_ticket_is_taken_once(realm: Realm, alice: SaslClientExchange, server: GssapiServerExchange) -> None:
    ticket = alice.respond(b"") or b""
    server.respond(ticket)
    with pytest.raises(SaslAuthenticationFailedError, match=REFUSED + r".*replay"):
        KerberosService("kafka", str(realm.service)).exchange().respond(ticket)


@pytest.mark.parametrize("token", [b"", b"x", b"\x60" + bytes(100), b"x" * 600_000])
def test_bytes_that_are_not_a_ticket_are_refused_and_nothing_follows(
    server: GssapiServerExchange, token: bytes
) -> None:
    for each in (token, token, b""):
        with pytest.raises(SaslAuthenticationFailedError, match=REFUSED):
            server.respond(each)
    assert (server.is_complete, server.principal) == (False, "")


def test_a_ticket_that_was_changed_is_refused_at_once(alice: SaslClientExchange, server: GssapiServerExchange) -> None:
    ticket = alice.respond(b"") or b""
    with pytest.raises(SaslAuthenticationFailedError, match=REFUSED):
        server.respond(ticket[:-1] + bytes([ticket[-1] ^ 1]))


class Chooser:
    """A client of RFC 4752 that chooses freely."""

    def __init__(self, flags: list[str] | None = None) -> None:
        gssapi: Any = importlib.import_module("gssapi")
        self._context = gssapi.SecurityContext(
            name=gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service),
            mech=gssapi.MechType.kerberos,
            flags=[getattr(gssapi.RequirementFlag, flag) for flag in flags or ["mutual_authentication", "integrity"]],
            usage="initiate",
        )

    def offered_by(self, server: GssapiServerExchange) -> bytes:
        answer = server.respond(self._context.step())
        if not self._context.complete:
            self._context.step(answer)
            answer = server.respond(b"")
        return bytes(self._context.unwrap(answer).message)

    def chosen(self, message: bytes) -> bytes:
        return bytes(self._context.wrap(message, False).message)


def test_no_layer_is_offered_and_another_name_counts_nothing(server: GssapiServerExchange) -> None:
    client = Chooser()
    assert client.offered_by(server) == b"\1\0\0\0"
    assert server.respond(client.chosen(b"\1\0\0\0admin@ELSEWHERE")) == b""
    assert server.principal == "User:alice"


def test_a_client_without_mutual_authentication_gets_the_offer_at_once(server: GssapiServerExchange) -> None:
    client = Chooser(["integrity"])
    assert client.offered_by(server) == b"\1\0\0\0"
    assert server.respond(client.chosen(b"\1\0\0\0")) == b""
    assert server.is_complete


@pytest.mark.parametrize(
    ("choice", "words"), [(b"\4\0\0\0", "was not offered: use TLS"), (b"\1", "has 1 bytes, at least 4")]
)
def test_a_choice_that_was_not_offered_is_refused(server: GssapiServerExchange, choice: bytes, words: str) -> None:
    client = Chooser()
    client.offered_by(server)
    with pytest.raises(SaslAuthenticationFailedError, match=words):
        server.respond(client.chosen(choice))
    assert (server.is_complete, server.principal) == (False, "")


def test_a_choice_that_is_not_signed_is_refused(server: GssapiServerExchange) -> None:
    Chooser().offered_by(server)
    with pytest.raises(SaslAuthenticationFailedError, match=REFUSED):
        server.respond(b"\1\0\0\0")
    assert not server.principal


def test_a_client_that_talks_before_the_offer_is_refused(
    alice: SaslClientExchange, server: GssapiServerExchange
) -> None:
    server.respond(alice.respond(b"") or b"")
    with pytest.raises(SaslAuthenticationFailedError, match="3 bytes came where GSSAPI expects none"):
        server.respond(b"abc")


def test_a_keytab_without_the_key_is_refused_when_it_is_opened(realm: Realm, tmp_path: Path) -> None:
    with realm.kdc.in_environment(realm.kdc.environment):
        missing = tmp_path / "none.keytab"
        with pytest.raises(ConfigurationError, match=rf"sasl_kerberos_keytab='{missing}' gives no key .* not found"):
            KerberosService("kafka", str(missing))
        with pytest.raises(ConfigurationError, match=r"no key of the service 'kafka'.*kadmin's ktadd"):
            KerberosService("kafka", str(realm.alice))
        with (
            realm.kdc.in_environment({"KRB5_KTNAME": str(realm.alice)}),
            pytest.raises(ConfigurationError, match=r"KRB5_KTNAME='.*' gives no key"),
        ):
            KerberosService("kafka")


def test_without_a_realm_it_says_where_one_is_written(realm: Realm, tmp_path: Path) -> None:
    configuration = tmp_path / "krb5.conf"
    configuration.write_text("[libdefaults]\n dns_lookup_realm = false\n")
    with (
        realm.kdc.in_environment({"KRB5_CONFIG": str(configuration)}),
        pytest.raises(ConfigurationError, match=r"needs a realm: .*default_realm in krb5\.conf"),
    ):
        KerberosService("kafka", str(realm.service))


def test_without_the_library_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'aiokafkapy\[kerberos\]'"):
        KerberosService("kafka")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: SimpleNamespace())
    with pytest.raises(ConfigurationError, match="'kafka/localhost' is not the name of a service"):
        KerberosService("kafka/localhost")


def test_the_states_end_in_two() -> None:
    table = GSSAPI_SERVER_STATES
    assert [state.value for state in table.successors if table.is_final(state)] == ["complete", "failed"]
