"""Connections in memory: all of it without a socket, on both loops, with TLS, SASL, back-pressure and nodes that go."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from aiokafkapy import KafkaProducer, TopicPartition, errors
from aiokafkapy.admin.topics import TopicAdmin
from aiokafkapy.broker import DevBroker
from aiokafkapy.reader import PartitionReader
from aiokafkapy.sockets import network_of
from aiokafkapy.testing import TestCertificates, in_memory

Loop = Callable[[], asyncio.AbstractEventLoop]


def run_without_sockets(
    program: Coroutine[Any, Any, None], monkeypatch: pytest.MonkeyPatch, loop: Loop = asyncio.new_event_loop
) -> None:
    """Run the program as under pytest-socket: the loop runs, and from then on a socket is an error."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was made")

    async def guarded() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "__init__", refuse)
            patch.setattr(socket, "getaddrinfo", refuse)
            await program

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(guarded())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_producer_admin_reader_and_broker_need_no_socket(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> None:
        with in_memory():
            async with DevBroker(nodes=3) as broker:
                servers = broker.bootstrap_servers
                async with (
                    TopicAdmin(servers) as admin,
                    KafkaProducer(servers) as producer,
                    PartitionReader(servers, auto_offset_reset="earliest") as reader,
                ):
                    await admin.create("orders", partitions=1)
                    values = [b"%d" % n for n in range(1_000)]
                    await producer.send_many("orders", values)
                    reader.assign([TopicPartition("orders", 0)])
                    reader.stop_at(TopicPartition("orders", 0), len(values))
                    assert [record.value async for record in reader] == values

    run_without_sockets(program(), monkeypatch, loop)


def test_the_ban_refuses_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> None:
        async with DevBroker():
            pass

    with pytest.raises(AssertionError, match="a socket was made"):
        run_without_sockets(program(), monkeypatch)


def test_more_than_a_window_of_bytes_waits_for_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> None:
        with in_memory():
            async with DevBroker() as broker, KafkaProducer(broker.bootstrap_servers) as producer:
                await producer.send("orders", b"")
                broker.controls.stall_connections(True)
                sending = asyncio.create_task(producer.send_many("orders", [b"x" * 1_000] * 5_000))
                while not any(each.client.get_write_buffer_size() for each in network().connections):  # noqa: ASYNC110
                    await asyncio.sleep(0)
                broker.controls.stall_connections(False)
                assert len(await sending) == 5_000

    run_without_sockets(program(), monkeypatch)


def network() -> Any:
    return network_of(asyncio.get_running_loop())


def test_a_node_that_is_stopped_refuses_connections_and_comes_back_at_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def program() -> None:
        with in_memory():
            async with DevBroker() as broker:
                servers = broker.bootstrap_servers
                broker.controls.stop_node(1)
                with pytest.raises(errors.KafkaTimeoutError, match="refused"):
                    await KafkaProducer(servers, max_block_ms=100).start()
                broker.controls.start_node(1)
                assert broker.bootstrap_servers == servers
                async with KafkaProducer(servers) as producer:
                    await producer.send("orders", b"1")
                    broker.controls.drop_connections()
                    await producer.send("orders", b"2")

    run_without_sockets(program(), monkeypatch)


def test_tls_and_sasl_go_through_memory_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = TestCertificates(tmp_path)

    async def program() -> None:
        with in_memory():
            async with DevBroker(
                listeners={"SASL_SSL": "127.0.0.1:0"},
                sasl_users={"ann": "secret"},
                ssl_keystore_location=str(certificates.server_file),
            ) as broker:
                options = certificates.client_options()
                async with KafkaProducer(
                    broker.bootstrap_servers,
                    **(options | {"security_protocol": "SASL_SSL"}),
                    sasl_mechanism="PLAIN",
                    sasl_username="ann",
                    sasl_password="secret",
                ) as producer:
                    await producer.send("orders", b"1")
                with pytest.raises(errors.KafkaTimeoutError, match="closed by the broker"):
                    await KafkaProducer(broker.bootstrap_servers, max_block_ms=300).start()

    run_without_sockets(program(), monkeypatch)


async def test_the_network_ends_with_its_block_and_is_once_at_a_time() -> None:
    with in_memory():
        with pytest.raises(errors.IllegalStateError, match="already"), in_memory():
            pass
        assert network() is not None
    assert network() is None
    async with DevBroker() as broker, KafkaProducer(broker.bootstrap_servers) as producer:
        _, writer = await asyncio.open_connection(*broker.bootstrap_servers.split(":"))
        writer.close()
        await producer.send("orders", b"1")


def test_without_a_loop_it_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"), in_memory():
        pass


async def test_a_port_is_given_once() -> None:
    with in_memory():
        async with DevBroker(port=9_092):
            with pytest.raises(OSError, match="in use"):
                await DevBroker(port=9_092).start()
