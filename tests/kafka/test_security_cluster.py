"""``ApacheKafka(security=…)``: other people's clients get in by each way, and no others do."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.helpers
import confluent_kafka
import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.security.tls import TlsContexts, check_settings
from aiokafkapy.testing import Acl, ApacheKafka, KafkaSecurity, TestCertificates
from tests.oracle import read_back
from tests.unit.security.handshakes import Options

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"

WAYS = [
    ("SSL", None, None),
    ("MTLS", None, None),
    ("SASL_PLAINTEXT", "PLAIN", "alice"),
    ("SASL_SSL", "PLAIN", "alice"),
    ("SASL_SSL", "SCRAM-SHA-256", "alice"),
    ("SASL_SSL", "SCRAM-SHA-512", "alice"),
    ("SASL_SSL", "OAUTHBEARER", "carol"),
]


def _librdkafka(
    kafka: ApacheKafka, listener: str, mechanism: str | None, user: str | None, password: str | None = None
) -> dict[str, Any]:
    security = kafka.security
    assert security is not None
    assert security.certificates is not None
    client = str(security.certificates.client_file)
    options: dict[str, Any] = {
        "bootstrap.servers": kafka.bootstrap_servers_of(listener),
        "security.protocol": security.listeners[listener].protocol,
        "ssl.ca.location": str(security.certificates.ca_file),
    }
    if listener == "MTLS":
        options |= {"ssl.certificate.location": client, "ssl.key.location": client}
    if mechanism == "OAUTHBEARER":
        token = security.unsecured_token(str(user), lifetime=300)
        options |= {"sasl.mechanism": mechanism, "oauth_cb": lambda _: (token, time.time() + 300)}
    elif mechanism is not None:
        options |= {
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password or security.users[str(user)],
        }
    return options


def _produce(options: Mapping[str, Any], topic: str) -> list[confluent_kafka.KafkaError | None]:
    """The outcomes of ten records."""
    outcomes: list[confluent_kafka.KafkaError | None] = []
    producer = confluent_kafka.Producer({**options, "message.timeout.ms": 20_000})
    for number in range(10):
        producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(25)
    return outcomes


async def _values(kafka: ApacheKafka, topic: str) -> list[bytes | None]:
    (records,) = (await read_back(kafka.bootstrap_servers, topic)).values()
    return [record.value for record in records]


@pytest.mark.parametrize(("listener", "mechanism", "user"), WAYS)
async def test_librdkafka_gets_in(
    listener: str, mechanism: str | None, user: str | None, secure_kafka: ApacheKafka, topic: str
) -> None:
    await secure_kafka.create_topic(topic)
    assert _produce(_librdkafka(secure_kafka, listener, mechanism, user), topic) == [None] * 10
    assert await _values(secure_kafka, topic) == [b"%d" % number for number in range(10)]


async def test_aiokafka_and_kafka_python_get_in(
    secure_kafka: ApacheKafka, security: KafkaSecurity, certificates: TestCertificates, topic: str
) -> None:
    await secure_kafka.create_topic(topic)
    servers = secure_kafka.bootstrap_servers_of("SASL_SSL")
    alice = {"sasl_plain_username": "alice", "sasl_plain_password": security.users["alice"]}
    context = aiokafka.helpers.create_ssl_context(cafile=str(certificates.ca_file))
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=servers,
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-256",
        ssl_context=context,
        **alice,
    ) as producer:
        await producer.send_and_wait(topic, b"aiokafka")
    client = str(certificates.client_file)
    options = {
        "bootstrap_servers": secure_kafka.bootstrap_servers_of("MTLS"),
        "security_protocol": "SSL",
        "ssl_cafile": str(certificates.ca_file),
        "ssl_certfile": client,
        "ssl_keyfile": client,
    }
    # A process of its own: it uses things that Python deprecates, and its threads outlive it.
    program = "import json, sys, kafka\nproducer = kafka.KafkaProducer(**json.loads(sys.argv[1]))\n"
    program += "producer.send(sys.argv[2], b'kafka-python').get(30)\nproducer.close()"
    command = [sys.executable, "-c", program, json.dumps(options), topic]
    await asyncio.to_thread(subprocess.run, command, timeout=60, check=True)
    assert await _values(secure_kafka, topic) == [b"aiokafka", b"kafka-python"]


async def test_kafkas_own_tools_get_in(
    secure_kafka: ApacheKafka, security: KafkaSecurity, tmp_path: Path, topic: str
) -> None:
    await secure_kafka.create_topic(topic)
    properties = tmp_path / "client.properties"

    async def produce(written: Mapping[str, str]) -> None:
        # In properties a backslash begins an escape.
        properties.write_text("".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in written.items()))
        servers = secure_kafka.bootstrap_servers_of("SASL_SSL")
        options = ("--bootstrap-server", servers, "--topic", topic, "--producer.config", properties)
        await secure_kafka.tool(CONSOLE_PRODUCER, *options, stdin=b"from Java\n")

    allowed = security.client_properties("SASL_SSL", user="alice", mechanism="SCRAM-SHA-512")
    await produce(allowed)
    assert await _values(secure_kafka, topic) == [b"from Java"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password_is_refused(mechanism: str, secure_kafka: ApacheKafka, topic: str) -> None:
    refused: list[confluent_kafka.KafkaError] = []
    options = _librdkafka(secure_kafka, "SASL_SSL", mechanism, "alice", "guessed") | {"error_cb": refused.append}
    producer = confluent_kafka.Producer(options)
    deadline = time.monotonic() + 20
    while not refused and time.monotonic() < deadline:
        producer.poll(0.05)
    assert refused[0].code() == confluent_kafka.KafkaError._AUTHENTICATION


async def test_a_client_without_the_right_is_told_so_until_a_rule_allows_it(
    secure_kafka: ApacheKafka, topic: str
) -> None:
    await secure_kafka.create_topic(topic)
    bob = _librdkafka(secure_kafka, "SASL_SSL", "SCRAM-SHA-256", "bob")
    denied = confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED

    def codes() -> set[int]:
        return {0 if error is None else error.code() for error in _produce(bob, topic)}

    assert codes() == {denied}
    rules = [Acl("User:bob", "WRITE", topic=topic[:-2], prefixed=True), Acl("User:bob", "DESCRIBE", topic=topic)]
    await secure_kafka.add_acls(*rules)
    assert codes() == {0}
    await secure_kafka.add_acls(Acl("User:bob", "WRITE", topic=topic, deny=True))
    assert codes() == {denied}
    await secure_kafka.remove_acls(Acl("User:bob", "WRITE", topic=topic, deny=True), *rules)
    assert codes() == {denied}
    assert len(await _values(secure_kafka, topic)) == 10


async def test_a_renewed_certificate_is_shown_when_told_to(
    secure_kafka: ApacheKafka, certificates: TestCertificates
) -> None:
    host, port = secure_kafka.bootstrap_servers_of("SSL").split(":")
    before = ssl.get_server_certificate((host, int(port)))
    certificates.renew(certificates.server_file)
    assert ssl.get_server_certificate((host, int(port))) == before
    await secure_kafka.reload_certificates()
    after = ssl.get_server_certificate((host, int(port)))
    assert after != before
    assert after.strip() in certificates.server_file.read_text()


def test_a_listener_that_is_not_there_is_an_error(secure_kafka: ApacheKafka) -> None:
    with pytest.raises(ValueError, match="there is no listener 'TLS'; there are SSL, MTLS, "):
        secure_kafka.bootstrap_servers_of("TLS")


@pytest.mark.parametrize("store", ["truststore", "keystore"])
@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_the_commands_that_convert_a_store_of_javas_do(
    store: str, kind: str, certificates: TestCertificates, tmp_path: Path
) -> None:
    """A refusal's commands are run as they stand, but for the passwords that they ask for."""
    path = tmp_path / f"{store}.{kind}"
    _make_java_store(path, store, certificates)
    option = f"ssl_{store}_location"
    given: dict[str, Any] = {option: str(path)}
    with pytest.raises(ConfigurationError) as caught:
        check_settings(Options(**given))
    commands = re.findall(r"`([^`]+)`", str(caught.value))
    assert len(commands) == (2 if kind == "jks" else 1)
    for command in commands:
        _run(command)
    (written,) = re.findall(rf"then write {option}='([^']+)'", str(caught.value))
    given = {option: written, "ssl_key_password": "changeit"}
    context = TlsContexts(Options(**given)).context()
    if store == "truststore":
        ca = ssl.PEM_cert_to_DER_cert(certificates.ca_file.read_text())
        assert context.get_ca_certs(binary_form=True) == [ca]


def _make_java_store(path: Path, store: str, certificates: TestCertificates) -> None:
    java = {".jks": "JKS", ".p12": "PKCS12"}[path.suffix]
    if store == "truststore":
        _run(
            f"keytool -importcert -noprompt -alias ca -file {certificates.ca_file} -keystore {path} "
            f"-storetype {java} -storepass changeit"
        )
        return
    packed = path.with_suffix(".made")
    _run(f"openssl pkcs12 -export -in {certificates.client_file} -out {packed} -passout pass:changeit")
    _run(
        f"keytool -importkeystore -srckeystore {packed} -srcstoretype PKCS12 -srcstorepass changeit "
        f"-destkeystore {path} -deststoretype {java} -deststorepass changeit"
    )


def _run(command: str) -> None:
    words = shlex.split(command)
    if words[0] == "openssl" and "-export" not in words:
        words += ["-passin", "pass:changeit"] + (["-passout", "pass:changeit"] if "-nokeys" not in words else [])
    if words[0] == "keytool" and "-deststorepass" not in words and "-importkeystore" in words:
        words += ["-srcstorepass", "changeit", "-deststorepass", "changeit"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
