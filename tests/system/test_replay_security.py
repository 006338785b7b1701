"""Conversations over TLS and with SCRAM: recorded by a proxy on which TLS ends, and played to the same client."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import FaultProxy, Recording, ReplayBroker, ReplayMismatchError, TestCertificates
from tests.system.recorded_secrets import encodings, file_contents

TOPIC = "orders"
PASSWORD = "correct horse battery staple"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def certificates() -> Iterator[TestCertificates]:
    with TestCertificates() as certificates:
        yield certificates


@pytest.fixture
async def broker(certificates: TestCertificates) -> AsyncIterator[DevBroker]:
    """A cluster of TLS and SASL."""
    options = certificates.server_options()
    del options["security_protocol"]
    async with DevBroker(2, listeners={"SASL_SSL": "127.0.0.1:0"}, sasl_users={"ann": PASSWORD}, **options) as broker:
        broker.create_topic(TOPIC, 2)
        yield broker


def login(certificates: TestCertificates | None, mechanism: str = MECHANISMS[1], **options: Any) -> dict[str, Any]:
    """A client's options for a server with a certificate of these, or without TLS."""
    given: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT"}
    if certificates is not None:
        given = certificates.client_options(security_protocol="SASL_SSL")
    sasl = {"sasl_mechanism": mechanism, "sasl_username": "ann", "sasl_password": PASSWORD}
    return given | sasl | options


async def token() -> str:
    return "header.claims.signature"


async def story(servers: str, **options: Any) -> list[int]:
    """The offsets of some records."""
    async with KafkaProducer(servers, **options) as producer:
        return [(await producer.send(TOPIC, b"order %d" % number, partition=number % 2)).offset for number in range(4)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_conversation_over_tls_with_scram_is_recorded_and_played_to_the_same_client(
    broker: DevBroker, certificates: TestCertificates, tmp_path: Path, mechanism: str
) -> None:
    file = tmp_path / "bug.jsonl"
    async with FaultProxy(
        broker.bootstrap_servers, record=file, tls=True, cluster_tls=certificates.client_options()
    ) as proxy:
        assert proxy.certificates is not None
        told = await story(proxy.bootstrap_servers, **login(proxy.certificates, mechanism))
        assert proxy.cluster_failure is None
    exchanges = Recording.read(file).exchanges
    assert {ApiKey.SASL_AUTHENTICATE, ApiKey.PRODUCE} <= {exchange.api_key for exchange in exchanges}
    contents = file_contents(file)
    assert b"order 3" in contents
    assert not any(secret in contents for secret in encodings(PASSWORD))
    users: dict[str, Any] = {"ann": PASSWORD}
    async with ReplayBroker(file, speed=None, sasl_users=users, tls=True) as replay:
        assert replay.certificates is not None
        assert await story(replay.bootstrap_servers, **login(replay.certificates, mechanism)) == told
        replay.check()
        assert replay.unplayed == []
    # Each side is chosen by itself: without TLS, by another mechanism, by another user, and without SASL.
    ways: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"sasl_users": users}, login(None, mechanism)),
        ({"sasl_users": users}, login(None, "PLAIN")),
        ({"sasl_users": {"bob": "another"}}, login(None, mechanism, sasl_username="bob", sasl_password="another")),
        ({"sasl_users": users}, {}),
        ({}, {}),
    ]
    for given, client in ways:
        async with ReplayBroker(file, speed=None, **given) as replay:
            assert await story(replay.bootstrap_servers, **client) == told
            replay.check()


async def test_a_wrong_password_is_refused_by_a_replay_and_is_not_a_mismatch(
    broker: DevBroker, certificates: TestCertificates, tmp_path: Path
) -> None:
    file = tmp_path / "bug.jsonl"
    async with FaultProxy(broker.bootstrap_servers, record=file, cluster_tls=certificates.client_options()) as proxy:
        told = await story(proxy.bootstrap_servers, **login(None))
    async with ReplayBroker(file, speed=None, sasl_users={"ann": PASSWORD}) as replay:
        for mechanism in (*MECHANISMS, "PLAIN"):
            with pytest.raises(errors.SaslAuthenticationFailedError):
                await story(replay.bootstrap_servers, **login(None, mechanism, sasl_password="guessed"))
        with pytest.raises(errors.UnsupportedSaslMechanismError):
            given = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_provider": token}
            await story(replay.bootstrap_servers, security_protocol="SASL_PLAINTEXT", **given)
        assert replay.mismatches == []
        assert await story(replay.bootstrap_servers, **login(None)) == told
        replay.check()
    async with ReplayBroker(file, speed=None) as replay:  # without users
        with pytest.raises(errors.KafkaError):
            await story(replay.bootstrap_servers, **login(None, delivery_timeout_ms=500, request_timeout_ms=400))
        with pytest.raises(ReplayMismatchError, match="give the replay users of its own"):
            replay.check()
    with pytest.raises(ValueError, match="'ann' has to have a name and a password that are not empty"):
        ReplayBroker(file, sasl_users={"ann": ""})


