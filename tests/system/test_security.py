"""Our own client on secured listeners of the dev broker: getting in, staying in, being kept out, new credentials."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.admin import TopicAdmin
from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.broker.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import (
    AuthenticationFailedError,
    ConfigurationError,
    IllegalSaslStateError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    SslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.reader import PartitionReader
from aiokafkapy.testing import TestCertificates
from tests.system.secured_broker import MECHANISMS, USERS, secured, settings, values

TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")


def allow(broker: DevBroker, topic: str) -> None:
    """Let bob write to a topic."""
    authorizer = broker.state.authorizer
    assert authorizer is not None
    kind, pattern, permission = ResourceType.TOPIC, PatternType.LITERAL, Permission.ALLOW
    authorizer.create([AclBinding(kind, topic, pattern, "User:bob=,", "*", Operation.WRITE, permission)])


WAYS_IN: list[tuple[str, str | None, str]] = [
    ("SSL", None, "alice"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256", "bob=,"),
    ("SASL_SSL", "PLAIN", "bob=,"),
    ("SASL_SSL", "SCRAM-SHA-512", "alice"),
    ("SASL_SSL", "OAUTHBEARER", "alice"),
]


@pytest.mark.parametrize(("protocol", "mechanism", "user"), WAYS_IN)
async def test_sent_records_are_there_and_can_be_read(
    certificates: TestCertificates, protocol: str, mechanism: str | None, user: str
) -> None:
    sent = [b"%d" % number for number in range(1_000)]
    async with secured(certificates) as broker:
        options = settings(certificates, broker, protocol, mechanism, user)
        async with KafkaProducer(**options) as producer:
            await producer.send_many("t", sent)
        del options["max_block_ms"]
        found: list[bytes | None] = []
        async with PartitionReader(**options) as reader:
            reader.assign([TopicPartition("t", 0)])
            while len(found) < len(sent):
                found += [record.value for record in await reader.fetch()]
        assert found == sent


UNKNOWN_CA = "not of a CA that the broker trusts; see ssl_keystore_location (TLSV1_ALERT_UNKNOWN_CA)"
EXPIRED = "it has expired; have the one at ssl_keystore_location renewed (SSLV3_ALERT_CERTIFICATE_EXPIRED)"
REVOKED = "it was revoked; put a new one at ssl_keystore_location (SSLV3_ALERT_CERTIFICATE_REVOKED)"
REQUIRED = "wants a certificate of ours and got none: write ssl_keystore_location"
REFUSED_CERTIFICATES = {
    "none": {
        "TLSv1.2": ("see whether it wants ssl_keystore_location", "SSLV3_ALERT_HANDSHAKE_FAILURE"),
        "TLSv1.3": (REQUIRED, "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
    },
    "expired": dict.fromkeys(TLS_VERSIONS, (EXPIRED, "SSLV3_ALERT_CERTIFICATE_EXPIRED")),
    "of another CA": dict.fromkeys(TLS_VERSIONS, (UNKNOWN_CA, "TLSV1_ALERT_UNKNOWN_CA")),
    "revoked": dict.fromkeys(TLS_VERSIONS, (REVOKED, "SSLV3_ALERT_CERTIFICATE_REVOKED")),
}
"""Our client's error, and the alert."""


def alert_of(broker: DevBroker, certificates: TestCertificates, client: Path | None, version: str) -> str:
    """The alert that a client without any of our code gets, though it speaks before it listens."""
    context = ssl.create_default_context(cafile=str(certificates.ca_file))
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version.replace(".", "_")]
    if client is not None:
        context.load_cert_chain(client)
    node = broker.nodes[0]
    with socket.create_connection((node.host, node.port), timeout=10) as plain, pytest.raises(ssl.SSLError) as raised:
        encrypted = context.wrap_socket(plain, server_hostname="localhost", do_handshake_on_connect=False)
        try:
            encrypted.do_handshake()
            encrypted.write(b"a request")
            encrypted.read(1)
        finally:
            encrypted.close()
    return str(raised.value.reason)


