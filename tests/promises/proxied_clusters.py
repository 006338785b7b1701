"""The two kinds of cluster on which each promise is tested, behind one interface.

``DevCluster`` is the dev broker, in this process; ``ApacheCluster`` is Apache Kafka. In front of both is a
``FaultProxy``, ``net``, which injects network faults.
"""

from __future__ import annotations

import abc
import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.testing import ApacheKafka, FaultProxy

from ..oracle import read_back

__all__ = ["ApacheCluster", "Cluster", "DevCluster", "Net", "open_dev", "open_kafka"]


class Net(FaultProxy):
    """The network in front of a cluster, which can fail as a whole."""

    def go_down(self) -> None:
        """Close all ports and reset all connections."""
        self.refuse()
        self.cut()

    async def come_back(self) -> None:
        """Open the ports again."""
        await self.accept()


class Cluster(abc.ABC):
    """A running cluster behind a proxy."""

    kind: str

    def __init__(self, net: Net) -> None:
        self.net = net

    @property
    def bootstrap_servers(self) -> str:
        """The address for producers: the proxy's."""
        return self.net.bootstrap_servers

    @property
    @abc.abstractmethod
    def direct_servers(self) -> str:
        """The brokers themselves, past the proxy."""

    def producer(self, **options: Any) -> KafkaProducer[Any, Any]:
        """A producer that is not started. Records expire within 20 s, so that a failing test fails soon."""
        if "delivery_timeout_ms" not in options:
            options = {"delivery_timeout_ms": 20_000, "request_timeout_ms": 10_000} | options
        return KafkaProducer(self.bootstrap_servers, **options)

    @abc.abstractmethod
    async def create_topic(
        self, partitions: int = 1, config: Mapping[str, str] | None = None, name: str | None = None
    ) -> str:
        """Create a topic with a new name, or this one; returns its name."""

    @abc.abstractmethod
    async def values(self, topic: str) -> dict[int, list[bytes | None]]:
        """The values in the log by partition, read past the proxy; None is a tombstone."""

    async def log(self, topic: str, partition: int = 0) -> list[bytes]:
        """The values in one partition's log, which must have no tombstone."""
        values = (await self.values(topic))[partition]
        written = [value for value in values if value is not None]
        assert len(written) == len(values), f"{topic}-{partition} has tombstones"
        return written

    @abc.abstractmethod
    async def leader_of(self, topic: str, partition: int = 0) -> int:
        """The node that leads a partition."""

    @abc.abstractmethod
    async def crash(self, node_id: int) -> None:
        """Kill a node."""

    @abc.abstractmethod
    async def restart(self, node_id: int) -> None:
        """Start a killed node again, with its data."""


class DevCluster(Cluster):
    """The dev broker."""

    kind = "dev"

    def __init__(self, broker: DevBroker, net: Net) -> None:
        super().__init__(net)
        self.broker = broker

    @property
    def direct_servers(self) -> str:
        return self.broker.bootstrap_servers

    async def create_topic(
        self, partitions: int = 1, config: Mapping[str, str] | None = None, name: str | None = None
    ) -> str:
        name = name or new_name()
        self.broker.create_topic(name, partitions, config=config)
        return name

    async def values(self, topic: str) -> dict[int, list[bytes | None]]:
        found: dict[int, list[bytes | None]] = {}
        created = self.broker.state.topics.get(topic)
        assert created is not None, topic
        for partition in created.partitions:
            records = self.broker.records(topic, partition.index)
            assert [record.offset for record in records] == list(range(len(records)))
            found[partition.index] = [record.value for record in records]
        return found

    async def leader_of(self, topic: str, partition: int = 0) -> int:
        found = self.broker.state.topics.partition(topic, partition)
        assert found is not None, f"{topic}-{partition}"
        assert found.leader is not None, f"{topic}-{partition} has no leader"
        return found.leader

    async def crash(self, node_id: int) -> None:
        self.broker.controls.stop_node(node_id)

    async def restart(self, node_id: int) -> None:
        self.broker.controls.start_node(node_id)


class ApacheCluster(Cluster):
    """Apache Kafka."""

    kind = "kafka"

    def __init__(self, kafka: ApacheKafka, net: Net) -> None:
        super().__init__(net)
        self.kafka = kafka

    @property
    def direct_servers(self) -> str:
        return self.kafka.bootstrap_servers

    async def create_topic(
        self, partitions: int = 1, config: Mapping[str, str] | None = None, name: str | None = None
    ) -> str:
        name = name or new_name()
        await self.kafka.create_topic(name, partitions, config=config)
        return name

    async def values(self, topic: str) -> dict[int, list[bytes | None]]:
        logs = await read_back(self.direct_servers, topic)
        return {partition: [record.value for record in records] for partition, records in logs.items()}

    async def leader_of(self, topic: str, partition: int = 0) -> int:
        return await self.kafka.leader_of(topic, partition)

    async def crash(self, node_id: int) -> None:
        await asyncio.to_thread(self.kafka.kill, node_id)

    async def restart(self, node_id: int) -> None:
        await self.kafka.start(node_id)


@asynccontextmanager
async def open_dev(nodes: int, **config: Any) -> AsyncIterator[DevCluster]:
    """A dev broker with a proxy."""
    async with (
        DevBroker(nodes=nodes, **config) as broker,
        Net(broker.bootstrap_servers) as net,
    ):
        yield DevCluster(broker, net)


@asynccontextmanager
async def open_kafka(kafka: ApacheKafka) -> AsyncIterator[ApacheCluster]:
    """A running Apache Kafka with a proxy."""
    async with Net(kafka.bootstrap_servers) as net:
        yield ApacheCluster(kafka, net)


def new_name() -> str:
    """The name of a topic that no other test uses."""
    return f"promise-{uuid.uuid4().hex[:10]}"
