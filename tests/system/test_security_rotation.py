"""Certificates that are replaced under load, and some that are revoked, on both ends: the dev broker and our client."""

from __future__ import annotations

import asyncio
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.admin import TopicAdmin
from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import MetadataTimeoutError, SslAuthenticationFailedError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.reader import PartitionReader
from aiokafkapy.testing import TestCertificates


@pytest.fixture
def certificates(tmp_path: Path) -> TestCertificates:
    """A CA of the test's own: one test's revocation must not affect others."""
    return TestCertificates(tmp_path / "certificates")


def mutual(certificates: TestCertificates, **options: Any) -> DevBroker:
    """A broker that accepts clients with a certificate."""
    server = certificates.server_options(ssl_client_auth="required", **options)
    return DevBroker(listeners={"SSL": Listener(**server)})


def producer_of(
    broker: DevBroker, certificates: TestCertificates, client: Path | None = None, **options: Any
) -> KafkaProducer:
    settings = certificates.client_options(client or certificates.client_file)
    return KafkaProducer(broker.bootstrap_servers, **settings, **options)


async def test_certificates_are_replaced_under_load_on_both_ends(
    certificates: TestCertificates, caplog: pytest.LogCaptureFixture
) -> None:
    """One producer keeps its connection, with five requests in flight, and one connects anew all the time."""
    names = [f"CN=client-{number}" for number in range(5)]
    certificates.client(names[0])
    is_over = asyncio.Event()
    writers: dict[str, set[str]] = {"steady": set(), "restless": set()}
    sent = {"steady": 0, "restless": 0}
    async with mutual(certificates) as broker:

        def note(context: Any, body: Any) -> None:
            writers[context.client_id].add(context.connection.principal)

        broker.controls.on_request(ApiKey.PRODUCE, note)
        for topic in sent:
            broker.create_topic(topic, 1)

        async def load(topic: str, pause: float, **options: Any) -> None:
            async with producer_of(broker, certificates, client_id=topic, batch_size=1, **options) as producer:
                while not is_over.is_set():
                    results = await asyncio.gather(*(producer.send(topic, b"x") for _ in range(10)))
                    assert [result.offset for result in results] == list(range(sent[topic], sent[topic] + 10))
                    sent[topic] += 10
                    await asyncio.sleep(pause)

        async with asyncio.TaskGroup() as group:
            group.create_task(load("steady", 0.0))
            group.create_task(load("restless", 0.1, connections_max_idle_ms=50))
            for name in names:
                certificates.client(name)
                broker.controls.rotate_certificate(certificates.renew(certificates.server_file))
                async with asyncio.timeout(20):
                    # The steady one is to connect with the first certificate.
                    while not writers["steady"] or f"User:{name}" not in writers["restless"]:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
            is_over.set()
        assert {topic: len(broker.records(topic)) for topic in sent} == sent
    assert writers == {"steady": {f"User:{names[0]}"}, "restless": {f"User:{name}" for name in names}}
    assert [record.message for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


async def test_a_client_that_is_revoked_while_the_broker_runs_gets_no_new_connection(
    certificates: TestCertificates, caplog: pytest.LogCaptureFixture
) -> None:
    stolen = certificates.client("CN=stolen", file="stolen.pem")
    async with mutual(certificates, ssl_crl_location=str(certificates.crl_file)) as broker:
        async with producer_of(broker, certificates, stolen) as producer:
            await producer.send("t", b"while it was good")
        certificates.revoke(stolen)
        refused = producer_of(broker, certificates, stolen)
        with pytest.raises(SslAuthenticationFailedError, match="refused our certificate: it was revoked"):
            await refused.start()
        await refused.close()
        assert "certificate revoked" in caplog.text
        async with producer_of(broker, certificates) as producer:
            await producer.send("t", b"of another client")
        assert len(broker.records("t")) == 2


async def test_a_server_that_is_revoked_while_the_client_runs_gets_no_new_connection(
    certificates: TestCertificates,
) -> None:
    revocations: dict[str, Any] = {"ssl_crl_location": str(certificates.crl_file)}
    async with mutual(certificates) as broker:
        async with producer_of(broker, certificates, **revocations) as producer:
            await producer.send("t", b"while it was good")
        certificates.revoke(certificates.server_file)
        refused = producer_of(broker, certificates, **revocations)
        with pytest.raises(SslAuthenticationFailedError, match="revoked"):
            await refused.start()
        await refused.close()
        broker.controls.rotate_certificate(certificates.renew(certificates.server_file))
        async with producer_of(broker, certificates, **revocations) as producer:
            await producer.send("t", b"with a new one")
        assert len(broker.records("t")) == 2


class Vault:
    """Gives certificates from memory, a new one when the last was exchanged, and can be sealed."""

    def __init__(self, certificates: TestCertificates) -> None:
        self._certificates = certificates
        self.name = "CN=first"
        self.is_sealed = False
        self.calls = 0
        self.threads: set[str] = set()

    def context(self) -> ssl.SSLContext:
        self.calls += 1
        self.threads.add(threading.current_thread().name)
        if self.is_sealed:
            raise ConnectionError("the vault is sealed")
        context = ssl.create_default_context(cafile=str(self._certificates.ca_file))
        context.load_cert_chain(self._certificates.client(self.name))
        return context


def by_vault(vault: Vault) -> dict[str, Any]:
    return {"security_protocol": "SSL", "ssl_context": vault.context, "reconnect_backoff_ms": 1}


async def test_a_function_gives_each_connection_its_own_certificate(certificates: TestCertificates) -> None:
    vault = Vault(certificates)
    writers: list[str] = []
    async with mutual(certificates) as broker, asyncio.timeout(20):
        broker.create_topic("t", 1)

        def note(context: Any, body: Any) -> None:
            writers.append(context.connection.principal)

        broker.controls.on_request(ApiKey.PRODUCE, note)
        async with KafkaProducer(broker.bootstrap_servers, **by_vault(vault)) as producer:
            await producer.send("t", b"one")
            vault.name = "CN=second"
            await producer.send("t", b"on the same connection")
            broker.controls.drop_connections()
            await producer.send("t", b"on the next one")
        assert list(dict.fromkeys(writers)) == ["User:CN=first", "User:CN=second"]
        assert threading.current_thread().name not in vault.threads
        async with TopicAdmin(broker.bootstrap_servers, **by_vault(vault)) as admin:
            assert [topic.name for topic in await admin.list_topics()] == ["t"]
        async with PartitionReader(broker.bootstrap_servers, **by_vault(vault)) as reader:
            reader.assign([TopicPartition("t", 0)])
            assert (await reader.fetch())[0].value == b"one"


async def test_an_attempt_without_a_context_fails_with_the_functions_error_and_is_made_again(
    certificates: TestCertificates,
) -> None:
    vault = Vault(certificates)
    vault.is_sealed = True
    async with mutual(certificates) as broker, asyncio.timeout(20):
        sealed = KafkaProducer(broker.bootstrap_servers, max_block_ms=100, **by_vault(vault))
        words = "the function ssl_context failed: ConnectionError: the vault is sealed"
        with pytest.raises(MetadataTimeoutError, match=words):
            await sealed.start()
        await sealed.close()
        async with asyncio.TaskGroup() as group:
            producer = KafkaProducer(broker.bootstrap_servers, **by_vault(vault))
            calls = vault.calls
            starting = group.create_task(producer.start())
            while vault.calls < calls + 2:  # noqa: ASYNC110 - nothing tells of a failed attempt
                await asyncio.sleep(0.01)
            assert not starting.done()
            vault.is_sealed = False
        await producer.send("t", b"once it is open")
        await producer.close()


async def test_a_function_that_blocks_holds_up_nobody_else(certificates: TestCertificates) -> None:
    vault, may_go_on = Vault(certificates), threading.Event()

    def slow() -> ssl.SSLContext:
        may_go_on.wait(10)
        return vault.context()

    async with mutual(certificates) as broker, asyncio.timeout(20):
        producer = KafkaProducer(broker.bootstrap_servers, **{**by_vault(vault), "ssl_context": slow})
        starting = asyncio.ensure_future(producer.start())
        async with producer_of(broker, certificates) as other:
            await other.send("t", b"meanwhile")
        assert not starting.done()
        may_go_on.set()
        await starting
        await producer.close()
