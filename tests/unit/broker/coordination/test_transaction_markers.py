"""The outcome of a transaction in the logs of its partitions and in its groups, when some of them cannot take it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.coordination.group_offsets import CommittedOffset, OffsetStore
from aiokafkapy.broker.coordination.transaction import Addition, ProducerIdAndEpoch, TransactionState
from aiokafkapy.broker.coordination.transaction_coordinator import TransactionCoordinator
from aiokafkapy.broker.coordination.transaction_markers import TransactionMarkers
from aiokafkapy.broker.features import Features
from aiokafkapy.broker.storage.topics import Partition, TopicRegistry
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import ConcurrentTransactionsError, KafkaStorageError

from ..support import make_batch, topic_of

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
PRODUCER = ProducerIdAndEpoch(0, 0)


class Cluster:
    """A transaction over both partitions of ``t`` and the offsets of ``g``, with a record in each partition."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.config = BrokerConfig.of(transaction_version=1)
        self.topics = TopicRegistry(self.config, [1, 2])
        self.topics.create("t", 2)
        self.offsets = OffsetStore()
        self.told: list[Partition] = []
        self.coordinator = self.open()
        self.coordinator.init_producer_id("tx", 60_000)
        self.coordinator.add(Addition("tx", PRODUCER, [A, B], ["g"]), 0.0, 0)
        for partition in self.partitions:
            partition.log.append(make_batch(producer=(*PRODUCER, 0), is_transactional=True), 0, 0)
        self.offsets.add_pending("g", 0, {A: CommittedOffset(7)})

    def open(self) -> TransactionCoordinator:
        """Open a new coordinator as after a restart, without closing the old one."""
        markers = TransactionMarkers(self.topics, self.offsets, self.told.append, lambda: 0)
        self.coordinator = TransactionCoordinator(
            self.config, markers, lambda: 0, now=0.0, features=Features(self.config), data_dir=self.data_dir
        )
        return self.coordinator

    def commit(self) -> None:
        self.coordinator.end("tx", PRODUCER, is_commit=True, version=1)

    @property
    def partitions(self) -> list[Partition]:
        return list(topic_of(self.topics).partitions)

    def state(self) -> TransactionState:
        return self.coordinator.get("tx").state

    @property
    def visible(self) -> list[int]:
        """The records that are committed, by partition: a record and its marker are two."""
        return [partition.log.last_stable_offset for partition in self.partitions]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_partition_without_a_leader_holds_up_no_other_and_none_gets_two_markers(
    cluster: Cluster, restarts: bool
) -> None:
    cluster.topics.set_leader("t", 1, None)
    cluster.commit()
    assert (cluster.visible, cluster.told) == ([2, 0], cluster.partitions[:1])
    assert not cluster.offsets.has_pending("g")
    assert cluster.state() is TransactionState.PREPARE_COMMIT
    with pytest.raises(ConcurrentTransactionsError):
        cluster.coordinator.add(Addition("tx", PRODUCER, [A]), 0.0, 0)
    if restarts:
        cluster.open()
    left = cluster.coordinator.get("tx")
    assert (left.partitions, left.groups) == ({B}, set())
    cluster.topics.set_leader("t", 1, 1)
    cluster.coordinator.resume()
    assert (cluster.visible, cluster.told) == ([2, 2], cluster.partitions)
    assert [partition.log.end_offset for partition in cluster.partitions] == [2, 2]
    assert cluster.state() is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("failing", ["group", "partition"])
def test_a_full_disk_of_one_holds_up_no_other(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KafkaStorageError("no room")

    if failing == "group":
        monkeypatch.setattr(cluster.offsets, "end_pending", fail)
    else:
        monkeypatch.setattr(type(cluster.partitions[0].log), "append_marker", fail)
    cluster.commit()
    left = cluster.coordinator.get("tx")
    assert (left.partitions, left.groups) == ((set(), {"g"}) if failing == "group" else ({A, B}, set()))
    monkeypatch.undo()
    cluster.coordinator.resume()
    assert (cluster.visible, cluster.offsets.has_pending("g")) == ([2, 2], False)
    assert cluster.state() is TransactionState.COMPLETE_COMMIT


def test_a_deleted_partition_needs_no_marker(cluster: Cluster) -> None:
    cluster.topics.delete("t")
    cluster.commit()
    assert cluster.state() is TransactionState.COMPLETE_COMMIT