async def test_faults_are_those_of_the_bytes_within_tls(broker: DevBroker, certificates: TestCertificates) -> None:
    own = {"ssl_keystore_location": str(certificates.server_file)}
    async with (
        FaultProxy(broker.bootstrap_servers, tls=own, cluster_tls=certificates.client_options()) as proxy,
        KafkaProducer(proxy.bootstrap_servers, retry_backoff_ms=10, **login(certificates)) as producer,
    ):
        assert proxy.certificates is None
        await producer.send(TOPIC, b"first", partition=0)
        for arm in (
            lambda: proxy.drop_next(ApiKey.PRODUCE),
            lambda: proxy.truncate(ApiKey.PRODUCE, 9),
            lambda: proxy.fail_produce(errors.NotLeaderOrFollowerError),
            lambda: proxy.cut(),
            lambda: proxy.cut(reset=False),
        ):
            arm()
            await producer.send(TOPIC, b"x" * 200_000, partition=0)
        proxy.stall()
        sending = asyncio.create_task(producer.send(TOPIC, b"last", partition=0))
        answered = proxy.answers_sent
        await asyncio.sleep(0)
        assert proxy.answers_sent == answered
        proxy.resume()
        await sending
        assert proxy.request_count(ApiKey.SASL_AUTHENTICATE) >= 2
        assert proxy.strangers == 0
    assert [len(record.value or b"") for record in broker.records(TOPIC, 0)] == [5, *[200_000] * 5, 4]


async def test_a_client_without_tls_is_counted_and_a_cluster_that_is_not_trusted_is_told(
    broker: DevBroker, certificates: TestCertificates
) -> None:
    async with FaultProxy(broker.bootstrap_servers, tls=True, cluster_tls=certificates.client_options()) as proxy:
        reader, writer = await asyncio.open_connection(*proxy.bootstrap_servers.split(",")[0].split(":"))
        writer.write(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")
        await reader.read()
        writer.close()
        await proxy.until(lambda: proxy.strangers == 1)
    strange = certificates.client_options(ssl_truststore_location=str(certificates.other_ca_file))
    async with FaultProxy(broker.bootstrap_servers, cluster_tls=strange) as proxy:
        reader, writer = await asyncio.open_connection(*proxy.bootstrap_servers.split(",")[0].split(":"))
        await proxy.until(lambda: proxy.cluster_failure is not None)
        assert isinstance(proxy.cluster_failure, errors.SslAuthenticationFailedError)
        assert "the certificate is of a CA that is not trusted" in str(proxy.cluster_failure)
        writer.close()
    for wrong in ({"linger_ms": 5}, {"ssl_truststore_location": "none.pem"}):
        with pytest.raises(errors.ConfigurationError):
            FaultProxy(broker.bootstrap_servers, cluster_tls=wrong)
    with pytest.raises(errors.ConfigurationError):
        FaultProxy(broker.bootstrap_servers, tls={"ssl_keystore_location": "none.pem"})


async def test_a_handshake_that_never_comes_holds_up_neither_proxy_nor_replay(
    broker: DevBroker, certificates: TestCertificates, tmp_path: Path
) -> None:
    file = tmp_path / "bug.jsonl"
    async with FaultProxy(
        broker.bootstrap_servers, record=file, tls=True, cluster_tls=certificates.client_options()
    ) as proxy:
        silent = await _connected(proxy.bootstrap_servers)
        await proxy.until(lambda: proxy.connection_count() == 1)
    assert silent.recv(1) == b""
    silent.close()
    with socket.socket() as listening:  # and a broker that never answers one
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = "127.0.0.1:{1}".format(*listening.getsockname())
        async with FaultProxy(address, cluster_tls=certificates.client_options()) as proxy:
            silent = await _connected(proxy.bootstrap_servers)
            await proxy.until(lambda: proxy.connection_count() == 1)
        silent.close()
    async with ReplayBroker(file, tls=True) as replay:
        silent = await _connected(replay.bootstrap_servers)
    silent.close()


async def _connected(servers: str) -> socket.socket:
    host, port = servers.split(",")[0].split(":")
    connection = socket.socket()
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
    connection.setblocking(True)
    return connection


async def test_the_commands_record_and_play_over_tls_with_users(
    broker: DevBroker, certificates: TestCertificates, tmp_path: Path
) -> None:
    file = tmp_path / "bug.jsonl"
    own = ["--port", "0", "--certificate", str(certificates.server_file)]
    servers = ["--bootstrap-servers", broker.bootstrap_servers, "--ca", str(certificates.ca_file)]
    told = await _with_command(["record", str(file), *own, *servers], certificates)
    played = ["replay", str(file), *own, "--speed", "0", "--user", f"ann={PASSWORD}"]
    assert await _with_command(played, certificates) == told


async def _with_command(arguments: list[str], certificates: TestCertificates) -> list[int]:
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "aiokafkapy", *arguments],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        servers = (await process.stdout.readline()).decode().strip()
        assert servers, arguments
        return await story(servers, **login(certificates))
    finally:
        process.terminate()
        _, said = await process.communicate()
        assert process.returncode == 0, said
        assert PASSWORD.encode() not in said
