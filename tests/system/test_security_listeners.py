"""Several listeners of the dev broker, over real sockets: addresses, quotas, TLS, SASL and rights, and other people's
clients, unchanged, on each of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.listeners import Listeners
from aiokafkapy.broker.network import processor
from aiokafkapy.common import Node
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.security.sasl.json_web_tokens import unsecured_token
from aiokafkapy.security.sasl.scram import ScramMechanism
from aiokafkapy.security.sasl.secret import Secret
from aiokafkapy.security.tls import TlsContexts
from aiokafkapy.testing import TestCertificates
from tests.inside import running_nodes_of
from tests.raw_client import RawClient
from tests.system.secure_clients import SASL, USERS, run, secured
from tests.waiting import until

TWO: Listeners = {"PLAINTEXT": "127.0.0.1:0", "INSIDE": Listener("PLAINTEXT", advertised_host="localhost")}


def nodes_of(broker: DevBroker, listener: str) -> list[Node]:
    """The addresses of a listener, node by node."""
    found = []
    for number, server in enumerate(broker.bootstrap_servers_of(listener).split(","), 1):
        host, _, port = server.rpartition(":")
        found.append(Node(number, host, int(port)))
    return found


async def test_each_listener_answers_with_its_own_addresses() -> None:
    async with DevBroker(nodes=2, listeners=TWO) as broker:
        assert broker.bootstrap_servers == broker.bootstrap_servers_of("PLAINTEXT")
        assert {node.host for node in nodes_of(broker, "INSIDE")} == {"localhost"}
        broker.create_topic("t", 2)
        for listener in TWO:
            expected = {(node.node_id, node.host, node.port) for node in nodes_of(broker, listener)}
            async with RawClient(nodes_of(broker, listener)[0]) as client:
                metadata = await client.call(ApiKey.METADATA, 12, topics=None)
                assert {(each.node_id, each.host, each.port) for each in metadata.brokers} == expected
                cluster = await client.call(ApiKey.DESCRIBE_CLUSTER, 1)
                assert {(each.broker_id, each.host, each.port) for each in cluster.brokers} == expected
                coordinator = await client.call(ApiKey.FIND_COORDINATOR, 3, key="g", key_type=0)
                assert (coordinator.node_id, coordinator.host, coordinator.port) in expected
                fetch = {
                    "max_bytes": 1_000,
                    "topics": [
                        {
                            "topic_id": broker.state.topics.get("t").topic_id,  # type: ignore[union-attr]
                            "partitions": [{"partition": index, "partition_max_bytes": 9} for index in (0, 1)],
                        }
                    ],
                }
                hints = await client.call(ApiKey.FETCH, 16, **fetch)
                assert len(hints.node_endpoints) == 1
                assert {(each.node_id, each.host, each.port) for each in hints.node_endpoints} <= expected


async def test_ports_survive_a_node_that_stops_and_starts() -> None:
    async with DevBroker(nodes=2, listeners=TWO) as broker:
        before = [broker.bootstrap_servers_of(listener) for listener in TWO]
        broker.controls.stop_node(2)
        assert [broker.bootstrap_servers_of(listener) for listener in TWO] == before
        broker.controls.start_node(2)
        assert [broker.bootstrap_servers_of(listener) for listener in TWO] == before
        async with RawClient(nodes_of(broker, "INSIDE")[1]) as client:
            assert len((await client.call(ApiKey.METADATA, 12, topics=None)).brokers) == 2


async def test_a_full_listener_does_not_fill_the_other() -> None:
    listeners: Listeners = {"PLAINTEXT": "127.0.0.1:0", "INSIDE": Listener("PLAINTEXT", listener_max_connections=1)}
    async with DevBroker(listeners=listeners) as broker:
        (plain,), (inside,) = (nodes_of(broker, listener) for listener in listeners)
        async with (
            RawClient(inside) as first,
            RawClient(inside) as waiting,
            RawClient(plain) as one,
            RawClient(plain) as two,
        ):
            for client in (first, one, two):
                await client.call(ApiKey.API_VERSIONS, 0)
            waiting.send(ApiKey.API_VERSIONS, 0)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting.receive(ApiKey.API_VERSIONS, 0), 0.1)
            assert broker.metrics()["connections_accepted"] == 3


async def test_when_one_port_is_taken_no_listener_stays_open() -> None:
    async with DevBroker() as other:
        taken = other.nodes[0].port
        broker = DevBroker(listeners={"PLAINTEXT": "127.0.0.1:0", "INSIDE": f"PLAINTEXT://127.0.0.1:{taken}"})
        with pytest.raises(OSError, match="in use"):
            await broker.start()
        # pytest turns an unclosed socket into an error


async def test_host_and_port_are_the_listeners_own_where_there_are_listeners() -> None:
    with pytest.raises(ConfigurationError, match=r"port=9092: with listeners each has its own"):
        DevBroker(port=9092, listeners=TWO)
    async with DevBroker(listeners=TWO) as broker:
        with pytest.raises(ValueError, match=r"no listener 'OUTSIDE': the listeners are PLAINTEXT, INSIDE"):
            broker.bootstrap_servers_of("OUTSIDE")


# TLS


@pytest.fixture
def certificates() -> Iterator[TestCertificates]:
    """A CA, a server's certificate and a client's."""
    with TestCertificates() as certificates:
        yield certificates


@pytest.fixture
def short_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handshake may take a second."""
    monkeypatch.setattr(processor, "TLS_HANDSHAKE_TIMEOUT", 1.0)


