"""Our own client on a real Kafka with TLS and SASL: it gets in each way, says why where it does not, and stays in."""

from __future__ import annotations

import asyncio
import functools
import time
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    SslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from aiokafkapy.testing import ApacheKafka, KafkaSecurity, TestCertificates
from tests.oracle import read_back
from tests.sessions import send_over_sessions

WAYS = [
    ("SSL", None, None),
    ("MTLS", None, None),
    *(
        (listener, mechanism, user)
        for listener in ("SASL_PLAINTEXT", "SASL_SSL")
        for mechanism, user in (
            ("PLAIN", "alice"),
            ("SCRAM-SHA-256", "alice"),
            ("SCRAM-SHA-512", "alice"),
            ("OAUTHBEARER", "carol"),
        )
    ),
]


def _producer(
    kafka: ApacheKafka, listener: str, mechanism: str | None = None, user: str | None = None, **options: Any
) -> KafkaProducer:
    """A producer that gets in, unless ``options`` keep it out."""
    security = kafka.security
    assert security is not None
    assert security.certificates is not None
    certificate = security.certificates.client_file if listener == "MTLS" else None
    known = user if user in security.users else None
    made = security.client_options(listener, user=known, mechanism=mechanism, certificate=certificate)
    if mechanism == "OAUTHBEARER":

        async def token() -> str:
            return KafkaSecurity.unsecured_token(str(user), lifetime=300)

        made["sasl_oauthbearer_token_provider"] = token
    return KafkaProducer(kafka.bootstrap_servers_of(listener), **{**made, **options})


async def _values(kafka: ApacheKafka, topic: str) -> list[bytes | None]:
    (records,) = (await read_back(kafka.bootstrap_servers, topic)).values()
    return [record.value for record in records]


@pytest.mark.parametrize(("listener", "mechanism", "user"), WAYS)
async def test_a_thousand_records_arrive_in_order(
    listener: str, mechanism: str | None, user: str | None, secure_kafka: ApacheKafka, topic: str
) -> None:
    await secure_kafka.create_topic(topic)
    values = [b"%d" % number for number in range(1000)]
    async with _producer(secure_kafka, listener, mechanism, user) as producer:
        results = await asyncio.gather(*(producer.send(topic, value) for value in values))
    assert [result.offset for result in results] == list(range(1000))
    assert await _values(secure_kafka, topic) == values


