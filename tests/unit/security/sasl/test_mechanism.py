"""The mechanism that follows from the settings, and the errors for settings that contradict it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import SecretStr

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.security.sasl.mechanism import SaslMechanism, check_settings, mechanism_for
from aiokafkapy.security.sasl.options import SaslOptions
from aiokafkapy.security.sasl.plain import PlainCredentialStore
from aiokafkapy.security.sasl.scram_credential import ScramCredential, ScramCredentialStore
from aiokafkapy.security.sasl.secret import Secret
from aiokafkapy.security.sasl.server import server_mechanism

from .exchanges import authenticate, everything_shown_of

ALICE: dict[str, Any] = {"sasl_username": "alice", "sasl_password": "hunter2"}


@pytest.mark.parametrize("name", ["PLAIN", "plain", "SCRAM-SHA-256", "SCRAM-SHA-512", "scram-sha-512"])
@pytest.mark.parametrize("password", ["hunter2", Secret("hunter2"), SecretStr("hunter2")])
def test_a_name_and_a_password_are_a_mechanism(name: str, password: Any) -> None:
    settings = SaslOptions(sasl_mechanism=name, sasl_username="alice", sasl_password=password)
    check_settings(settings)
    mechanism = mechanism_for(settings)
    assert mechanism.name == name.upper()
    users: PlainCredentialStore | ScramCredentialStore
    if name.upper() == "PLAIN":
        users = PlainCredentialStore({"alice": "hunter2"})
    else:
        users = ScramCredentialStore({"alice": ScramCredential.from_password(name.upper(), "hunter2")})
    server = server_mechanism(name.upper(), users)()
    authenticate(mechanism.exchange("host"), server)
    assert server.principal == "User:alice"


@pytest.mark.parametrize(
    ("name", "module", "more"),
    [
        ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule", ""),
        ("SCRAM-SHA-256", "kafkashaded.org.apache.kafka.common.security.scram.ScramLoginModule", ""),
        ("SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule", " tokenauth=true"),
    ],
)
def test_javas_string_has_name_and_password(name: str, module: str, more: str) -> None:
    jaas = f'{module} required username="alice" password="hunter2"{more};'
    first = mechanism_for(SaslOptions(sasl_mechanism=name, sasl_jaas_config=jaas)).exchange("host").respond(b"") or b""
    assert first.startswith(b"\0alice\0hunter2" if name == "PLAIN" else b"n,,n=alice,r=")
    assert first.endswith(b",tokenauth=true") == bool(more)


KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
IAM = "software.amazon.msk.auth.iam.IAMLoginModule required;"
PLAIN = 'a.PlainLoginModule required username="alice" password="hunter2";'


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": PLAIN},
            "has a PlainLoginModule, .* a ScramLoginModule",
        ),
        ({"sasl_mechanism": "GSSAPI", "sasl_jaas_config": PLAIN}, "has a PlainLoginModule, .* a Krb5LoginModule"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN, **ALICE}, "contradict: write one of them"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": "a.PlainLoginModule required;"}, "sasl_username is missing"),
        ({"sasl_mechanism": "GSSAPI", "sasl_jaas_config": KERBEROS}, "run kinit, or set KRB5_CLIENT_KTNAME"),
        ({"sasl_mechanism": "AWS_MSK_IAM", "sasl_jaas_config": IAM}, "write sasl_mechanism='AWS_MSK_IAM'"),
    ],
)
def test_a_string_of_another_mechanism_is_an_error(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        check_settings(SaslOptions(**settings))
    assert "hunter2" not in everything_shown_of(caught.value)


def test_settings_need_only_the_attributes_of_the_mechanisms_they_offer() -> None:
    settings = cast(Any, SimpleNamespace(sasl_mechanism="PLAIN", **ALICE))
    assert mechanism_for(settings).name == "PLAIN"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "sasl_mechanism is missing: write one of 'PLAIN', 'SCRAM-SHA-256'"),
        ({"sasl_mechanism": "DIGEST-MD5"}, "sasl_mechanism='DIGEST-MD5' is unknown: write one of 'PLAIN'"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_username is missing, which sasl_mechanism='PLAIN' needs"),
        ({"sasl_mechanism": "PLAIN", "sasl_username": "alice"}, "sasl_password is missing, .* write it"),
        ({"sasl_mechanism": "PLAIN", **ALICE, "sasl_username": ""}, "sasl_username is missing"),
        ({"sasl_mechanism": "PLAIN", **ALICE, "sasl_password": "hunter2\0"}, "sasl_password has a NUL"),
        ({"sasl_mechanism": "SCRAM-SHA-256", **ALICE, "sasl_password": "hunter2\ud800"}, "lone surrogate"),
        ({"sasl_mechanism": object()}, "a object, which lacks name, blocks, prepare, exchange, close: write a name"),
    ],
)
def test_settings_without_an_effect_are_refused_with_the_remedy(settings: dict[str, Any], words: str) -> None:
    for check in (check_settings, mechanism_for):
        with pytest.raises(ConfigurationError, match=words) as caught:
            check(SaslOptions(**settings))
        assert "hunter2" not in everything_shown_of(caught.value)


class Own:
    """A mechanism of a user's own."""

    name = "OWN"
    blocks = False
    closed = 0

    async def prepare(self) -> None:
        """Nothing to get."""

    def exchange(self, host: str) -> Any:
        """None is needed here."""

    def close(self) -> None:
        """Counted: a check of settings must not close objects that it did not make."""
        self.closed += 1


def test_an_object_is_the_mechanism_itself() -> None:
    own = Own()
    check_settings(SaslOptions(sasl_mechanism=own))
    assert mechanism_for(SaslOptions(sasl_mechanism=own)) is own
    assert isinstance(own, SaslMechanism)
    assert own.closed == 0
    with pytest.raises(ConfigurationError, match="the class Own, which is not an object yet"):
        check_settings(SaslOptions(sasl_mechanism=Own))


def test_no_secret_of_the_options_is_shown() -> None:
    options = SaslOptions.of(SaslOptions(sasl_mechanism="PLAIN", **ALICE, sasl_jaas_config="hunter2"))
    assert "hunter2" not in repr(options)
    assert "alice" in repr(options)
