"""GSSAPI against a real KDC, with the library's own server half for a broker; skipped loudly where there is none."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError, KafkaConnectionError, SaslAuthenticationFailedError
from aiokafkapy.security.sasl.gssapi import GSSAPI_CLIENT_STATES, GssapiClientExchange, GssapiMechanism
from aiokafkapy.security.sasl.mechanism import mechanism_for
from aiokafkapy.security.sasl.options import SaslOptions
from aiokafkapy.testing.servers.kdc import Kdc, KdcError
from tests.realms import Realm, opened_realm, require_kerberos


@pytest.fixture(scope="module")
def realm() -> Iterator[Realm]:
    with opened_realm() as realm:
        yield realm


class Broker:
    """A server of RFC 4752 over the library's own accepting half."""

    def __init__(self, keytab: Path, layers: int = 1) -> None:
        self._gssapi: Any = importlib.import_module("gssapi")
        credentials = self._gssapi.Credentials(usage="accept", store={"keytab": str(keytab)})
        self._context = self._gssapi.SecurityContext(creds=credentials, usage="accept")
        self._layers = layers
        self._has_offered = False
        self.principal = ""
        self.chosen = b""

    def respond(self, response: bytes) -> bytes:
        if not self._context.complete:
            token = self._context.step(response)
            if token:
                return bytes(token)
        if not self._has_offered:
            self._has_offered = True
            return bytes(self._context.wrap(bytes((self._layers, 0, 16, 0)), False).message)
        self.chosen = self._context.unwrap(response).message
        self.principal = str(self._context.initiator_name)
        return b""


def _authenticate(client: GssapiClientExchange, broker: Broker) -> None:
    response = client.respond(b"")
    while response is not None:
        response = client.respond(broker.respond(response))


def test_a_ticket_names_the_client_s_principal(realm: Realm) -> None:
    tickets = realm.kdc.tickets_of("alice", realm.alice)
    broker = Broker(realm.service)
    with realm.kdc.in_environment(tickets):
        client = GssapiMechanism().exchange("localhost")
        _authenticate(client, broker)
    assert client.is_complete
    assert broker.principal == f"alice@{realm.kdc.realm}"
    assert broker.chosen == b"\1\0\0\0", "no security layer, no buffer and no other name"


def test_a_keytab_needs_no_kinit(realm: Realm) -> None:
    variables = {**realm.kdc.environment, "KRB5_CLIENT_KTNAME": str(realm.alice), "KRB5CCNAME": "MEMORY:keytab"}
    broker = Broker(realm.service)
    with realm.kdc.in_environment(variables):
        client = GssapiMechanism().exchange("localhost")
        _authenticate(client, broker)
    assert broker.principal == f"alice@{realm.kdc.realm}"


def test_without_tickets_it_names_the_remedy(realm: Realm) -> None:
    with realm.kdc.in_environment({**realm.kdc.environment, "KRB5_CLIENT_KTNAME": "/nonexistent"}):
        client = GssapiMechanism().exchange("localhost")
        with pytest.raises(SaslAuthenticationFailedError, match=r"^Kerberos for kafka@localhost: .*\(kinit makes"):
            client.respond(b"")
        with pytest.raises(SaslAuthenticationFailedError):
            client.respond(b"")


def test_a_service_that_the_kdc_does_not_know_is_named(realm: Realm) -> None:
    with realm.kdc.in_environment(realm.kdc.tickets_of("alice", realm.alice)):
        client = GssapiMechanism("other").exchange("localhost")
        with pytest.raises(SaslAuthenticationFailedError, match=r"Kerberos for other@localhost: .*not found in"):
            client.respond(b"")


def test_a_kdc_that_is_down_may_come_back(realm: Realm) -> None:
    with Kdc() as other:
        other.add_principal("kafka/localhost")
        tickets = other.tickets_of("alice", other.add_principal("alice"))
        kept = {name: Path(value.removeprefix("FILE:")).read_bytes() for name, value in tickets.items()}
    directory = Path(tickets["KRB5_CONFIG"]).parent
    assert not directory.exists(), "a KDC leaves nothing behind"
    directory.mkdir()
    try:
        for name, value in tickets.items():
            Path(value.removeprefix("FILE:")).write_bytes(kept[name])
        with realm.kdc.in_environment(tickets), pytest.raises(KafkaConnectionError) as caught:
            GssapiMechanism().exchange("localhost").respond(b"")
        assert caught.value.retriable
    finally:
        for value in tickets.values():
            Path(value.removeprefix("FILE:")).unlink()
        directory.rmdir()


@pytest.mark.parametrize("token", [b"", b"x", b"\x60" + bytes(100), b"x" * 600_000])
def test_an_invalid_answer_of_the_broker_is_refused(realm: Realm, token: bytes) -> None:
    with realm.kdc.in_environment(realm.kdc.tickets_of("alice", realm.alice)):
        client = GssapiMechanism().exchange("localhost")
        assert client.respond(b"")
        with pytest.raises(SaslAuthenticationFailedError):
            client.respond(token)
        with pytest.raises(SaslAuthenticationFailedError):
            client.respond(token)
    assert not client.is_complete


def test_a_broker_that_wants_a_layer_of_its_own_is_refused(realm: Realm) -> None:
    with realm.kdc.in_environment(realm.kdc.tickets_of("alice", realm.alice)):
        client = GssapiMechanism().exchange("localhost")
        with pytest.raises(SaslAuthenticationFailedError, match=r"requires a GSSAPI security layer, .*: use TLS"):
            _authenticate(client, Broker(realm.service, layers=6))
    assert not client.is_complete


def test_the_first_step_takes_nothing() -> None:
    require_kerberos()
    with pytest.raises(SaslAuthenticationFailedError, match="4 bytes before the first of GSSAPI"):
        GssapiMechanism().exchange("localhost").respond(b"what")


def test_the_service_is_kafka_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: SimpleNamespace())
    default = mechanism_for(SaslOptions(sasl_mechanism="GSSAPI"))
    named = mechanism_for(SaslOptions(sasl_mechanism="GSSAPI", sasl_kerberos_service_name="bank"))
    assert (default.name, default.blocks) == ("GSSAPI", True)
    assert vars(default.exchange("broker"))["_target"] == "kafka@broker"
    assert vars(named.exchange("broker"))["_target"] == "bank@broker"


@pytest.mark.parametrize("service", ["kafka/host", "kafka@HOST"])
def test_a_principal_is_not_a_service_name(service: str) -> None:
    with pytest.raises(ConfigurationError, match=f"_service_name='{service}' is not the name of a service"):
        GssapiMechanism(service)


def test_without_the_library_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'aiokafkapy\[kerberos\]'"):
        mechanism_for(SaslOptions(sasl_mechanism="GSSAPI"))


def test_the_output_of_kerberos_programs_is_in_the_error(realm: Realm) -> None:
    with pytest.raises(KdcError, match=r"kinit -k: .*nobody"):
        realm.kdc.tickets_of("nobody", realm.alice)


def test_the_states_end_in_two() -> None:
    table = GSSAPI_CLIENT_STATES
    assert [state.value for state in table.successors if table.is_final(state)] == ["complete", "failed"]