class TestKeptOut:
    """A refused client is told at once, and told the reason; no secret is shown."""

    async def refusal(self, options: dict[str, Any]) -> KafkaError:
        started = time.monotonic()
        producer = KafkaProducer(**options)
        with pytest.raises(AuthenticationFailedError) as raised:
            await producer.start()
        assert time.monotonic() - started < 15, "not only when max_block_ms is over"
        assert "hunter2" not in f"{raised.value!r} {raised.value.__cause__!r} {producer.config!r}"
        return raised.value

    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    async def test_a_wrong_password_is_refused(self, certificates: TestCertificates, mechanism: str) -> None:
        async with secured(certificates) as broker:
            options = settings(certificates, broker, "SASL_SSL", mechanism)
            error = await self.refusal(options | {"sasl_password": "hunter2"})
            assert isinstance(error, SaslAuthenticationFailedError)
            assert f"refused the credentials ({mechanism})" in str(error)

    async def test_the_admin_is_told_at_once_each_time_until_it_is_let_in(self, certificates: TestCertificates) -> None:
        async with secured(certificates) as broker:
            options = settings(certificates, broker, "SASL_SSL", "SCRAM-SHA-256")
            del options["max_block_ms"]
            broker.controls.refuse_authentication()
            async with TopicAdmin(**options, timeout=30) as admin:
                started = time.monotonic()
                for _ in range(2):
                    with pytest.raises(SaslAuthenticationFailedError):
                        await admin.list_topics()
                assert time.monotonic() - started < 10
                broker.controls.refuse_authentication(False)
                await admin.ping()

    async def test_a_mechanism_that_the_broker_does_not_have_is_refused(self, certificates: TestCertificates) -> None:
        async with secured(certificates, sasl_enabled_mechanisms=["SCRAM-SHA-512"]) as broker:
            error = await self.refusal(settings(certificates, broker, "SASL_SSL", "PLAIN"))
            assert isinstance(error, UnsupportedSaslMechanismError)
            assert "it has: SCRAM-SHA-512" in str(error)

    async def test_a_certificate_of_another_authority_is_refused(self, certificates: TestCertificates) -> None:
        async with secured(certificates) as broker:
            options = settings(certificates, broker, "SSL")
            error = await self.refusal(options | {"ssl_truststore_location": str(certificates.other_ca_file)})
            assert isinstance(error, SslAuthenticationFailedError)
            assert "not trusted here" in str(error)

    @pytest.mark.parametrize("version", TLS_VERSIONS)
    @pytest.mark.parametrize("fault", REFUSED_CERTIFICATES)
    async def test_a_certificate_that_the_broker_refuses_is_an_error(
        self, tmp_path: Path, fault: str, version: str
    ) -> None:
        certificates = TestCertificates(tmp_path)
        client: Path | None = None
        server = certificates.server_options(ssl_client_auth="required")
        match fault:
            case "expired":
                client = certificates.client(expired=True)
            case "of another CA":
                client = certificates.client(by_other_ca=True)
            case "revoked":
                client = certificates.client_file
                server["ssl_crl_location"] = str(certificates.revoke(client))
        words, alert = REFUSED_CERTIFICATES[fault][version]
        async with DevBroker(listeners={"SSL": Listener(**server)}) as broker:
            options = certificates.client_options(client, ssl_enabled_protocols=[version])
            error = await self.refusal({"bootstrap_servers": broker.bootstrap_servers, **options})
            assert isinstance(error, SslAuthenticationFailedError)
            assert words in str(error)
            assert await asyncio.to_thread(alert_of, broker, certificates, client, version) == alert
            metrics = broker.metrics()
            # On a slow machine the client tries once more before it is closed.
            assert metrics["failed_authentications"] == metrics["connections_accepted"] >= 2

    async def test_tls_is_refused_by_a_listener_without_it(self, certificates: TestCertificates) -> None:
        async with secured(certificates) as broker:
            options = settings(certificates, broker, "SSL")
            error = await self.refusal(options | {"bootstrap_servers": broker.bootstrap_servers_of("PLAINTEXT")})
            assert "does not speak TLS" in str(error)

    async def test_plaintext_is_refused_by_a_listener_with_tls(self, certificates: TestCertificates) -> None:
        async with secured(certificates) as broker:
            options = settings(certificates, broker, "PLAINTEXT")
            error = await self.refusal(options | {"bootstrap_servers": broker.bootstrap_servers_of("SSL")})
            assert "speaks TLS: write security_protocol='SSL'" in str(error)

    async def test_sasl_is_refused_by_a_listener_without_it(self, certificates: TestCertificates) -> None:
        async with secured(certificates) as broker:
            options = settings(certificates, broker, "SASL_PLAINTEXT", "PLAIN")
            error = await self.refusal(options | {"bootstrap_servers": broker.bootstrap_servers_of("PLAINTEXT")})
            assert isinstance(error, IllegalSaslStateError)
            assert "has no SASL: write security_protocol='PLAINTEXT'" in str(error)

    @pytest.mark.parametrize(("ours", "theirs"), [("PLAINTEXT", "SASL_PLAINTEXT"), ("SSL", "SASL_SSL")])
    async def test_a_client_without_credentials_is_refused_by_a_listener_that_wants_them(
        self, certificates: TestCertificates, ours: str, theirs: str
    ) -> None:
        async with secured(certificates) as broker:
            options = settings(certificates, broker, ours)
            error = await self.refusal(options | {"bootstrap_servers": broker.bootstrap_servers_of(theirs)})
            assert isinstance(error, SaslAuthenticationFailedError)
            assert f"wants credentials: write security_protocol='{theirs}' and a sasl_mechanism" in str(error)
            assert all(mechanism in str(error) for mechanism in MECHANISMS)


async def test_an_ended_session_costs_a_retry_and_no_record(certificates: TestCertificates) -> None:
    async with secured(certificates, connections_max_reauth_ms=60_000) as broker:
        async with KafkaProducer(**settings(certificates, broker, "SASL_PLAINTEXT", "PLAIN")) as producer:
            for number in range(5):
                assert (await producer.send("t", b"%d" % number)).offset == number
                broker.controls.expire_sessions()
        assert values(broker) == [b"%d" % number for number in range(5)]


