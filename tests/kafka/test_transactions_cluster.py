"""Transactions on three real nodes, one of which is killed with -9 at a step: whole, once each, and without an error.

Version 2 on Kafka 4, version 1 on Kafka 3.9. A proxy sees the request of the step, and kills the node it was sent to:
before the node has heard of it, or after it has answered and before the answer is out.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import confluent_kafka
import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.common import TopicPartition
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import ApacheKafka, FaultProxy
from aiokafkapy.testing.fault_proxy import Answer, Request
from tests.clusters import started
from tests.reading import committed_values

pytestmark = pytest.mark.kafka

PARTITIONS = 3
TRANSACTIONS = 5
KILLED_IN = 2

COORDINATORS = [
    ("kafka 4", ApiKey.INIT_PRODUCER_ID, "after"),
    ("kafka 4", ApiKey.TXN_OFFSET_COMMIT, "before"),
    ("kafka 4", ApiKey.TXN_OFFSET_COMMIT, "after"),
    ("kafka 4", ApiKey.END_TXN, "before"),
    ("kafka 4", ApiKey.END_TXN, "after"),
    ("kafka 3.9", ApiKey.ADD_PARTITIONS_TO_TXN, "before"),
    ("kafka 3.9", ApiKey.ADD_PARTITIONS_TO_TXN, "after"),
    ("kafka 3.9", ApiKey.ADD_OFFSETS_TO_TXN, "after"),
    ("kafka 3.9", ApiKey.END_TXN, "before"),
    ("kafka 3.9", ApiKey.END_TXN, "after"),
]
DATA_NODES = [(kafka, ApiKey.PRODUCE, when) for kafka in ("kafka 4", "kafka 3.9") for when in ("before", "after")]


@pytest.fixture(scope="module")
def kafka3_of_3_9() -> Iterator[ApacheKafka]:
    with started(ApacheKafka(version="3.9.1", nodes=3)) as kafka:
        yield kafka


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> ApacheKafka:
    """Three nodes, all up, of the version that the parameter names."""
    kafka: ApacheKafka = request.getfixturevalue("kafka3" if request.param == "kafka 4" else "kafka3_of_3_9")
    kafka.restore_blocking()
    return kafka


class Killer:
    """Kills the node that the next request of an API goes to."""

    def __init__(self, kafka: ApacheKafka, net: FaultProxy, api: ApiKey, when: str) -> None:
        self.killed: list[int] = []
        self._kafka = kafka
        self._net = net
        self._api = api
        self._decide = self._before if when == "before" else self._after

    def arm(self) -> None:
        self._net.on_request(self._api, self._decide)

    def _before(self, request: Request) -> Answer:
        self._kill(request)
        return Answer(forward=False, lose=True, cut=True)

    def _after(self, request: Request) -> Answer:
        self._net.on_request(self._api, None)

        def kill(request: Request, _: bytes) -> bytes:
            self._kill(request)
            return b""

        return Answer(replace=kill, cut=True)

    def _kill(self, request: Request) -> None:
        self._net.on_request(self._api, None)
        assert request.node_id is not None
        self._kafka.kill(request.node_id)
        self.killed.append(request.node_id)


@pytest.mark.parametrize(
    ("cluster", "api", "when"),
    COORDINATORS + DATA_NODES,
    indirect=["cluster"],
    ids=lambda value: value.name if isinstance(value, ApiKey) else value,
)
async def test_killed_at_a_request(cluster: ApacheKafka, api: ApiKey, when: str) -> None:
    topic = await new_topic(cluster)
    async with FaultProxy(cluster.bootstrap_servers) as net:
        killer = Killer(cluster, net, api, when)
        if api is ApiKey.INIT_PRODUCER_ID:
            killer.arm()
        async with KafkaProducer(net.bootstrap_servers, transactional_id=topic, linger_ms=0) as producer:
            for number in range(TRANSACTIONS):
                if number == KILLED_IN and api is not ApiKey.INIT_PRODUCER_ID:
                    killer.arm()
                async with producer.transaction():
                    await fill(producer, topic, number)
        assert len(killer.killed) == 1
    await check(cluster, topic)


@pytest.mark.parametrize("cluster", ["kafka 4", "kafka 3.9"], indirect=True)
async def test_killed_while_it_is_open(cluster: ApacheKafka) -> None:
    """The coordinator of the transaction."""
    topic = await new_topic(cluster)
    async with (
        FaultProxy(cluster.bootstrap_servers) as net,
        KafkaProducer(net.bootstrap_servers, transactional_id=topic, linger_ms=0) as producer,
    ):
        for number in range(TRANSACTIONS):
            async with producer.transaction():
                await fill(producer, topic, number)
                if number == KILLED_IN:
                    coordinator = net.requests_of(ApiKey.END_TXN)[-1].node_id
                    assert coordinator is not None
                    cluster.kill(coordinator)
    await check(cluster, topic)


async def new_topic(kafka: ApacheKafka) -> str:
    name = f"killed-{uuid.uuid4().hex[:8]}"
    await kafka.create_topic(name, PARTITIONS, replication_factor=3, config={"min.insync.replicas": "2"})
    return name


async def fill(producer: KafkaProducer, topic: str, number: int) -> None:
    """Records in each partition, some of them awaited, and offsets."""
    value = b"%d" % number
    for partition in range(PARTITIONS):
        await producer.send(topic, value, partition=partition)
        await producer.enqueue(topic, value, partition=partition)
    await producer.send_offsets_to_transaction({TopicPartition(topic, 0): number + 1}, topic)


async def check(kafka: ApacheKafka, topic: str) -> None:
    expected = [b"%d" % number for number in range(TRANSACTIONS) for _ in range(2)]
    assert await committed_values(kafka.bootstrap_servers, topic, PARTITIONS) == expected * PARTITIONS
    assert await asyncio.to_thread(committed_offset, kafka, topic) == TRANSACTIONS


def committed_offset(kafka: ApacheKafka, group: str) -> int:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group}
    consumer = confluent_kafka.Consumer(settings)
    try:
        (found,) = consumer.committed([confluent_kafka.TopicPartition(group, 0)], timeout=30)
        return int(found.offset)
    finally:
        consumer.close()
