"""The dev broker on a simulated network, with replication that takes time, and the verbs of ``faults``.

Owns the effects of faults on the cluster, and ``heal``. It is given the broker without sockets; it does not know the
expected records.

Rules: a batch that was refused with an error for new batches is refused whenever it comes; a fault for a partition
hits the partition of that number among all existing ones, so that a schedule may be drawn before topics exist.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from ... import errors
from ...broker import DevBroker
from ...broker.context import RequestContext
from ...broker.faults.armed_faults import Fault
from ...broker.handlers.leadership import find_partition
from ...broker.handlers.registry import Answer
from ...broker.storage.log_validator import the_batch
from ...broker.storage.topics import Partition, Topic
from ...errors import KafkaError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ...record.batch import RecordBatch
from .replication import Replication, topic_of
from .simulated_network import SimulatedNetwork

__all__ = ["BROKER_OPTIONS", "ONLY_OF_NEW_BATCHES", "SimulatedCluster"]

_NEVER_MS = 10**15

ONLY_OF_NEW_BATCHES: Final[tuple[type[KafkaError], ...]] = (
    errors.OutOfOrderSequenceNumberError,
    errors.UnknownProducerIdError,
    errors.InvalidProducerEpochError,
    errors.MessageTooLargeError,
    errors.RecordListTooLargeError,
)
"""Codes that a broker never returns for a batch in its log: the producer would write the records a second time."""

BROKER_OPTIONS: Final[dict[str, Any]] = {
    "num_network_threads": 1,
    # The broker's wall clock is not the simulation's, which stamps the records: retention would drop them.
    "log_retention_check_interval_ms": _NEVER_MS,
    "log_cleaner_backoff_ms": _NEVER_MS,
}
"""The options of a broker in a simulation."""


class SimulatedCluster:
    """Several nodes and their topics."""

    def __init__(
        self, broker: DevBroker, network: SimulatedNetwork, chance: random.Random, trace: Callable[..., None]
    ) -> None:
        self.broker = broker
        self.network = network
        self.controls = broker.controls
        self.replication = Replication(broker, chance, trace)
        self.expired_transactions = 0
        self._failing: list[_Failing] = []
        self._refused: dict[tuple[object, ...], int] = {}
        self._armed: list[Fault] = []

    async def start(self) -> None:
        """Start the nodes."""
        await self.broker.start()
        self.controls.on_request(ApiKey.PRODUCE, self._on_produce)

    async def stop(self) -> None:
        """Stop the cluster completely."""
        self.replication.close()
        await self.broker.stop()

    def topics(self) -> list[Topic]:
        """The topics whose partitions faults may hit."""
        return list(self.broker.state.topics)

    def coordinated(self) -> list[str]:
        """The transactional ids and the groups whose coordinators may move."""
        state = self.broker.state
        ids = sorted(each.transactional_id for each in state.transactions)
        return [*ids, *sorted(each.group_id for each in state.groups)]

    def port_of(self, node_id: int) -> int:
        """The node's port, whether it runs or not."""
        return self.broker.nodes[node_id - 1].port

    def stop_node(self, node_id: int, *, is_crash: bool) -> None:
        """Stop a node; ``is_crash``: records that only this node had are lost."""
        if is_crash:
            self.replication.truncate(node_id)
        self.controls.stop_node(node_id)

    def move_leader(self, number: int, node_id: int | None) -> None:
        """Move the leader to this node or, if it does not run, to a running one."""
        partition = self._partition(number)
        if partition is not None:
            self._move_leader(partition, node_id)

    def add_partition(self, number: int, most: int) -> None:
        """Add a partition to the topic of this one, unless it has ``most``; producers have not heard of it."""
        partition = self._partition(number)
        if partition is not None and self.broker.running_nodes:
            topic = self.broker.state.topics.get(partition.topic_name)
            if topic is not None and len(topic.partitions) < most:
                self.broker.state.topics.add_partitions(topic.name, len(topic.partitions) + 1)

    def fail_produce(self, error: type[KafkaError], number: int | None, times: int) -> None:
        """Refuse the next batches of a partition, or whole requests, without appending them."""
        partition = None if number is None else self._partition(number)
        if error in ONLY_OF_NEW_BATCHES:
            self._failing.append(_Failing(error, partition, times))
        elif partition is None:
            self.controls.fail_next(ApiKey.PRODUCE, error, times=times)
        else:
            self.controls.fail_next(ApiKey.PRODUCE, error, partition.topic_name, partition.index, times)

    def move_coordinators(self, node_id: int | None) -> None:
        """Move the coordinators of all transactional ids and groups to this node or, if it does not run, to another
        one; None: nowhere.
        """
        node_id = self._running(node_id)
        for key in self.coordinated():
            self.controls.move_coordinator(key, node_id)

    def expire_transactions(self) -> None:
        """Abort open transactions, as after their time-out."""
        self.expired_transactions += self.controls.expire_transactions()

    def heal(self) -> None:
        """End all faults; vanished connections stay vanished."""
        self.network.heal()
        self.controls.clear()
        self.controls.on_request(ApiKey.PRODUCE, self._on_produce)
        self.replication.delay = (0.0, 0.002)
        self.replication.twice = 0
        self._failing.clear()
        for node in self.broker.nodes:
            self.controls.start_node(node.node_id)
        self.move_coordinators(1)
        for topic in self.topics():
            for partition in topic.partitions:
                if partition.leader is None:
                    self._move_leader(partition, 1)

    # internals

    def _running(self, node_id: int | None) -> int | None:
        running = [node.node_id for node in self.broker.running_nodes]
        return node_id if node_id is None or node_id in running else next(iter(running), None)

    def _partition(self, number: int) -> Partition | None:
        """None while there are no topics."""
        partitions = [partition for topic in self.topics() for partition in topic.partitions]
        return partitions[number % len(partitions)] if partitions else None

    def _move_leader(self, partition: Partition, node_id: int | None) -> None:
        self.controls.set_leader(partition.topic_name, partition.index, self._running(node_id))

    def _on_produce(self, context: RequestContext, body: Struct) -> Answer:
        # Unused errors that were armed for the last request must not hit another batch.
        armed = self.controls.faults.armed
        self.controls.faults.armed = [fault for fault in armed if fault not in self._armed]
        self._armed.clear()
        if self._failing or self._refused:
            self._refuse(context, body)
        return self.replication.handle_produce(context, body)

    def _refuse(self, context: RequestContext, body: Struct) -> None:
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
                    # Before the errors for any batch, which would be taken first, and leave this error to another
                    # batch.
                    fault = Fault(int(ApiKey.PRODUCE), code, after=False, topic=topic.name, partition=data.index)
                    self._armed.append(fault)
                    self.controls.faults.armed.insert(0, fault)

    def _code_for(self, partition: Partition, batch: RecordBatch) -> int | None:
        identity = (
            partition.topic_name,
            partition.index,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.record_count,
        )
        if batch.has_producer_id and identity in self._refused:
            return self._refused[identity]
        for failing in self._failing:
            if failing.partition in (None, partition) and _is_new(partition, batch):
                failing.times -= 1
                self._failing = [each for each in self._failing if each.times]
                self._refused[identity] = int(failing.error.code or 0)
                return self._refused[identity]
        return None


def _is_new(partition: Partition, batch: RecordBatch) -> bool:
    """True if the log lacks this batch: a broker reports a batch that it has."""
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
    """An error for future batches."""

    def __init__(self, error: type[KafkaError], partition: Partition | None, times: int) -> None:
        self.error = error
        self.partition = partition
        self.times = times