async def test_a_renewal_behind_a_slow_request_writes_nothing_twice() -> None:
    """The producer is not idempotent: the connection ended while the broker was still at work, again and again."""
    users = {"alice": "alice-secret"}
    async with DevBroker(
        listeners={"SASL_PLAINTEXT": "127.0.0.1:0"}, sasl_users=users, connections_max_reauth_ms=1_300
    ) as broker:
        options: dict[str, Any] = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "alice",
            "sasl_password": "alice-secret",
            "socket_connection_setup_timeout_ms": 500,
            "enable_idempotence": False,
        }
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.send("t", b"1")
            broker.controls.delay(ApiKey.PRODUCE, 2.5)
            await producer.send("t", b"2")
            broker.controls.delay(ApiKey.PRODUCE, 0)
        assert values(broker, "t") == [b"1", b"2"]
        assert broker.controls.request_count(ApiKey.PRODUCE) == 2


class TestNewCredentials:
    async def test_they_are_used_for_new_connections(self, certificates: TestCertificates) -> None:
        async with secured(certificates) as broker:
            options = settings(certificates, broker, "SASL_PLAINTEXT", "PLAIN")
            writers: list[str] = []
            broker.controls.on_request(
                ApiKey.PRODUCE, lambda context, body: writers.append(context.connection.principal)
            )
            async with KafkaProducer(**options) as producer:
                await producer.send("t", b"before")
                producer.update_credentials(sasl_username="bob=,", sasl_password=USERS["bob=,"])
                broker.controls.drop_connections()
                await producer.send("t", b"after")
                assert producer.config.sasl_username == "bob=,"
            assert (writers[0], writers[-1]) == ("User:alice", "User:bob=,")

    async def test_a_record_waits_while_they_are_wrong(self, certificates: TestCertificates) -> None:
        async with secured(certificates) as broker:
            options = settings(certificates, broker, "SASL_PLAINTEXT", "PLAIN")
            async with KafkaProducer(**options) as producer:
                await producer.send("t", b"before")
                producer.update_credentials(sasl_password="wrong")
                broker.controls.drop_connections()
                delivery = await producer.enqueue("t", b"after")
                await asyncio.sleep(0.5)
                assert not delivery.done()
                producer.update_credentials(sasl_password=USERS["alice"])
                assert (await delivery).offset == 1

    async def test_unusable_certificates_change_nothing(self, certificates: TestCertificates) -> None:
        async with secured(certificates) as broker:
            options = settings(certificates, broker, "SASL_PLAINTEXT", "PLAIN")
            async with KafkaProducer(**options) as producer:
                with pytest.raises(ConfigurationError):
                    producer.update_credentials(sasl_mechanism="NONE")
                broker.controls.drop_connections()
                await producer.send("t", b"x")


async def test_a_right_granted_later_is_seen_and_a_missing_one_harms_no_other_topic(
    certificates: TestCertificates,
) -> None:
    async with secured(certificates, authorizer=True, super_users=["User:alice"]) as broker:
        broker.create_topic("mine", 1)
        broker.create_topic("theirs", 1)
        allow(broker, "mine")
        options = settings(certificates, broker, "SASL_PLAINTEXT", "PLAIN", "bob=,")
        async with KafkaProducer(**options) as producer:
            await producer.send("mine", b"1")
            with pytest.raises(TopicAuthorizationFailedError, match="theirs"):
                await producer.send("theirs", b"1")
            await producer.send("mine", b"2")
            allow(broker, "theirs")
            await producer.send("theirs", b"2")
        assert values(broker, "theirs") == [b"2"]


class TestWarmUp:
    async def test_every_leader_is_connected_before_the_first_record(self) -> None:
        async with DevBroker(nodes=3) as broker, KafkaProducer(broker.bootstrap_servers) as producer:
            broker.create_topic("a", 3)
            broker.create_topic("b", 3)
            await producer.warm_up(["a", "b"])
            before = broker.controls.request_count(ApiKey.API_VERSIONS)
            for partition in range(3):
                await producer.send("a", b"x", partition=partition)
            assert broker.controls.request_count(ApiKey.API_VERSIONS) == before
            await producer.warm_up("a")

    async def test_a_leader_that_goes_away_is_no_longer_waited_for_once_there_is_another(self) -> None:
        async with DevBroker(nodes=3) as broker, KafkaProducer(broker.bootstrap_servers) as producer:
            broker.create_topic("a", 3)
            leaders = {part.leader for part in await producer.partitions_for("a")}
            assert len(leaders) == 3
            broker.controls.stop_node(3)
            await producer.warm_up("a")

    async def test_a_leader_that_is_away_is_an_error_in_time(self) -> None:
        async with DevBroker(nodes=2) as broker:
            broker.create_topic("a", 2)
            async with KafkaProducer(broker.bootstrap_servers, max_block_ms=1_000) as producer:
                await producer.partitions_for("a")
                broker.controls.stall_connections()
                with pytest.raises(KafkaTimeoutError, match="max_block_ms=1000"):
                    await producer.warm_up(["a", "new"])
                broker.controls.stall_connections(False)