def tls_only(certificates: TestCertificates, **options: Any) -> Listeners:
    """One listener with TLS."""
    return {"SSL": Listener(**certificates.server_options(**options))}


def client_context(certificates: TestCertificates, client: Any = None) -> ssl.SSLContext:
    """A client's context, as our own clients make theirs."""
    config = BrokerConfig.of(
        ssl_truststore_location=str(certificates.ca_file),
        ssl_keystore_location=None if client is None else str(client),
        ssl_endpoint_identification_algorithm="https",
    )
    return TlsContexts(config).context()


async def test_requests_go_over_tls_and_large_ones_too(certificates: TestCertificates) -> None:
    async with DevBroker(listeners=tls_only(certificates)) as broker:
        for number in range(300):
            broker.create_topic(f"a-topic-with-a-long-name-{number}", 3)
        async with RawClient(broker.nodes[0], tls=client_context(certificates)) as client:
            for _ in range(3):
                assert len((await client.call(ApiKey.METADATA, 12, topics=None)).topics) == 300
        assert broker.metrics()["connections_invalid"] == 0


async def test_a_client_that_does_not_finish_its_handshake_holds_up_nobody_and_is_closed(
    certificates: TestCertificates, short_handshakes: None
) -> None:
    listeners = tls_only(certificates)
    async with DevBroker(listeners=listeners, num_network_threads=1) as broker:
        (node,) = broker.nodes
        async with RawClient(node) as silent:
            async with RawClient(node, tls=client_context(certificates)) as client:
                await client.call(ApiKey.API_VERSIONS, 0)
                assert broker.metrics()["connections_accepted"] == 2
            assert await asyncio.wait_for(silent.is_closed_by_peer(), 10)
        await no_connections(broker)


async def test_half_done_handshakes_count_against_the_quotas(certificates: TestCertificates) -> None:
    async with DevBroker(listeners=tls_only(certificates, listener_max_connections=1)) as broker:
        (node,) = broker.nodes
        async with RawClient(node):
            waiting = RawClient(node, tls=client_context(certificates))
            opening = asyncio.create_task(waiting.__aenter__())
            await asyncio.wait([opening], timeout=0.1)
            assert not opening.done()
        await asyncio.wait_for(opening, 10)  # the place is free now
        await waiting.call(ApiKey.API_VERSIONS, 0)
        await waiting.__aexit__(None, None, None)


@pytest.mark.parametrize(
    "garbage", [b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 50, b"\x16\x03\x01\x02\0"]
)
async def test_garbage_on_a_tls_port_closes_its_own_connection(
    certificates: TestCertificates, short_handshakes: None, garbage: bytes
) -> None:
    async with DevBroker(listeners=tls_only(certificates)) as broker:
        (node,) = broker.nodes
        async with RawClient(node, tls=client_context(certificates)) as client:
            await client.call(ApiKey.API_VERSIONS, 0)
            async with RawClient(node) as stranger:
                stranger.writer.write(garbage)
                with contextlib.suppress(ConnectionError):
                    await asyncio.wait_for(stranger.reader.read(), 10)  # an alert, perhaps, and the end
            await client.call(ApiKey.API_VERSIONS, 0)
        await no_connections(broker)


