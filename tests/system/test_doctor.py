"""The check-up of a cluster: a good part is reported as good, and a bad one has a finding that says what to do."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafkapy.admin import Doctor, Finding, Verdict
from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.broker.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from aiokafkapy.client.config import ClientConfig
from aiokafkapy.common import Node
from aiokafkapy.testing import TestCertificates
from tests.command_line import invoked
from tests.tcp_servers import tcp_server

USERS = {"alice": "correct horse", "bob": "hunter2"}


@pytest.fixture
async def secured(certificates: TestCertificates) -> AsyncIterator[DevBroker]:
    """alice may do everything; bob may look at orders."""
    server = certificates.server_options()
    del server["security_protocol"]
    listeners = {
        "PLAINTEXT": Listener("PLAINTEXT"),
        "SSL": Listener("SSL", **server),
        "SASL_PLAINTEXT": Listener("SASL_PLAINTEXT"),
        "SASL_SSL": Listener("SASL_SSL", **server),
    }
    mechanisms = ["PLAIN", "SCRAM-SHA-256"]
    options: dict[str, Any] = {
        "sasl_users": USERS,
        "sasl_enabled_mechanisms": mechanisms,
        "authorizer": True,
        "super_users": ["User:alice"],
    }
    async with DevBroker(listeners=listeners, **options) as broker:
        broker.create_topic("orders")
        broker.create_topic("hidden")
        assert broker.state.authorizer is not None
        literal, allow = PatternType.LITERAL, Permission.ALLOW
        broker.state.authorizer.create(
            [AclBinding(ResourceType.TOPIC, "orders", literal, "User:bob", "*", Operation.DESCRIBE, allow)]
        )
        yield broker


async def examine(servers: str, *, topic: str | None = None, timeout: float = 20.0, **options: Any) -> list[Finding]:
    return await Doctor(ClientConfig(bootstrap_servers=servers, **options), topic=topic).examine(timeout)


def failed(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(one.check, f"{one.text} {one.advice}") for one in findings if one.verdict is Verdict.FAILED]


def facts(findings: list[Finding], check: str) -> dict[str, Any]:
    return dict(next(one for one in findings if one.check == check).facts)


def credentials(user: str, password: str | None = None) -> dict[str, Any]:
    return {
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": user,
        "sasl_password": USERS[user] if password is None else password,
    }


async def test_each_step_and_each_broker_of_a_healthy_cluster_is_well() -> None:
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("orders", partitions=6)
        findings = await examine(broker.bootstrap_servers.split(",")[0], topic="orders")
        assert {one.verdict for one in findings} == {Verdict.OK}
        checks = [one.check for one in findings]
        assert checks == ["dns", "tcp", "versions", "metadata", *["broker"] * 3, "topic", "acl"]
        assert "Kafka 4" in facts(findings, "versions")["likely_version"]
        assert facts(findings, "versions")["round_trip_ms"] > 0
        assert facts(findings, "versions")["finalized_features"]["transaction.version"] == 2
        assert len(facts(findings, "metadata")["brokers"]) == 3
        assert facts(findings, "topic")["partitions"] == 6
        assert broker.records("orders") == []


async def test_a_missing_topic_is_reported_and_is_not_made() -> None:
    async with DevBroker() as broker:
        ((check, text),) = failed(await examine(broker.bootstrap_servers, topic="nope"))
        assert check == "topic"
        assert "nope" in text
        assert "aiokafkapy topics create" in text
        ((check, text),) = failed(await examine(broker.bootstrap_servers, topic="nope"))
        assert check == "topic"


async def test_a_broker_that_advertises_an_unknown_name_is_reported_by_that_name() -> None:
    elsewhere = Listener("PLAINTEXT", advertised_host="kafka.invalid")
    async with DevBroker(listeners={"PLAINTEXT": elsewhere}) as broker:
        port = broker.bootstrap_servers.rpartition(":")[2]
        findings = await examine(f"127.0.0.1:{port}")
        ((check, text),) = failed(findings)
        assert check == "broker"
        assert "not usable at the address that it advertises: kafka.invalid cannot be resolved" in text
        assert "set advertised.listeners on the broker" in text
        assert findings[-1].subject.endswith(f"at kafka.invalid:{port}")


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("127.0.0.1", -1), ("no\0host", 9092)])
async def test_a_broker_that_advertises_no_valid_address_is_reported(host: str, port: int) -> None:
    async with DevBroker() as broker:
        servers = broker.bootstrap_servers
        broker.state.advertised["PLAINTEXT"][1] = Node(1, host, port)
        ((check, text),) = failed(await examine(servers))
        assert check == "broker"
        assert "set advertised.listeners on the broker" in text


async def test_a_broker_that_is_down_is_named_and_the_others_are_well() -> None:
    async with DevBroker(nodes=2) as broker:
        first, second = broker.bootstrap_servers.split(",")

        def stop_the_second(finding: Finding) -> None:
            if finding.check == "metadata":
                broker.controls.stop_node(int(next(k for k, v in finding.facts["brokers"].items() if v == second)))

        findings = await Doctor(ClientConfig(bootstrap_servers=first), tell=stop_the_second).examine(20)
        ((check, text),) = failed(findings)
        assert check == "broker"
        assert "Connection refused" in text
        assert [one.verdict for one in findings if one.check == "broker"] == [Verdict.OK, Verdict.FAILED]


async def test_partitions_without_a_leader_are_numbered() -> None:
    async with DevBroker() as broker:
        broker.create_topic("orders", partitions=3)
        broker.controls.set_leader("orders", 1, None)
        ((check, text),) = failed(await examine(broker.bootstrap_servers, topic="orders"))
        assert check == "topic"
        assert "partition 1 of 3 without a leader" in text


async def test_tls_is_shown_with_its_version_and_certificate(
    secured: DevBroker, certificates: TestCertificates
) -> None:
    findings = await examine(secured.bootstrap_servers_of("SSL"), **certificates.client_options())
    assert failed(findings) == []
    found = facts(findings, "tls")
    assert found["version"] == "TLSv1.3"
    assert found["cipher"].startswith("TLS_")
    assert "localhost" in found["names"]
    assert "trustme" in found["issuer"]
    assert found["days_left"] > 30


async def test_an_unknown_authority_fails_with_its_remedy(secured: DevBroker, tmp_path: Any) -> None:
    with TestCertificates(tmp_path / "others") as others:
        options = others.client_options()
        ((check, text),) = failed(await examine(secured.bootstrap_servers_of("SSL"), **options))
    assert check == "tls"
    assert "ssl_truststore_location" in text


async def test_a_listener_that_speaks_the_other_language_is_recognized(
    secured: DevBroker, certificates: TestCertificates
) -> None:
    ((check, text),) = failed(await examine(secured.bootstrap_servers_of("SSL")))
    assert check == "tls"
    assert "speaks TLS: write security_protocol='SSL'" in text
    plain = secured.bootstrap_servers_of("PLAINTEXT")
    ((check, text),) = failed(await examine(plain, **certificates.client_options()))
    assert check == "tls"
    assert "security_protocol='PLAINTEXT'" in text


async def test_credentials_are_tried_and_never_shown(secured: DevBroker) -> None:
    servers = secured.bootstrap_servers_of("SASL_PLAINTEXT")
    options: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT"}
    findings = await examine(servers, **options, **credentials("alice"))
    assert failed(findings) == []
    assert facts(findings, "sasl") == {"mechanism": "SCRAM-SHA-256"}
    findings = await examine(servers, **options, **credentials("alice", "guessed"))
    ((check, text),) = failed(findings)
    assert check == "sasl"
    assert "refused the credentials (SCRAM-SHA-256)" in text
    assert "guessed" not in repr(findings)
    ((check, text),) = failed(await examine(servers))
    assert check == "sasl"
    assert "wants credentials: write security_protocol='SASL_PLAINTEXT'" in text
    assert "PLAIN, SCRAM-SHA-256" in text


async def test_rights_are_known_without_writing(secured: DevBroker) -> None:
    servers, protocol = secured.bootstrap_servers_of("SASL_PLAINTEXT"), "SASL_PLAINTEXT"
    findings = await examine(servers, topic="orders", security_protocol=protocol, **credentials("alice"))
    assert facts(findings, "acl") == {"may_write": True}
    findings = await examine(servers, topic="orders", security_protocol=protocol, **credentials("bob"))
    assert [one.verdict for one in findings if one.check == "topic"] == [Verdict.OK]
    ((check, text),) = failed(findings)
    assert check == "acl"
    assert "we may not write give this user the right: kafka-acls --add" in text
    ((check, text),) = failed(await examine(servers, topic="hidden", security_protocol=protocol, **credentials("bob")))
    assert check == "topic"
    assert "--operation Describe" in text
    assert secured.records("orders") == []


async def test_a_port_where_nobody_answers_ends_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        doctor = Doctor(ClientConfig(bootstrap_servers=servers), step_timeout=0.2)
        ((check, text),) = failed(await doctor.examine(20))
        assert check == "versions"
        assert "within 0.2 s" in text
        ((check, text),) = failed(await examine(servers, timeout=0.3))
        assert check == "time"
        assert f"the last step was: looking at {servers}" in text
        assert [one.check for one in await examine(servers, timeout=0.3)] == ["dns", "tcp", "time"]
        assert time.monotonic() - begun < 10


async def test_a_server_of_another_protocol_has_advice() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with tcp_server(answer) as (_, port):
        ((check, text),) = failed(await examine(f"127.0.0.1:{port}"))
        assert check == "versions"
        assert "is it a Kafka broker that listens there" in text


async def test_a_dead_address_of_the_bootstrap_list_fails_and_the_next_is_used() -> None:
    async with DevBroker() as broker:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            dead = f"127.0.0.1:{closed.getsockname()[1]}"
        findings = await examine(f"{dead},{broker.bootstrap_servers}")
        ((check, text),) = failed(findings)
        assert check == "tcp"
        assert "Connection refused" in text
        assert "broker" in [one.check for one in findings]


async def run(*arguments: str) -> tuple[int, str]:
    done = await asyncio.to_thread(invoked, "doctor", *arguments)
    return done.exit_code, done.output


async def test_the_command_prints_lines_or_json_and_exits_by_its_findings() -> None:
    async with DevBroker() as broker:
        broker.create_topic("orders")
        # A producer's own properties are taken too.
        code, said = await run(broker.bootstrap_servers, "--topic", "orders", "-X", "linger.ms=5")
        assert code == 0, said
        assert "all is well" in said
        assert "has 1 broker: 1 at " in said
        assert "reached where it advertises" in said
        code, said = await run(broker.bootstrap_servers, "--topic", "nope", "--json")
        assert code == 1, said
        found = json.loads(said)
        assert not found["healthy"]
        assert {one["verdict"] for one in found["findings"]} == {"ok", "failed"}
        code, said = await run(broker.bootstrap_servers, "-X", "lingr.ms=5")
        assert code == 2, said
        assert "unknown option" in said


async def test_a_broker_that_advertises_this_machine_to_a_remote_client_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As behind a tunnel: an address that is taken for another machine's stands in for its end here."""
    monkeypatch.setattr("aiokafkapy.admin.doctor.is_loopback", lambda name: name == "localhost")
    async with DevBroker(listeners={"PLAINTEXT": Listener("PLAINTEXT", advertised_host="localhost")}) as broker:
        findings = await examine(f"127.0.0.1:{broker.bootstrap_servers.rpartition(':')[2]}")
    (found,) = [one for one in findings if one.check == "broker"]
    assert found.verdict is Verdict.WARNING
    assert "this machine's own" in found.text
    assert "set advertised.listeners" in found.advice
