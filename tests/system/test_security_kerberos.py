"""GSSAPI on the dev broker, with a real KDC: our client and other people's, unchanged, with tickets and without."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.errors import ConfigurationError, SaslAuthenticationFailedError, TopicAuthorizationFailedError
from aiokafkapy.testing import KafkaTools, TestCertificates
from aiokafkapy.testing.servers.kdc import Kdc
from tests.realms import Realm, opened_realm

from .secure_clients import run

COUNT = 100


@pytest.fixture(scope="module")
def realm() -> Iterator[Realm]:
    with opened_realm() as realm:
        yield realm


@pytest.fixture
def alice(realm: Realm) -> Iterator[None]:
    """This process has alice's tickets."""
    with realm.kdc.in_environment(realm.kdc.tickets_of("alice", realm.alice)):
        yield


def kerberized(realm: Realm, protocol: str = "SASL_PLAINTEXT", **options: Any) -> DevBroker:
    """A broker whose listener takes tickets for kafka/localhost."""
    chosen: dict[str, Any] = {"sasl_kerberos_keytab": str(realm.service), **options}
    listener = Listener(protocol, advertised_host="localhost", sasl_enabled_mechanisms=["GSSAPI"], **chosen)
    return DevBroker(listeners={protocol: listener}, authorizer=True, super_users=["User:alice"])


def client_of(broker: DevBroker, protocol: str = "SASL_PLAINTEXT", **options: Any) -> KafkaProducer:
    chosen = {"security_protocol": protocol, "sasl_mechanism": "GSSAPI", "max_block_ms": 20_000, **options}
    return KafkaProducer(broker.bootstrap_servers, linger_ms=0, **chosen)


def values(broker: DevBroker) -> list[bytes | None]:
    return [record.value for record in broker.records("t")]


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
async def test_a_ticket_lets_its_owner_in(realm: Realm, certificates: TestCertificates, protocol: str) -> None:
    server, client = certificates.server_options(), certificates.client_options()
    del server["security_protocol"], client["security_protocol"]
    if protocol == "SASL_PLAINTEXT":
        server, client = {}, {}
    async with kerberized(realm, protocol, **server) as broker:
        async with client_of(broker, protocol, **client) as producer:
            await producer.send_many("t", [b"%d" % number for number in range(COUNT)])
        assert values(broker) == [b"%d" % number for number in range(COUNT)]


@pytest.mark.usefixtures("alice")
async def test_rules_make_a_principal_of_a_name(realm: Realm) -> None:
    rules = ["RULE:[1:$1](bob)s/bob/carol/", "RULE:[1:$1@$0](alice@.*)s/@.*//U"]
    async with kerberized(realm, sasl_kerberos_principal_to_local_rules=rules) as broker, client_of(broker) as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send("t", b"alice is ALICE, who may do nothing")
    with pytest.raises(ConfigurationError, match="sasl_kerberos_principal_to_local_rules: 'RULE' is not a rule"):
        kerberized(realm, sasl_kerberos_principal_to_local_rules=["RULE"])


@pytest.mark.usefixtures("alice")
async def test_sessions_are_renewed_under_load(realm: Realm) -> None:
    sent: list[bytes] = []
    async with kerberized(realm, connections_max_reauth_ms=1_300) as broker, client_of(broker) as producer:
        end = time.monotonic() + 3
        while time.monotonic() < end:  # two sessions and a part
            batch = [b"%d" % (len(sent) + number) for number in range(20)]
            sent += batch
            await producer.send_many("t", batch)
            await asyncio.sleep(0.01)
        assert values(broker) == sent