async def test_stopping_during_a_handshake_leaves_nothing(certificates: TestCertificates) -> None:
    broker = DevBroker(listeners=tls_only(certificates))
    await broker.start()
    async with RawClient(broker.nodes[0]) as silent:
        await until(lambda: broker.metrics()["connections_accepted"] == 1)
        await broker.stop()
        assert await asyncio.wait_for(silent.is_closed_by_peer(), 10)


async def test_a_listener_may_want_a_clients_certificate(certificates: TestCertificates) -> None:
    listeners = tls_only(certificates, ssl_client_auth="required")
    async with DevBroker(listeners=listeners) as broker:
        (node,) = broker.nodes
        async with RawClient(node, tls=client_context(certificates, certificates.client_file)) as client:
            await client.call(ApiKey.API_VERSIONS, 0)
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with RawClient(node, tls=client_context(certificates)) as client:
                await client.call(ApiKey.API_VERSIONS, 0)
        await no_connections(broker)


async def test_a_server_certificate_that_cannot_be_read_is_reported_at_the_start(
    certificates: TestCertificates,
) -> None:
    with pytest.raises(ConfigurationError, match="ssl_keystore_location"):
        await DevBroker(listeners=tls_only(certificates, ssl_keystore_location="/no/such/file.pem")).start()


async def no_connections(broker: DevBroker) -> None:
    """Wait until each connection was counted out, once."""
    (node,) = running_nodes_of(broker).values()
    await until(lambda: node.server.quotas.total == 0)
    metrics = broker.metrics()
    assert metrics["connections_accepted"] == metrics["connections_disconnected"]


# SASL


async def log_in(client: RawClient, user: str, password: str, mechanism: str = "PLAIN", version: int = 2) -> Any:
    """The answer to PLAIN's only message."""
    handshake = await client.call(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)
    assert handshake.error_code == 0
    return await client.call(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=f"\0{user}\0{password}".encode())


async def test_a_client_authenticates_and_then_is_served() -> None:
    async with DevBroker(listeners=SASL, sasl_users=USERS, authorizer=True, super_users="User:alice") as broker:
        broker.create_topic("t")
        (node,) = broker.nodes
        for user, topics in (("alice", ["t"]), ("bob", [])):
            async with RawClient(node) as client:
                assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0
                answer = await log_in(client, user, USERS[user])
                assert (answer.error_code, answer.auth_bytes, answer.session_lifetime.total_seconds()) == (0, b"", 0)
                metadata = await client.call(ApiKey.METADATA, 12, topics=None)
                assert [each.name for each in metadata.topics] == topics


