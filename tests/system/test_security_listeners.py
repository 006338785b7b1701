"""Several listeners of the dev broker, over real sockets: addresses, quotas, TLS, SASL and rights, and other people's
clients, unchanged, on each of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.listeners import Listeners
from aiokafkapy.broker.network import socket_server
from aiokafkapy.common import Node
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.security.tls import TlsContexts
from aiokafkapy.testing import TestCertificates

from .raw_client import RawClient

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
    monkeypatch.setattr(socket_server, "TLS_HANDSHAKE_TIMEOUT", 1.0)


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


async def test_a_server_certificate_that_cannot_be_read_is_said_at_the_start(certificates: TestCertificates) -> None:
    with pytest.raises(ConfigurationError, match="ssl_keystore_location"):
        await DevBroker(listeners=tls_only(certificates, ssl_keystore_location="/no/such/file.pem")).start()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something that others bring about is so."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - counters have no event
            await asyncio.sleep(0.01)


async def no_connections(broker: DevBroker) -> None:
    """Wait until each connection was counted out, once."""
    (node,) = broker._running.values()
    await until(lambda: node.server.quotas.total == 0)
    metrics = broker.metrics()
    assert metrics["connections_accepted"] == metrics["connections_disconnected"]
