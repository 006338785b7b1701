"""The check-up of a real Kafka: its guess of the version, TLS, credentials, rights, and the wrong language."""

from __future__ import annotations

from typing import Any

from aiokafkapy.admin import Doctor, Finding, Verdict
from aiokafkapy.client.config import ClientConfig
from aiokafkapy.testing import ApacheKafka, KafkaSecurity, TestCertificates


async def examine(servers: str, topic: str | None = None, **options: Any) -> list[Finding]:
    return await Doctor(ClientConfig(bootstrap_servers=servers, **options), topic=topic).examine(60)


def failed(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(one.check, f"{one.text} {one.advice}") for one in findings if one.verdict is Verdict.FAILED]


def facts(findings: list[Finding], check: str) -> dict[str, Any]:
    return dict(next(one for one in findings if one.check == check).facts)


async def test_a_real_broker_is_known_for_its_release(kafka: ApacheKafka, topic: str) -> None:
    await kafka.create_topic(topic)
    findings = await examine(kafka.bootstrap_servers, topic)
    assert failed(findings) == []
    assert facts(findings, "versions")["likely_version"].startswith(f"Kafka {'.'.join(kafka.version.split('.')[:2])}")
    assert facts(findings, "versions")["finalized_features"]["metadata.version"] > 0
    assert facts(findings, "acl") == {"may_write": True}


async def test_a_secured_broker_is_described_with_certificate_mechanism_and_rights(
    secure_kafka: ApacheKafka, security: KafkaSecurity, topic: str
) -> None:
    await secure_kafka.create_topic(topic)
    servers = secure_kafka.bootstrap_servers_of("SASL_SSL")
    options = security.client_options("SASL_SSL", user="alice", mechanism="SCRAM-SHA-512")
    findings = await examine(servers, topic, **options)
    assert failed(findings) == []
    assert facts(findings, "sasl") == {"mechanism": "SCRAM-SHA-512"}
    assert facts(findings, "tls")["version"].startswith("TLSv1")
    findings = await examine(servers, topic, **options | {"sasl_password": "guessed"})
    ((check, text),) = failed(findings)
    assert (check, "refused the credentials" in text) == ("sasl", True)
    bob = security.client_options("SASL_SSL", user="bob", mechanism="SCRAM-SHA-512")
    ((check, text),) = failed(await examine(servers, topic, **bob))
    assert (check, "kafka-acls --add" in text) == ("topic", True)


async def test_a_listener_that_speaks_the_other_language_is_recognized(
    kafka: ApacheKafka, secure_kafka: ApacheKafka, certificates: TestCertificates
) -> None:
    ((check, text),) = failed(await examine(secure_kafka.bootstrap_servers_of("SSL")))
    assert (check, "speaks TLS: write security_protocol='SSL'" in text) == ("tls", True)
    options = certificates.client_options()
    ((check, text),) = failed(await examine(kafka.bootstrap_servers, **options))
    assert (check, "security_protocol='PLAINTEXT'" in text) == ("tls", True)
    ((check, text),) = failed(await examine(secure_kafka.bootstrap_servers_of("SASL_PLAINTEXT")))
    assert (check, "wants credentials" in text) == ("sasl", True)