async def test_bare_tokens_follow_a_handshake_of_version_0() -> None:
    async with DevBroker(listeners=SASL, sasl_users=USERS) as broker:
        async with RawClient(broker.nodes[0]) as client:
            assert (await client.call(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")).error_code == 0
            token = b"\0alice\0alice-secret"
            client.writer.write(len(token).to_bytes(4, "big") + token)
            assert await client.reader.readexactly(4) == b"\0\0\0\0"
            assert (await client.call(ApiKey.METADATA, 12, topics=None)).brokers
        async with RawClient(broker.nodes[0]) as client:
            await client.call(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
            client.writer.write(len(token).to_bytes(4, "big") + token[:-1] + b"x")
            assert await client.is_closed_by_peer()


async def test_a_wrong_password_is_answered_with_words_after_a_while_and_the_connection_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with DevBroker(listeners=SASL, sasl_users=USERS) as broker, RawClient(broker.nodes[0]) as client:
        began = asyncio.get_running_loop().time()
        answer = await log_in(client, "alice", "wrong")
        assert answer.error_code == 58
        assert "alice-secret" not in answer.error_message
        assert "Invalid username or password" in answer.error_message
        assert asyncio.get_running_loop().time() - began >= 0.09  # connection.failed.authentication.delay.ms
        assert await client.is_closed_by_peer()
    (told,) = [each.getMessage() for each in caplog.records if "authentication_failed" in each.getMessage()]
    assert "listener=SASL_PLAINTEXT" in told
    assert "Invalid username or password" in told


async def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are() -> None:
    listeners = {"SASL_PLAINTEXT": Listener("SASL_PLAINTEXT", sasl_enabled_mechanisms=["SCRAM-SHA-512"])}
    async with DevBroker(listeners=listeners, sasl_users=USERS) as broker, RawClient(broker.nodes[0]) as client:
        answer = await client.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert (answer.error_code, answer.mechanisms) == (33, ("SCRAM-SHA-512",))
        assert await client.is_closed_by_peer()


@pytest.mark.parametrize("api", [ApiKey.METADATA, ApiKey.SASL_AUTHENTICATE])
async def test_another_request_before_ends_the_connection_unanswered(api: ApiKey) -> None:
    async with DevBroker(listeners=SASL, sasl_users=USERS) as broker:
        async with RawClient(broker.nodes[0]) as client:
            client.send(api, 1)
            assert await client.is_closed_by_peer()
        assert broker.controls.request_count(api) == 0


async def test_a_client_that_is_nobody_yet_may_send_little() -> None:
    async with DevBroker(listeners=SASL, sasl_users=USERS, sasl_server_max_receive_size=1_000) as broker:
        async with RawClient(broker.nodes[0]) as client:
            client.writer.write((50_000_000).to_bytes(4, "big") + bytes(2_000))
            assert await client.is_closed_by_peer()
        async with RawClient(broker.nodes[0]) as client:
            await log_in(client, "alice", "alice-secret")
            assert (await client.call(ApiKey.METADATA, 12, topics=[{"name": "t" * 2_000}])).brokers


async def test_sasl_on_a_listener_without_it_is_a_wrong_state() -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:
        answer = await client.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert (answer.error_code, answer.mechanisms) == (34, ())
        assert (await client.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"")).error_code == 34
        assert (await client.call(ApiKey.METADATA, 12, topics=None)).brokers


async def test_a_session_ends_unless_the_client_authenticates_again() -> None:
    listeners: Listeners = {"SASL_PLAINTEXT": Listener("SASL_PLAINTEXT", connections_max_reauth_ms=400)}
    async with DevBroker(listeners=listeners, sasl_users=USERS) as broker, RawClient(broker.nodes[0]) as client:
        answer = await log_in(client, "alice", "alice-secret")
        assert answer.session_lifetime.total_seconds() == 0.4
        await asyncio.sleep(0.5)
        again = await log_in(client, "alice", "alice-secret")
        assert again.session_lifetime.total_seconds() == 0.4
        await client.call(ApiKey.METADATA, 12, topics=None)
        await asyncio.sleep(0.5)
        client.send(ApiKey.METADATA, 12, topics=None)
        assert await client.is_closed_by_peer()


async def test_re_authentication_as_somebody_else_is_refused() -> None:
    async with DevBroker(listeners=SASL, sasl_users=USERS) as broker, RawClient(broker.nodes[0]) as client:
        await log_in(client, "alice", "alice-secret")
        answer = await log_in(client, "bob", "bob-secret")
        assert answer.error_code == 58
        assert "Cannot change principals" in answer.error_message
        assert await client.is_closed_by_peer()


async def test_controls_end_sessions_and_refuse_everybody() -> None:
    async with DevBroker(listeners=SASL, sasl_users=USERS) as broker:
        (node,) = broker.nodes
        async with RawClient(node) as first, RawClient(node) as second:
            for client in (first, second):
                await log_in(client, "alice", "alice-secret")
            assert broker.controls.expire_sessions() == 2
            await log_in(first, "alice", "alice-secret")
            await first.call(ApiKey.METADATA, 12, topics=None)
            second.send(ApiKey.METADATA, 12, topics=None)
            assert await second.is_closed_by_peer()
            broker.controls.refuse_authentication()
            async with RawClient(node) as third:
                assert (await log_in(third, "alice", "alice-secret")).error_code == 58
            await first.call(ApiKey.METADATA, 12, topics=None)
            broker.controls.clear()
            async with RawClient(node) as third:
                assert (await log_in(third, "alice", "alice-secret")).error_code == 0


async def test_a_rotated_certificate_is_shown_to_new_connections(certificates: TestCertificates) -> None:
    async with DevBroker(listeners=tls_only(certificates)) as broker:
        (node,) = broker.nodes
        trusting = client_context(certificates)

        def shown(client: RawClient) -> Any:
            return client.writer.get_extra_info("peercert")["serialNumber"]

        async with RawClient(node, tls=trusting) as before:
            broker.controls.rotate_certificate(certificates.server("localhost", "127.0.0.1", file="next.pem"))
            async with RawClient(node, tls=trusting) as after:
                await after.call(ApiKey.API_VERSIONS, 0)
                assert shown(before) != shown(after)
            await before.call(ApiKey.API_VERSIONS, 0)
            with pytest.raises(ConfigurationError):
                broker.controls.rotate_certificate("/no/such/file.pem")
            async with RawClient(node, tls=trusting) as again:
                await again.call(ApiKey.API_VERSIONS, 0)
        with pytest.raises(ValueError, match="no TLS listener is named 'PLAINTEXT'"):
            broker.controls.rotate_certificate(certificates.server_file, "PLAINTEXT")


async def test_a_client_certificate_is_a_principal(certificates: TestCertificates) -> None:
    alice = certificates.client("CN=Alice,OU=Data,C=DE")
    bob = certificates.client("CN=Bob,C=DE", file="bob.pem")
    rules = "RULE:^CN=([^,]*),OU=Data.*$/$1/L"
    listeners = tls_only(certificates, ssl_client_auth="requested", ssl_principal_mapping_rules=rules)
    async with DevBroker(listeners=listeners, authorizer=True, super_users=["User:alice"]) as broker:
        broker.create_topic("t")
        (node,) = broker.nodes
        for client_file, topics in ((alice, 1), (None, 0)):
            async with RawClient(node, tls=client_context(certificates, client_file)) as client:
                assert len((await client.call(ApiKey.METADATA, 12, topics=None)).topics) == topics
        async with RawClient(node, tls=client_context(certificates, bob)) as client:
            client.send(ApiKey.METADATA, 12, topics=None)
            assert await client.is_closed_by_peer(), "no rule fits"
        await no_connections(broker)


async def test_scram_users_come_and_go_and_survive_a_restart(tmp_path: Path) -> None:
    listeners = {"PLAINTEXT": "127.0.0.1:0", **SASL}
    salted = hashlib.pbkdf2_hmac("sha256", b"word", b"salt-of-carol", 4_096)
    upsertion = {"name": "carol", "mechanism": 1, "iterations": 4_096, "salt": b"salt-of-carol"}
    options: dict[str, Any] = {"listeners": listeners, "sasl_users": USERS, "data_dir": tmp_path}
    async with DevBroker(**options) as broker, RawClient(broker.nodes[0]) as client:
        altered = await client.call(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            0,
            upsertions=[
                {**upsertion, "salted_password": salted},
                {**upsertion, "name": "weak", "iterations": 100, "salted_password": salted},
                {**upsertion, "name": "strange", "mechanism": 9, "salted_password": salted},
                {**upsertion, "name": "", "salted_password": salted},
            ],
            deletions=[{"name": "nobody", "mechanism": 1}],
        )
        assert {each.user: int(each.error_code) for each in altered.results} == {
            "carol": 0,
            "weak": 93,
            "strange": 33,
            "": 93,
            "nobody": 91,
        }
    async with DevBroker(**options) as broker, RawClient(broker.nodes[0]) as client:
        described = await client.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None)
        found = {each.user: [each.mechanism for each in each.credential_infos] for each in described.results}
        assert found == {"carol": [1], **{user: [1, 2] for user in USERS}}
        assert await scram(broker, "carol", b"word")
        assert not await scram(broker, "carol", b"another")
        gone = await client.call(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[{"name": "carol", "mechanism": 1}], upsertions=[]
        )
        assert [each.error_code for each in gone.results] == [0]
        assert not await scram(broker, "carol", b"word")
    assert b"word" not in (tmp_path / "scram-credentials").read_bytes()
    assert (tmp_path / "scram-credentials").stat().st_mode & 0o077 == 0


async def scram(broker: DevBroker, user: str, password: bytes) -> bool:
    """True if SCRAM-SHA-256 lets the user in."""
    exchange = ScramMechanism("SCRAM-SHA-256", user, Secret(password.decode())).exchange("")
    async with RawClient(nodes_of(broker, "SASL_PLAINTEXT")[0]) as client:
        await client.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
        token: bytes | None = exchange.respond(b"")
        while token is not None:
            answer = await client.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
            if answer.error_code:
                return False
            token = exchange.respond(answer.auth_bytes)
    return exchange.is_complete


# other people's clients

CLIENTS = ["confluent", "kafka_python", "aiokafka"]
WAYS_IN = [
    ("SSL", None),
    ("SSL", "certificate"),
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_SSL", "SCRAM-SHA-512"),
    ("SASL_SSL", "PLAIN"),
    ("SASL_SSL", "OAUTHBEARER"),
]


def settings_of(broker: DevBroker, certificates: TestCertificates, protocol: str, way: str | None) -> dict[str, Any]:
    """A client's error; alice's name wherever there is one."""
    settings: dict[str, Any] = {
        "servers": broker.bootstrap_servers_of(protocol),
        "topic": "orders",
        "protocol": protocol,
    }
    if protocol.endswith("SSL"):
        settings["ca"] = str(certificates.ca_file)
    if way == "certificate":
        settings["certificate"] = str(certificates.client("CN=alice", key="RSA"))
    elif way == "OAUTHBEARER":
        now = int(time.time())
        claims = {"sub": "alice", "iat": now, "exp": now + 600}
        settings |= {"mechanism": way, "token": unsecured_token(claims)}
    elif way is not None:
        settings |= {"mechanism": way, "user": "alice", "password": USERS["alice"]}
    return settings


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("protocol", "way"), WAYS_IN)
async def test_stock_clients_write_and_read(
    certificates: TestCertificates, client: str, protocol: str, way: str | None
) -> None:
    principal = {None: "User:ANONYMOUS", "certificate": "User:CN=alice"}.get(way, "User:alice")
    async with secured(certificates, authorizer=True, super_users=[principal]) as broker:
        broker.create_topic("orders", 1)
        said = await run(client, settings_of(broker, certificates, protocol, way))
        assert said == {"values": [str(number) for number in range(10)], "errors": []}
        assert [record.value for record in broker.records("orders")] == [str(number).encode() for number in range(10)]


