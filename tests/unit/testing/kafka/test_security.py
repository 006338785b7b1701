"""The settings that secure a real Kafka, as text; tests/kafka shows that one runs with them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from aiokafkapy.testing import KafkaSecurity, KerberosSettings, Listener, TestCertificates

USERS = {"alice": "wonder\\land"}
KERBEROS = KerberosSettings("/kdc/krb5.conf", "/kdc/kafka.keytab", "kafka/localhost@EXAMPLE.COM")


@pytest.fixture
def certificates() -> Iterator[TestCertificates]:
    with TestCertificates() as made:
        yield made


def test_the_listeners_of_a_broker_are_its_properties(certificates: TestCertificates) -> None:
    expired = certificates.server(file="expired.pem", expired=True)
    security = KafkaSecurity(
        {
            "MTLS": Listener("SSL", client_auth="required", host="kafka.example", server_file=expired),
            "BRIEF": Listener(
                "SASL_PLAINTEXT", ["PLAIN"], max_reauth_ms=1000, config={"sasl.server.max.receive.size": 99}
            ),
        },
        certificates=certificates,
        users=USERS,
        authorizer=True,
        super_users=["User:alice"],
    )
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    assert security.server_properties({"MTLS": 9093, "BRIEF": 9094}, "127.0.0.1") == {
        "listeners": "MTLS://127.0.0.1:9093,BRIEF://127.0.0.1:9094",
        "advertised.listeners": "MTLS://kafka.example:9093,BRIEF://localhost:9094",
        "listener.security.protocol.map": "MTLS:SSL,BRIEF:SASL_PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.keystore.type": "PEM",
        "listener.name.mtls.ssl.keystore.location": str(expired),
        "listener.name.mtls.ssl.truststore.type": "PEM",
        "listener.name.mtls.ssl.truststore.location": str(certificates.ca_file),
        "listener.name.brief.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.brief.connections.max.reauth.ms": "1000",
        "listener.name.brief.sasl.server.max.receive.size": "99",
        "listener.name.brief.plain.sasl.jaas.config": f'{plain} required user_alice="wonder\\\\land";',
    }
    assert security.format_options() == []
    assert security.jvm_options() == []


def test_users_of_scram_are_there_from_the_start() -> None:
    security = KafkaSecurity(["SASL_PLAINTEXT"], users=USERS)
    assert security.listeners["SASL_PLAINTEXT"].mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    user = '[name="alice",password="wonder\\land"]'
    assert security.format_options() == [
        "--add-scram",
        f"SCRAM-SHA-256={user}",
        "--add-scram",
        f"SCRAM-SHA-512={user}",
    ]


def test_kerberos_is_the_kdcs_files() -> None:
    security = KafkaSecurity({"K": Listener("SASL_PLAINTEXT", ["GSSAPI"])}, gssapi=KERBEROS)
    properties = security.server_properties({"K": 1}, "127.0.0.1")
    assert properties["listener.name.k.sasl.kerberos.service.name"] == "kafka"
    assert properties["listener.name.k.gssapi.sasl.jaas.config"] == (
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab="true" storeKey="true" '
        'keyTab="/kdc/kafka.keytab" principal="kafka/localhost@EXAMPLE.COM";'
    )
    assert security.jvm_options() == ["-Djava.security.krb5.conf=/kdc/krb5.conf"]
    assert security.client_options("K") == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }


def test_a_client_is_told_how_to_get_in(certificates: TestCertificates) -> None:
    security = KafkaSecurity(["SSL", "SASL_SSL"], certificates=certificates, users={"alice": "say no"})
    ca = str(certificates.ca_file)
    assert security.client_options("SSL", certificate=certificates.client_file) == {
        "security_protocol": "SSL",
        "ssl_truststore_location": ca,
        "ssl_keystore_location": str(certificates.client_file),
    }
    assert security.client_options("SASL_SSL", user="alice", mechanism="SCRAM-SHA-512") == {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": ca,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "alice",
        "sasl_password": "say no",
    }
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    assert security.client_properties("SASL_SSL", user="alice", mechanism="SCRAM-SHA-512") == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": ca,
        "ssl.truststore.type": "PEM",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{scram} required username="alice" password="say no";',
    }


def test_an_unsecured_token_has_no_signature() -> None:
    header, payload, signature = KafkaSecurity.unsecured_token("alice", lifetime=60, scope="kafka").split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert (claims["sub"], claims["scope"]) == ("alice", "kafka")
    assert claims["exp"] - claims["iat"] == 60
    assert abs(claims["iat"] - time.time()) < 60
    assert signature == ""


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("TLS",), "protocol='TLS' is unknown: write PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        (("SASL_SSL", "PLAIN"), r"mechanisms='PLAIN' is a string: write \['PLAIN'\]"),
        (("SASL_SSL", ["SCRAM"]), "mechanism 'SCRAM' is unknown: write some of PLAIN"),
        (("SSL", ["PLAIN"]), "a listener of SSL has no mechanisms: write SASL_PLAINTEXT or SASL_SSL"),
        (
            ("SASL_PLAINTEXT", ["PLAIN"], "required"),
            "client_auth is for TLS: write SSL or SASL_SSL instead of SASL_PLAI",
        ),
        (("SSL", [], "yes"), "client_auth='yes' is unknown: write none, requested or required"),
        (
            ("SSL", [], "none", "localhost", None, 5),
            "max_reauth_ms=5 on SSL: write milliseconds, of a listener with SA",
        ),
    ],
)
def test_an_invalid_listener_is_refused(settings: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Listener(*settings)


@pytest.mark.parametrize(
    ("listeners", "settings", "words"),
    [
        ([], {}, r"listeners is empty: write some, such as \['SSL'\]"),
        (["PLAINTEXT"], {}, "a listener is called 'PLAINTEXT', which every broker has for itself"),
        ({"ssl": Listener("SSL")}, {}, "a listener is called 'ssl': write capitals"),
        (["SSL"], {}, r"listener SSL speaks TLS: write certificates=TestCertificates\(\)"),
        (["SASL_PLAINTEXT"], {}, "listener SASL_PLAINTEXT has PLAIN: write users="),
        ({"K": Listener("SASL_PLAINTEXT", ["GSSAPI"])}, {}, "listener K has GSSAPI: write gssapi=KerberosSettings"),
        (["SASL_PLAINTEXT"], {"users": {"a": "b,c"}}, "user 'a': name and password need a character, but no comma"),
        (["SASL_PLAINTEXT"], {"users": {"a=b": "c"}}, "user 'a=b': PLAIN's file of users takes letters"),
        (["SASL_PLAINTEXT"], {"users": USERS, "super_users": ["User:a"]}, "super_users mean nothing without an auth"),
        (["SASL_PLAINTEXT"], {"users": USERS, "super_users": ["a"], "authorizer": True}, "'a': write 'User:a'"),
    ],
)
def test_settings_that_a_broker_would_die_of_are_refused(listeners: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KafkaSecurity(listeners, **settings)


def test_a_principal_of_kerberos_has_three_parts() -> None:
    with pytest.raises(ValueError, match="principal='kafka': write service/host@REALM"):
        KerberosSettings("c", "k", "kafka")
