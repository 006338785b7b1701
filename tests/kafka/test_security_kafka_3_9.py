"""Kafka 3.9, the oldest that is supported: TLS, every mechanism of SASL, rights and renewed sessions, on one node."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.errors import (
    SaslAuthenticationFailedError,
    SslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)
from aiokafkapy.testing import Acl, ApacheKafka, KafkaSecurity, KerberosSettings, Listener, TestCertificates
from aiokafkapy.testing.servers.kdc import Kdc
from tests.clusters import started
from tests.oracle import read_back
from tests.sessions import send_over_sessions

VERSION = "3.9.1"
"""``.ci/tests`` fetches this version, too."""

WITHOUT_KDC = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
WAYS = [("SSL", None), ("MTLS", None), *(("SASL_SSL", mechanism) for mechanism in (*WITHOUT_KDC, "GSSAPI"))]


LONGER_SESSION_MS = 3_000
"""Three late renewals of four are too many: these sessions leave each 150 ms at least, beside tests that start JVMs."""


@pytest.fixture(scope="module")
def kafka_3_9(kdc_if_any: Kdc | None) -> Iterator[ApacheKafka]:
    """``alice``, by password, token or ticket, and ``CN=client`` may write where a rule says so."""
    mechanisms, service = list(WITHOUT_KDC), None
    if kdc_if_any is not None:
        principal = f"kafka/localhost@{kdc_if_any.realm}"
        service = KerberosSettings(kdc_if_any.configuration, kdc_if_any.add_principal("kafka/localhost"), principal)
        mechanisms.append("GSSAPI")
    with TestCertificates() as certificates:
        security = KafkaSecurity(
            {
                "SSL": Listener("SSL"),
                "MTLS": Listener("SSL", client_auth="required"),
                "SASL_SSL": Listener("SASL_SSL", mechanisms, max_reauth_ms=LONGER_SESSION_MS),
            },
            certificates=certificates,
            users={"alice": "wonder\\land = 1", "bob": "pässword"},
            authorizer=True,
            gssapi=service,
        )
        with started(ApacheKafka(version=VERSION, security=security)) as kafka:
            yield kafka


def _producer(kafka: ApacheKafka, listener: str, mechanism: str | None = None, **options: Any) -> KafkaProducer:
    security = kafka.security
    assert security is not None
    assert security.certificates is not None
    certificate = security.certificates.client_file if listener == "MTLS" else None
    user = "alice" if mechanism in WITHOUT_KDC[:3] else None
    made = security.client_options(listener, user=user, mechanism=mechanism, certificate=certificate)
    if mechanism == "OAUTHBEARER":

        async def token() -> str:
            return KafkaSecurity.unsecured_token("alice", lifetime=300)

        made["sasl_oauthbearer_token_provider"] = token
    return KafkaProducer(kafka.bootstrap_servers_of(listener), **{**made, **options})


async def _values(kafka: ApacheKafka, topic: str) -> list[bytes | None]:
    (records,) = (await read_back(kafka.bootstrap_servers, topic)).values()
    return [record.value for record in records]


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
async def test_a_client_that_is_let_in_writes_in_order_once_a_rule_allows_it(
    listener: str, mechanism: str | None, kafka_3_9: ApacheKafka, topic: str, request: pytest.FixtureRequest
) -> None:
    if mechanism == "GSSAPI":
        request.getfixturevalue("ticket")
    await kafka_3_9.create_topic(topic)
    principal = {"SSL": "User:ANONYMOUS", "MTLS": "User:CN=client"}.get(listener, "User:alice")
    values = [b"%d" % number for number in range(500)]
    async with _producer(kafka_3_9, listener, mechanism) as producer:
        if principal != "User:ANONYMOUS":  # which is the brokers' own name here
            with pytest.raises(TopicAuthorizationFailedError, match=topic):
                await producer.send(topic, b"too soon")
            await kafka_3_9.add_acls(Acl(principal, "WRITE", topic=topic))
        results = await asyncio.gather(*(producer.send(topic, value) for value in values))
    assert [result.offset for result in results] == list(range(500))
    assert await _values(kafka_3_9, topic) == values


@pytest.mark.parametrize(
    ("listener", "mechanism", "changes", "error"),
    [
        ("MTLS", None, {"ssl_keystore_location": None}, SslAuthenticationFailedError),
        *(
            ("SASL_SSL", mechanism, {"sasl_password": "guessed"}, SaslAuthenticationFailedError)
            for mechanism in WITHOUT_KDC[:3]
        ),
    ],
)
async def test_a_client_that_does_not_get_in_is_told_so(
    listener: str, mechanism: str | None, changes: dict[str, Any], error: type[Exception], kafka_3_9: ApacheKafka
) -> None:
    producer = _producer(kafka_3_9, listener, mechanism, **changes)
    with pytest.raises(error):
        await producer.start()
    await producer.close()


async def test_sessions_of_every_mechanism_are_renewed_under_load(
    kafka_3_9: ApacheKafka, topic: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    """Four sessions of each are enough; the minute is tested on 4.x."""
    assert kafka_3_9.security is not None
    mechanisms = kafka_3_9.security.listeners["SASL_SSL"].mechanisms
    if "GSSAPI" in mechanisms:
        request.getfixturevalue("ticket")
    for mechanism in mechanisms:
        await kafka_3_9.create_topic(f"{topic}-{mechanism}")
    await kafka_3_9.add_acls(Acl("User:alice", "WRITE", topic=topic, prefixed=True))
    async with asyncio.TaskGroup() as group:
        sending = {
            mechanism: group.create_task(
                send_over_sessions(
                    functools.partial(_producer, kafka_3_9, "SASL_SSL", mechanism),
                    f"{topic}-{mechanism}",
                    4 * LONGER_SESSION_MS / 1000,
                    LONGER_SESSION_MS,
                )
            )
            for mechanism in mechanisms
        }
    for mechanism, sent in sending.items():
        assert await _values(kafka_3_9, f"{topic}-{mechanism}") == sent.result()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