@pytest.mark.parametrize("client", CLIENTS)
async def test_stock_clients_are_told_that_a_password_is_wrong(certificates: TestCertificates, client: str) -> None:
    async with secured(certificates) as broker:
        broker.create_topic("orders", 1)
        settings = settings_of(broker, certificates, "SASL_PLAINTEXT", "SCRAM-SHA-256")
        said = await run(client, {**settings, "password": "wrong"})
        assert said["errors"]
        assert not broker.records("orders")


@pytest.mark.parametrize("client", ["confluent_acls", "kafka_python_acls"])
async def test_stock_admin_clients_make_list_and_remove_acls(certificates: TestCertificates, client: str) -> None:
    async with secured(certificates, authorizer=True, super_users=["User:alice"]) as broker:
        said = await run(client, settings_of(broker, certificates, "SASL_SSL", "PLAIN"))
        assert "errors" not in said, said
        assert said["found"]
        assert (said["deleted"], said["left"]) == (len(said["found"]), 0)


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_forbidden_topic_is_refused_to_stock_clients(certificates: TestCertificates, client: str) -> None:
    async with secured(certificates, authorizer=True, super_users=["User:bob"]) as broker:
        broker.create_topic("orders", 1)
        said = await run(client, settings_of(broker, certificates, "SASL_PLAINTEXT", "PLAIN"))
        assert any("uthoriz" in error or "TopicAuth" in error for error in said["errors"]), said
        assert not broker.records("orders")
