"""Kafka's own Java tools, unchanged, on secured listeners of the dev broker, as their users run them: with a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import SaslAuthenticationFailedError, TopicAuthorizationFailedError
from aiokafkapy.testing import KafkaToolError, TestCertificates
from tests.tool_server import ToolServer

from .secure_clients import USERS, secured

pytestmark = pytest.mark.java

ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
END_TO_END = "org.apache.kafka.tools.EndToEndLatency"
TOPICS = "org.apache.kafka.tools.TopicCommand"

_MODULES = "org.apache.kafka.common.security"
_SCRAM = f"{_MODULES}.scram.ScramLoginModule"
_OF_ALICE = f'required username="alice" password="{USERS["alice"]}";'
LOGINS = {
    "PLAIN": f"{_MODULES}.plain.PlainLoginModule {_OF_ALICE}",
    "SCRAM-SHA-256": f"{_SCRAM} {_OF_ALICE}",
    "SCRAM-SHA-512": f"{_SCRAM} {_OF_ALICE}",
    "OAUTHBEARER": f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";',
}
"""The value of ``sasl.jaas.config``."""

Writer = Callable[[str, str | None], Path]


@pytest.fixture
def settings_file(certificates: TestCertificates, tmp_path: Path) -> Writer:
    """Writes a tool's file for a protocol and a way in, and returns its path."""

    def write(protocol: str, way: str | None) -> Path:
        client = certificates.client("CN=alice") if way == "certificate" else None
        properties: dict[str, str] = {}
        if protocol.endswith("SSL"):
            properties = certificates.client_properties(client)
        properties["security.protocol"] = protocol
        if way in LOGINS:
            properties |= {"sasl.mechanism": str(way), "sasl.jaas.config": LOGINS[str(way)]}
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return file

    return write


WAYS_IN = [("SSL", None), ("SSL", "certificate"), *(("SASL_SSL", mechanism) for mechanism in LOGINS)]


@pytest.mark.parametrize(("protocol", "way"), WAYS_IN)
async def test_javas_admin_producer_and_consumer_get_in(
    protocol: str, way: str | None, certificates: TestCertificates, tool_server: ToolServer, settings_file: Writer
) -> None:
    """``EndToEndLatency`` makes the topic, and reads each record before it sends the next."""
    principal = {None: "User:ANONYMOUS", "certificate": "User:CN=alice"}.get(way, "User:alice")
    async with secured(certificates, authorizer=True, super_users=[principal]) as broker:
        servers = broker.bootstrap_servers_of(protocol)
        said = await tool_server.run(END_TO_END, servers, "orders", 20, "all", 100, settings_file(protocol, way))
        assert "Avg latency" in said
        assert [len(record.value or b"") for record in broker.records("orders")] == [100] * 20


async def test_a_wrong_password_ends_a_tool_with_the_brokers_words(
    certificates: TestCertificates, tool_server: ToolServer, settings_file: Writer
) -> None:
    async with secured(certificates) as broker:
        file = settings_file("SASL_SSL", "SCRAM-SHA-512")
        file.write_text(file.read_text().replace(USERS["alice"], "guessed"))
        with pytest.raises(KafkaToolError, match=r"(?s)SaslAuthenticationException: .*invalid credentials"):
            await tool_server.run(
                TOPICS,
                *("--bootstrap-server", broker.bootstrap_servers_of("SASL_SSL"), "--command-config", file, "--list"),
            )


async def test_console_tools_make_a_topic_write_and_read(
    certificates: TestCertificates, tool_server: ToolServer, settings_file: Writer
) -> None:
    async with secured(certificates) as broker:
        servers = broker.bootstrap_servers_of("SASL_SSL")
        server, file = ("--bootstrap-server", servers), settings_file("SASL_SSL", "SCRAM-SHA-512")
        await tool_server.run(TOPICS, *server, "--command-config", file, "--create", "--topic", "t", "--partitions", 2)
        lines = [str(number) for number in range(100)]
        wanted = ("--topic", "t", "--producer.config", file)
        await tool_server.run(CONSOLE_PRODUCER, *server, *wanted, stdin="\n".join(lines).encode())
        group = ("--consumer.config", file, "--group", "g")
        read = await tool_server.console_consumer(servers, "t", max_messages=100, arguments=group)
        assert sorted(read) == sorted(lines)
        assert {record.partition for record in broker.records("t")} <= {0, 1}


def producer_of(broker: DevBroker, certificates: TestCertificates, user: str, password: str) -> KafkaProducer:
    """Ours, by SCRAM-SHA-512."""
    return KafkaProducer(
        broker.bootstrap_servers_of("SASL_SSL"),
        **certificates.client_options(security_protocol="SASL_SSL"),
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username=user,
        sasl_password=password,
    )


async def test_kafka_acls_grants_lists_and_takes_away(
    certificates: TestCertificates, tool_server: ToolServer, settings_file: Writer
) -> None:
    async with secured(certificates, authorizer=True, super_users=["User:alice"]) as broker:
        broker.create_topic("orders-eu", 1)
        access = (
            *("--bootstrap-server", broker.bootstrap_servers_of("SASL_SSL")),
            *("--command-config", str(settings_file("SASL_SSL", "PLAIN"))),
        )
        pattern = ("--topic", "orders-", "--resource-pattern-type", "prefixed")
        rule = ("--allow-principal", "User:bob", "--operation", "Write", *pattern)
        async with producer_of(broker, certificates, "bob", USERS["bob"]) as bob:
            with pytest.raises(TopicAuthorizationFailedError):
                await bob.send("orders-eu", b"too soon")
            await tool_server.run(ACLS, *access, "--add", *rule)
            await bob.send("orders-eu", b"allowed")
            listed = await tool_server.run(ACLS, *access, "--list", "--principal", "User:bob")
            assert "resourceType=TOPIC, name=orders-, patternType=PREFIXED" in listed
            assert "(principal=User:bob, host=*, operation=WRITE, permissionType=ALLOW)" in listed
            await tool_server.run(ACLS, *access, "--remove", "--force", *rule)
            with pytest.raises(TopicAuthorizationFailedError):
                await bob.send("orders-eu", b"too late")
        assert [record.value for record in broker.records("orders-eu")] == [b"allowed"]


async def test_kafka_configs_makes_a_user_and_removes_it(
    certificates: TestCertificates, tool_server: ToolServer, settings_file: Writer
) -> None:
    async with secured(certificates) as broker:
        access = (
            *("--bootstrap-server", broker.bootstrap_servers_of("SASL_SSL")),
            *("--command-config", str(settings_file("SASL_SSL", "SCRAM-SHA-256"))),
        )
        carol = ("--entity-type", "users", "--entity-name", "carol")
        credentials = "SCRAM-SHA-512=[iterations=8192,password=carol-secret]"
        await tool_server.run(CONFIGS, *access, "--alter", *carol, "--add-config", credentials)
        async with producer_of(broker, certificates, "carol", "carol-secret") as producer:
            await producer.send("t", b"hello")
        await tool_server.run(CONFIGS, *access, "--alter", *carol, "--delete-config", "SCRAM-SHA-512")
        gone = producer_of(broker, certificates, "carol", "carol-secret")
        with pytest.raises(SaslAuthenticationFailedError):
            await gone.start()
        await gone.close()
