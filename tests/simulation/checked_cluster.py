"""The cluster of our own scenarios: one topic of drawn options, and its records and transactions read from the logs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Literal

from aiokafkapy.broker import DevBroker
from aiokafkapy.broker.coordination.transaction import TransactionState
from aiokafkapy.broker.storage.topics import Partition, Topic
from aiokafkapy.common import Headers, TopicPartition
from aiokafkapy.record.batch import ControlType
from aiokafkapy.testing.simulation.simulated_cluster import BROKER_OPTIONS, SimulatedCluster
from aiokafkapy.testing.simulation.simulated_network import SimulatedNetwork
from tests.inside import batches_of

__all__ = ["TOPIC", "CheckedCluster"]

TOPIC = "simulated"


class CheckedCluster(SimulatedCluster):
    """See the module."""

    def __init__(
        self,
        network: SimulatedNetwork,
        chance: random.Random,
        trace: Callable[..., None],
        *,
        transactional_ids: Sequence[str] = (),
        groups: Sequence[str] = (),
        transaction_version: Literal[1, 2] = 2,
    ) -> None:
        """``transactional_ids`` and ``groups`` are those whose coordinators may move."""
        broker = DevBroker(
            nodes=chance.randint(1, 3),
            num_io_threads=chance.choice((1, 3)),
            queued_max_requests=chance.choice((1, 500)),
            transaction_version=transaction_version,
            **BROKER_OPTIONS,
        )
        super().__init__(broker, network, chance, trace)
        self._coordinated = [*transactional_ids, *groups]
        self._first_partitions = chance.choice((1, 1, 2, 5))
        self._max_message_bytes = chance.choice((1_048_588, 1_048_588, 1_500))
        # A compacted topic refuses the records of a batch that have no key, and names them.
        self._cleanup_policy = chance.choice(("delete", "delete", "delete", "compact"))

    async def start(self) -> None:
        """Nodes and topic are there when this returns."""
        await super().start()
        self.broker.create_topic(
            TOPIC,
            self._first_partitions,
            max_message_bytes=self._max_message_bytes,
            cleanup_policy=self._cleanup_policy,
        )

    def topics(self) -> list[Topic]:
        """The one that producers write to."""
        topic = self.broker.state.topics.get(TOPIC)
        assert topic is not None
        return [topic]

    def coordinated(self) -> list[str]:
        return self._coordinated

    @property
    def partitions(self) -> int:
        """The number of the topic's partitions by now."""
        return len(self._partitions())

    def values(self) -> dict[int, list[bytes]]:
        """The records in the logs, by partition and offset; nothing at the marker of a transaction's end."""
        found: dict[int, list[bytes]] = {}
        for partition in self._partitions():
            values = found[partition.index] = []
            for batch in batches_of(partition.log):
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
            for batch in batches_of(partition.log):
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

    def _partitions(self) -> list[Partition]:
        return self.topics()[0].partitions
