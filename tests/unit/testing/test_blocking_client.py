"""The plain client against the dev broker, which it also shows to answer other clients than ours."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import KafkaTimeoutError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.blocking_client import Admin, exchange
from aiokafkapy.testing.servers.ports import free_port


def _admin(bootstrap_servers: str) -> Admin:
    addresses = [(host, int(port)) for host, port in (part.split(":") for part in bootstrap_servers.split(","))]
    return Admin(lambda: addresses)


async def test_topics_are_made_grown_and_deleted(kafka_broker: DevBroker) -> None:
    admin = _admin(kafka_broker.bootstrap_servers)
    await asyncio.to_thread(admin.create_topic, "t", 2, 1, {"retention.ms": 1000}, 5)
    partitions = await asyncio.to_thread(admin.partitions, "t")
    assert {number: state.leader for number, state in partitions.items()} == {0: 1, 1: 1}
    with pytest.raises(TopicAlreadyExistsError, match="t"):
        await asyncio.to_thread(admin.create_topic, "t", 2, 1, {}, 5)
    await asyncio.to_thread(admin.add_partitions, "t", 3, 5)
    assert list(await asyncio.to_thread(admin.partitions, "t")) == [0, 1, 2]
    await asyncio.to_thread(admin.delete_topic, "t", 5)
    assert await asyncio.to_thread(admin.partitions, "t") == {}
    with pytest.raises(UnknownTopicOrPartitionError):
        await asyncio.to_thread(admin.delete_topic, "t", 5)


@pytest.mark.kafka_broker(nodes=3)
async def test_every_broker_is_named_by_each(kafka_broker: DevBroker) -> None:
    for part in kafka_broker.bootstrap_servers.split(","):
        host, port = part.split(":")
        admin = _admin(part)
        assert await asyncio.to_thread(admin.brokers, (host, int(port))) == {1, 2, 3}


def test_a_broker_that_is_not_there_is_an_os_error_naming_the_address() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(OSError, match=rf"no broker answered METADATA: {address}"):
        _admin(address).partitions("t")
    with pytest.raises(OSError, match="none is running"):
        Admin(list).partitions("t")


def test_a_broker_that_closes_half_way_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_in_part() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(b"\0\0\0\x10half")

        answering = threading.Thread(target=answer_in_part)
        answering.start()
        with pytest.raises(ConnectionResetError, match="before it had answered"):
            exchange(server.getsockname(), ApiKey.METADATA, 5, topics=())
        answering.join()


def test_waiting_ends_with_the_event_waited_for() -> None:
    def fails() -> bool:
        raise OSError("still down")

    with pytest.raises(KafkaTimeoutError, match=r"after 0 s: it is not up \(still down\)"):
        Admin(list).wait_until(fails, 0, "it is not up")
