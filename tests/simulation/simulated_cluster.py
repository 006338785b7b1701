"""The dev broker on a simulated network: all of it but its listening sockets, with replication that takes time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Literal

from aiokafkapy.broker import DevBroker
from aiokafkapy.broker.context import RequestContext
from aiokafkapy.broker.coordination.transaction import TransactionState
from aiokafkapy.broker.faults import Fault
from aiokafkapy.broker.handlers.leadership import find_partition
from aiokafkapy.broker.storage.log_validator import the_batch
from aiokafkapy.broker.storage.topics import Partition
from aiokafkapy.common import Headers, TopicPartition
from aiokafkapy.errors import KafkaError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.batch import ControlType, RecordBatch

from .faults import ONLY_OF_NEW_BATCHES
from .replication import Replication, topic_of
from .simulated_disk import SimulatedDisk
from .simulated_network import SimulatedNetwork

__all__ = ["SimulatedCluster"]

TOPIC = "simulated"

NEVER_MS = 10**15


class SimulatedCluster:
    """Several nodes, one topic, and the verbs of ``faults``."""

    def __init__(
        self,
        network: SimulatedNetwork,
        chance: random.Random,
        trace: Callable[..., None],
        *,
        transactional_ids: Sequence[str] = (),
        groups: Sequence[str] = (),
        transaction_version: Literal[1, 2] = 2,
        disk: SimulatedDisk | None = None,
    ) -> None:
        """``transactional_ids`` and ``groups`` are those whose coordinators may move, ``disk`` that of the
        producers' machine.
        """
        self.network = network
        self.disk = disk if disk is not None else SimulatedDisk(random.Random())  # on which nobody has a spool
        self.transactional_ids = transactional_ids
        self.groups = groups
        self.broker = DevBroker(
            nodes=chance.randint(1, 3),
            num_network_threads=1,
            num_io_threads=chance.choice((1, 3)),
            queued_max_requests=chance.choice((1, 500)),
            transaction_version=transaction_version,
            # The broker's wall clock is not the simulation's, by which records get their times: it would drop them.
            log_retention_check_interval_ms=NEVER_MS,
            log_cleaner_backoff_ms=NEVER_MS,
        )
        self.expired_transactions = 0
        self.controls = self.broker.controls
        self.replication = Replication(self.broker, chance, trace)
        self.partitions = chance.choice((1, 1, 2, 5))
        self._max_message_bytes = chance.choice((1_048_588, 1_048_588, 1_500))
        # A compacted topic refuses the records of a batch that have no key, and names them.
        self._cleanup_policy = chance.choice(("delete", "delete", "delete", "compact"))
        self._failing: list[_Failing] = []
        self._refused: dict[tuple[int, ...], int] = {}
        self._armed: list[Fault] = []

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
        """Stop a node; ``is_crash``: records that only it had are gone."""
        if is_crash:
            self.replication.truncate(node_id)
        self.controls.stop_node(node_id)

    def move_leader(self, partition: int, node_id: int | None) -> None:
        """To this node or, when it does not run, to one that does."""
        self.controls.set_leader(TOPIC, partition, self._running(node_id))

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

    def move_coordinators(self, node_id: int | None) -> None:
        """Of all transactional ids and groups, to this node or, when it does not run, another one; None: nowhere."""
        node_id = self._running(node_id)
        for key in (*self.transactional_ids, *self.groups):
            self.controls.move_coordinator(key, node_id)

    def expire_transactions(self) -> None:
        """Abort open transactions, as if their time were over."""
        self.expired_transactions += self.controls.expire_transactions()

    def heal(self) -> None:
        """Everything is well from here on; connections that vanished stay so."""
        self.network.heal()
        self.disk.heal()
        self.controls.clear()
        self.controls.on_request(ApiKey.PRODUCE, self._on_produce)
        self.replication.delay = (0.0, 0.002)
        self.replication.twice = 0
        self._failing.clear()
        for node in self.broker.nodes:
            self.controls.start_node(node.node_id)
        self.move_coordinators(1)
        for partition in self._partitions():
            if partition.leader is None:
                self.move_leader(partition.index, 1)

    def values(self) -> dict[int, list[bytes]]:
        """The records in the logs, by partition and offset; where a transaction's end is marked there is nothing."""
        found: dict[int, list[bytes]] = {}
        for partition in self._partitions():
            values = found[partition.index] = []
            for batch in partition.log._batches(0):
                assert batch.base_offset == len(values)
                records = [] if batch.is_control else batch.records(TOPIC, partition.index)
                values += [record.value or b"" for record in records] or [b""]
        return found

    def committed_values(self) -> dict[int, list[bytes]]:
        """The records that readers with ``read_committed`` see, by partition and in order; from the markers in the
        logs.
        """
        found: dict[int, list[bytes]] = {}
        for partition in self._partitions():
            pending: dict[int, list[tuple[int, bytes]]] = {}
            committed: list[tuple[int, bytes]] = []
            for batch in partition.log._batches(0):
                values = [] if batch.is_control else batch.records(TOPIC, partition.index)
                if batch.is_control:
                    ended = pending.pop(batch.producer_id, [])
                    committed += ended if batch.control_type() is ControlType.COMMIT else []
                else:
                    place = pending.setdefault(batch.producer_id, []) if batch.is_transactional else committed
                    place += [(record.offset, record.value or b"") for record in values]
            found[partition.index] = [value for _, value in sorted(committed)]
        return found

    def headers(self) -> dict[bytes, Headers]:
        """The records in the logs, by the values, which are all different."""
        return {
            record.value or b"": tuple(record.headers)
            for partition in range(self.partitions)
            for record in self.broker.records(TOPIC, partition)
        }

    def unfinished(self) -> list[str]:
        """The transactions that have not come to their end, and the partitions whose readers wait for one."""
        found = [
            f"{each.transactional_id} is {each.state.value}"
            for each in self.broker.state.transactions
            if each.is_ending or each.state is TransactionState.ONGOING
        ]
        return found + [
            f"{partition} is stable up to {partition.log.last_stable_offset} of {partition.log.end_offset}"
            for partition in self._partitions()
            if partition.log.last_stable_offset != partition.log.end_offset
        ]

    def committed_offset(self, group_id: str) -> int | None:
        """A group's committed offset of the first partition."""
        found = self.broker.state.groups.offsets.get(group_id).get(TopicPartition(TOPIC, 0))
        return None if found is None else found.offset

    # internals

    def _running(self, node_id: int | None) -> int | None:
        running = [node.node_id for node in self.broker.running_nodes]
        return node_id if node_id is None or node_id in running else next(iter(running), None)

    def _partitions(self) -> list[Partition]:
        topic = self.broker.state.topics.get(TOPIC)
        assert topic is not None
        return topic.partitions

    def _on_produce(self, context: RequestContext, body: Any) -> Any:
        # Those of the request before this one that nobody asked for: they must not hit another batch.
        armed = self.controls.faults.armed
        self.controls.faults.armed = [fault for fault in armed if fault not in self._armed]
        self._armed.clear()
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
                    # In front of the errors for any batch, which would be taken first, and leave this one to another.
                    self._armed.append(Fault(int(ApiKey.PRODUCE), code, False, topic.name, data.index))
                    self.controls.faults.armed.insert(0, self._armed[-1])

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