ALICE = {"mechanism": "SCRAM-SHA-256", "user": "alice"}
NO_SASL = {"sasl_mechanism": None, "sasl_username": None, "sasl_password": None}
REFUSALS: dict[str, tuple[dict[str, Any], type[AuthenticationFailedError], str]] = {
    "unknown CA": (
        {"listener": "SSL", "ssl_truststore_location": "other-ca.pem"},
        SslAuthenticationFailedError,
        "of a CA that is not trusted here: write that CA's certificate as ssl_truststore_location",
    ),
    "wrong host": (
        {"listener": "ELSEWHERE"},
        SslAuthenticationFailedError,
        "the certificate is not for 'localhost': use a name that it has",
    ),
    "expired": ({"listener": "EXPIRED"}, SslAuthenticationFailedError, "the certificate has expired"),
    "no certificate of ours": (
        {"listener": "MTLS", "ssl_keystore_location": None},
        SslAuthenticationFailedError,
        "refused our certificate: there was none, or it is not right; write ssl_keystore_location",
    ),
    "no certificate of ours, TLS 1.2": (
        {"listener": "MTLS", "ssl_keystore_location": None, "ssl_enabled_protocols": ["TLSv1.2"]},
        SslAuthenticationFailedError,
        "refused our certificate: there was none, or it is not right; write ssl_keystore_location",
    ),
    "ours has expired": (
        {"listener": "MTLS", "ssl_keystore_location": "expired-client.pem"},
        SslAuthenticationFailedError,
        "refused our certificate: it has expired or is not of a CA that the broker trusts",
    ),
    "ours is of another CA": (
        {"listener": "MTLS", "ssl_keystore_location": "other-client.pem"},
        SslAuthenticationFailedError,
        "refused our certificate: it has expired or is not of a CA that the broker trusts",
    ),
    "plaintext to TLS": (
        {"listener": "SSL", "security_protocol": "PLAINTEXT", "ssl_truststore_location": None},
        SslAuthenticationFailedError,
        "speaks TLS: write security_protocol='SSL'",
    ),
    "TLS to plaintext": (
        {"listener": "SASL_PLAINTEXT", "security_protocol": "SSL", "ssl_truststore_location": "ca.pem", **NO_SASL},
        SslAuthenticationFailedError,
        "the other side does not speak TLS: write the port of a TLS listener, or security_protocol='PLAINTEXT'",
    ),
    "no credentials": (
        {"listener": "SASL_PLAINTEXT", "security_protocol": "PLAINTEXT", **NO_SASL},
        SaslAuthenticationFailedError,
        "wants credentials: write security_protocol='SASL_PLAINTEXT' and a sasl_mechanism that it has: ",
    ),
    "no credentials, with TLS": (
        {"listener": "SASL_SSL", "security_protocol": "SSL", **NO_SASL},
        SaslAuthenticationFailedError,
        "wants credentials: write security_protocol='SASL_SSL' and a sasl_mechanism that it has: ",
    ),
    "credentials, and none are wanted": (
        {
            "listener": "SSL",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "alice",
            "sasl_password": "guessed",
        },
        IllegalSaslStateError,
        "has no SASL: write security_protocol='PLAINTEXT', or 'SSL'",
    ),
    "wrong password, PLAIN": (
        {"listener": "SASL_PLAINTEXT", "mechanism": "PLAIN", "user": "alice", "sasl_password": "guessed"},
        SaslAuthenticationFailedError,
        "refused the credentials (PLAIN): Authentication failed: Invalid username or password",
    ),
    "wrong password, SCRAM": (
        {"listener": "SASL_SSL", **ALICE, "sasl_password": "guessed"},
        SaslAuthenticationFailedError,
        "refused the credentials (SCRAM-SHA-256): ",
    ),
    "a mechanism that is not there": (
        {"listener": "MECHANISM", **ALICE},
        UnsupportedSaslMechanismError,
        "does not have sasl_mechanism='SCRAM-SHA-256'; it has: PLAIN",
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_client_that_does_not_get_in_is_told_why_at_once(
    refusal: str, secure_kafka: ApacheKafka, certificates: TestCertificates
) -> None:
    options, kind, words = REFUSALS[refusal]
    options = dict(options)
    certificates.client(file="expired-client.pem", expired=True)
    certificates.client(file="other-client.pem", by_other_ca=True)
    for name in ("ssl_truststore_location", "ssl_keystore_location"):
        if options.get(name) is not None:
            options[name] = str(certificates.directory / options[name])
    producer = _producer(secure_kafka, **options)
    started = time.monotonic()
    with pytest.raises(kind) as caught:
        await producer.start()
    # A Kafka broker keeps a refused password to itself for 100 ms; max_block_ms is a minute.
    assert time.monotonic() - started < 10
    assert words in str(caught.value)
    assert "guessed" not in repr(caught.value)
    assert not caught.value.retriable
    await producer.close()


async def test_certificates_are_replaced_under_load_on_both_ends(
    secure_kafka: ApacheKafka, certificates: TestCertificates, topic: str
) -> None:
    """One producer that connects anew all the time, since it is idle for too long, and new producers."""
    await secure_kafka.create_topic(topic)
    is_over = asyncio.Event()
    sent = 0

    async def load() -> None:
        nonlocal sent
        async with _producer(secure_kafka, "MTLS", connections_max_idle_ms=50) as producer:
            while not is_over.is_set():
                await asyncio.gather(*(producer.send(topic, b"load") for _ in range(10)))
                sent += 10
                await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as group:
        group.create_task(load())
        for _ in range(3):
            certificates.renew(certificates.client_file)
            certificates.renew(certificates.server_file)
            await secure_kafka.reload_certificates()
            async with _producer(secure_kafka, "MTLS") as producer:
                await producer.send(topic, b"new")
                sent += 1
        is_over.set()
    assert len(await _values(secure_kafka, topic)) == sent > 30


async def test_sessions_of_little_over_a_second_are_renewed_for_a_minute_under_five_in_flight(
    secure_kafka: ApacheKafka, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    ways = {"PLAIN": "alice", "SCRAM-SHA-256": "alice", "SCRAM-SHA-512": "alice", "OAUTHBEARER": "carol"}
    sending = {}
    async with asyncio.TaskGroup() as group:
        for mechanism, user in ways.items():
            await secure_kafka.create_topic(f"{topic}-{mechanism}")
            producer = functools.partial(_producer, secure_kafka, "BRIEF", mechanism, user)
            sending[mechanism] = group.create_task(send_over_sessions(producer, f"{topic}-{mechanism}", 60))
    for mechanism, sent in sending.items():
        assert await _values(secure_kafka, f"{topic}-{mechanism}") == sent.result()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
