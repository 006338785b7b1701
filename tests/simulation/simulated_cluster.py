"""The dev broker on a simulated network: all of it but its listening sockets, with replication that takes time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from aiokafkapy.broker import DevBroker
from aiokafkapy.broker.context import RequestContext
from aiokafkapy.broker.handlers.leadership import find_partition
from aiokafkapy.broker.storage.log_validator import the_batch
from aiokafkapy.broker.storage.topics import Partition
from aiokafkapy.common import Headers
from aiokafkapy.errors import KafkaError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.batch import RecordBatch

from .faults import ONLY_OF_NEW_BATCHES
from .replication import Replication, topic_of
from .simulated_network import SimulatedNetwork

__all__ = ["SimulatedCluster"]

TOPIC = "simulated"


class SimulatedCluster:
    """Several nodes, one topic, and the verbs of ``faults``."""

    def __init__(self, network: SimulatedNetwork, chance: random.Random, trace: Callable[..., None]) -> None:
        self.network = network
        self.broker = DevBroker(
            nodes=chance.randint(1, 3),
            num_network_threads=1,
            num_io_threads=chance.choice((1, 3)),
            queued_max_requests=chance.choice((1, 500)),
        )
        self.controls = self.broker.controls
        self.replication = Replication(self.broker, chance, trace)
        self.partitions = chance.choice((1, 1, 2, 5))
        self._max_message_bytes = chance.choice((1_048_588, 1_048_588, 1_500))
        # A compacted topic refuses the records of a batch that have no key, and names them.
        self._cleanup_policy = chance.choice(("delete", "delete", "delete", "compact"))
        self._failing: list[_Failing] = []
        self._refused: dict[tuple[int, ...], int] = {}

    async def start(self) -> None:
        """Nodes and topic are there when this returns."""
        await self.broker.start()
        self.broker.create_topic(
            TOPIC, self.partitions, max_message_bytes=self._max_message_bytes, cleanup_policy=self._cleanup_policy
        )
        self.controls.on_request(ApiKey.PRODUCE, self._on_produce)

    async def stop(self) -> None:
        """Nothing of it is left when this returns."""
        self.replication.close()
        await self.broker.stop()

    def port_of(self, node_id: int) -> int:
        """The node's port, whether it runs or not."""
        return self.broker.nodes[node_id - 1].port

    def stop_node(self, node_id: int, *, is_crash: bool) -> None:
        """Stop a node; ``is_crash``: what only it had is gone."""
        if is_crash:
            self.replication.truncate(node_id)
        self.controls.stop_node(node_id)

    def move_leader(self, partition: int, node_id: int | None) -> None:
        """To this node or, when it does not run, to one that does."""
        running = [node.node_id for node in self.broker.running_nodes]
        if node_id is not None and node_id not in running:
            node_id = running[0] if running else None
        self.controls.set_leader(TOPIC, partition, node_id)

    def add_partition(self) -> None:
        """One more, which no producer has heard of."""
        self.partitions += 1
        self.broker.state.topics.add_partitions(TOPIC, self.partitions)

    def fail_produce(self, error: type[KafkaError], partition: int | None, times: int) -> None:
        """Refuse the next batches of a partition, or whole requests, without appending them."""
        if error not in ONLY_OF_NEW_BATCHES:
            self.controls.fail_next(ApiKey.PRODUCE, error, None if partition is None else TOPIC, partition, times)
        else:
            self._failing.append(_Failing(error, partition, times))

    def heal(self) -> None:
        """Everything is well from here on; connections that vanished stay so."""
        self.network.heal()
        self.controls.clear()
        self.controls.on_request(ApiKey.PRODUCE, self._on_produce)
        self.replication.delay = (0.0, 0.002)
        self.replication.twice = 0
        self._failing.clear()
        for node in self.broker.nodes:
            self.controls.start_node(node.node_id)
        topic = self.broker.state.topics.get(TOPIC)
        assert topic is not None
        for partition in topic.partitions:
            if partition.leader is None:
                self.move_leader(partition.index, 1)

    def values(self) -> dict[int, list[bytes]]:
        """What is in the logs, by partition and in order of the offsets, which have no gap."""
        found: dict[int, list[bytes]] = {}
        for partition in range(self.partitions):
            records = self.broker.records(TOPIC, partition)
            assert [record.offset for record in records] == list(range(len(records)))
            found[partition] = [record.value or b"" for record in records]
        return found

    def headers(self) -> dict[bytes, Headers]:
        """What is in the logs, by the values, which are all different."""
        return {
            record.value or b"": tuple(record.headers)
            for partition in range(self.partitions)
            for record in self.broker.records(TOPIC, partition)
        }

    # internals

    def _on_produce(self, context: RequestContext, body: Any) -> Any:
        if self._failing or self._refused:
            self._refuse(context, body)
        return self.replication.handle_produce(context, body)

    def _refuse(self, context: RequestContext, body: Any) -> None:
        """Arm the errors of this request's batches. A batch that was refused once is refused whenever it comes."""
        for requested in body.topic_data:
            try:
                topic = topic_of(context, requested)
            except KafkaError:
                continue
            for data in requested.partition_data:
                try:
                    batch = the_batch(data.records or b"")
                    partition = find_partition(topic, data.index)
                except KafkaError:
                    continue
                code = self._code_for(partition, batch)
                if code is not None:
                    self.controls.fail_next(ApiKey.PRODUCE, code, topic.name, data.index)

    def _code_for(self, partition: Partition, batch: RecordBatch) -> int | None:
        identity = (partition.index, batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.record_count)
        if batch.has_producer_id and identity in self._refused:
            return self._refused[identity]
        for failing in self._failing:
            if failing.partition in (None, partition.index) and _is_new(partition, batch):
                failing.times -= 1
                self._failing = [each for each in self._failing if each.times]
                self._refused[identity] = int(failing.error.code or 0)
                return self._refused[identity]
        return None


def _is_new(partition: Partition, batch: RecordBatch) -> bool:
    """Whether the batch is none that the log has: of one that it has, a broker says that it is there."""
    if not batch.has_producer_id:
        return True
    try:
        known = partition.log.producers.check(
            batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence
        )
    except KafkaError:
        return False
    return known is None


class _Failing:
    """An error for batches that are still to come."""

    def __init__(self, error: type[KafkaError], partition: int | None, times: int) -> None:
        self.error = error
        self.partition = partition
        self.times = times