class TestKeptOut:
    """A refused client is told at once, and told the reason."""

    async def refusal(self, broker: DevBroker, **options: Any) -> str:
        async with broker:
            producer = client_of(broker, **options)
            started = time.monotonic()
            with pytest.raises(SaslAuthenticationFailedError) as raised:
                await producer.start()
            await producer.close()
            assert time.monotonic() - started < 15, "not only when max_block_ms is over"
        return str(raised.value)

    async def test_a_client_without_a_ticket_is_told_of_kinit(self, realm: Realm) -> None:
        with realm.kdc.in_environment({**realm.kdc.environment, "KRB5_CLIENT_KTNAME": "/nonexistent"}):
            assert "kinit makes tickets" in await self.refusal(kerberized(realm))

    async def test_a_client_whose_ticket_has_ended_is_told_so(self, realm: Realm) -> None:
        variables = realm.kdc.tickets_of("alice", realm.alice, lifetime="1s")
        await asyncio.sleep(2.1)  # the life of the ticket, whose ends are whole seconds
        with realm.kdc.in_environment({**variables, "KRB5_CLIENT_KTNAME": "/nonexistent"}):
            assert "expired" in await self.refusal(kerberized(realm))

    async def test_a_client_that_the_realm_does_not_know_is_refused(self, realm: Realm, tmp_path: Path) -> None:
        keytab = tmp_path / "mallory.keytab"
        with Kdc() as another:
            keytab.write_bytes(another.add_principal("mallory").read_bytes())
        variables = {**realm.kdc.environment, "KRB5_CLIENT_KTNAME": str(keytab), "KRB5CCNAME": "MEMORY:mallory"}
        with realm.kdc.in_environment(variables):
            assert "Kerberos for kafka@localhost: " in await self.refusal(kerberized(realm))

    @pytest.mark.usefixtures("alice")
    async def test_a_ticket_for_another_service_is_refused(self, realm: Realm) -> None:
        realm.kdc.add_principal("bank/localhost")
        said = await self.refusal(kerberized(realm), sasl_kerberos_service_name="bank")
        assert "refused the credentials (GSSAPI): Authentication failed during authentication" in said
        assert "with SASL mechanism GSSAPI: " in said
        assert "bank/localhost" in said

    @pytest.mark.usefixtures("alice")
    async def test_a_broker_with_the_key_of_another_host_is_named_in_the_error(self, realm: Realm) -> None:
        other = realm.kdc.add_principal("kafka/127.0.0.1")  # a key of the service, but of another host
        said = await self.refusal(kerberized(realm, sasl_kerberos_keytab=str(other)))
        assert "with SASL mechanism GSSAPI: " in said
        assert "kafka/localhost" in said


async def test_a_broker_that_could_let_nobody_in_does_not_start(realm: Realm, tmp_path: Path) -> None:
    with realm.kdc.in_environment(realm.kdc.environment):
        for keytab in (tmp_path / "none", realm.alice):
            with pytest.raises(ConfigurationError, match="listener 'SASL_PLAINTEXT': sasl_kerberos_keytab="):
                await kerberized(realm, sasl_kerberos_keytab=str(keytab)).start()
    with pytest.raises(ConfigurationError, match="'kafka/localhost' is not the name of a service"):
        kerberized(realm, sasl_kerberos_service_name="kafka/localhost")


# other people's clients


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("client", ["aiokafka", "kafka_python"])
async def test_stock_clients_write_and_read(realm: Realm, client: str) -> None:
    async with kerberized(realm) as broker:
        broker.create_topic("t", 1)
        said = await run(
            client,
            {
                "servers": broker.bootstrap_servers,
                "topic": "t",
                "protocol": "SASL_PLAINTEXT",
                "mechanism": "GSSAPI",
            },
        )
        assert said == {"values": [str(number) for number in range(10)], "errors": []}


@pytest.mark.java
async def test_java_tools_write_and_read(realm: Realm, tools: KafkaTools, tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        f' keyTab="{realm.alice}" principal="alice@{realm.kdc.realm}";\n'
    )
    java = {"JDK_JAVA_OPTIONS": f"-Djava.security.krb5.conf={realm.kdc.configuration}"}
    with realm.kdc.in_environment({**realm.kdc.environment, **java}):
        async with kerberized(realm) as broker:
            broker.create_topic("t", 1)
            said = await tools.run(
                "org.apache.kafka.tools.ProducerPerformance",
                *("--topic", "t", "--num-records", COUNT, "--record-size", 10, "--throughput", -1),
                *("--producer.config", settings),
                *("--producer-props", f"bootstrap.servers={broker.bootstrap_servers}"),
            )
            assert f"{COUNT} records sent" in said
            lines = await tools.console_consumer(
                broker.bootstrap_servers, "t", max_messages=COUNT, arguments=("--consumer.config", settings)
            )
            assert lines == [(value or b"").decode() for value in values(broker)]
            assert len(lines) == COUNT
