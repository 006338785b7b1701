"""The transaction coordinator by itself: Kafka's rules of KIP-98, KIP-360, KIP-588 and KIP-890, and its journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.coordination.transaction import (
    LAST_EPOCH,
    Addition,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
)
from aiokafkapy.broker.coordination.transaction_coordinator import TransactionCoordinator
from aiokafkapy.broker.features import Features
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    KafkaStorageError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdNotFoundError,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
S = TransactionState


class Cluster:
    """A coordinator, with the outcomes that its markers were told."""

    def __init__(self, data_dir: Path | None = None, *, can_write: bool = True, version: Literal[1, 2] = 2) -> None:
        self.config = BrokerConfig.of(transaction_version=version)
        self.data_dir = data_dir
        self.can_write = can_write
        self.written: list[tuple[TransactionState, int, set[TopicPartition], set[str]]] = []
        self.ids = 0
        self.now = 0.0
        self.coordinator = self.open()

    def open(self) -> TransactionCoordinator:
        """Open a new coordinator as after a restart, without closing the old one."""
        self.coordinator = TransactionCoordinator(
            self.config, self, self.new_id, now=self.now, features=Features(self.config), data_dir=self.data_dir
        )
        return self.coordinator

    def new_id(self) -> int:
        self.ids += 1
        return self.ids - 1

    def write(self, transaction: TransactionMetadata) -> bool:
        if self.can_write:
            partitions, groups = set(transaction.partitions), set(transaction.groups)
            self.written.append((transaction.state, transaction.producer_epoch, partitions, groups))
        return self.can_write

    def init(self, expected: ProducerIdAndEpoch | None = None) -> ProducerIdAndEpoch:
        return self.coordinator.init_producer_id("tx", 60_000, expected).producer

    def add(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, version: int = 1, **options: Any) -> None:
        self.coordinator.add(Addition("tx", producer, partitions, version=version, **options), self.now, 0)

    def end(self, producer: ProducerIdAndEpoch, *, is_commit: bool = True, version: int = 1) -> ProducerIdAndEpoch:
        return self.coordinator.end("tx", producer, is_commit=is_commit, version=version)

    def state(self) -> TransactionState:
        return self.coordinator.get("tx").state


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_reaches_its_partitions_and_groups(version: int, is_commit: bool) -> None:
    cluster = Cluster()
    producer = cluster.init()
    assert producer == (0, 0)
    cluster.add(producer, A, version=version)
    cluster.add(producer, B, version=version)
    cluster.add(producer, version=version, groups=("g",))
    assert cluster.state() is S.ONGOING
    following = cluster.end(producer, is_commit=is_commit, version=version)
    state = S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT
    epoch = version - 1
    assert cluster.written == [(state, epoch, {A, B}, {"g"})], "in version 2 markers have the next epoch"
    assert following == (0, epoch)
    assert cluster.state() is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
    cluster.add(following, A, version=version)
    assert cluster.coordinator.get("tx").partitions == {A}


def test_an_end_is_idempotent_and_the_other_end_is_not(version: int) -> None:
    cluster = Cluster()
    producer = cluster.init()
    cluster.add(producer, A, version=version)
    following = cluster.end(producer, version=version)
    assert cluster.end(producer, version=version) == following
    with pytest.raises(InvalidTxnStateError):
        cluster.end(producer, is_commit=False, version=version)
    assert len(cluster.written) == 1


def test_a_transaction_never_begun_is_not_committed_and_version_2_may_abort_it() -> None:
    cluster = Cluster()
    producer = cluster.init()
    for is_commit in (True, False):
        with pytest.raises(InvalidTxnStateError):
            cluster.end(producer, is_commit=is_commit)
    with pytest.raises(InvalidTxnStateError):
        cluster.end(producer, version=2)
    assert cluster.end(producer, is_commit=False, version=2) == (0, 1)


def test_a_second_producer_ends_the_first_ones_transaction_and_fences_it(version: int) -> None:
    cluster = Cluster()
    first = cluster.init()
    cluster.add(first, A, version=version)
    with pytest.raises(ConcurrentTransactionsError):
        cluster.init()
    assert [state for state, *_ in cluster.written] == [S.PREPARE_ABORT]
    second = cluster.init()
    assert second.producer_id == first.producer_id
    assert second.epoch > first.epoch
    for call in (lambda: cluster.add(first, A), lambda: cluster.end(first), lambda: cluster.init(first)):
        with pytest.raises(ProducerFencedError):
            call()
    with pytest.raises(InvalidProducerIdMappingError):
        cluster.add(ProducerIdAndEpoch(99, 0), A)
    cluster.add(second, A, version=version)


def test_a_producer_asks_for_its_next_epoch_also_twice() -> None:
    """KIP-360: the answer to the first may have been lost."""
    cluster = Cluster()
    producer = cluster.init()
    following = cluster.init(producer)
    assert following == (0, 1)
    assert cluster.init(producer) == following
    assert cluster.init(following) == (0, 2)
    with pytest.raises(ProducerFencedError):
        cluster.init(producer)


def test_epochs_that_are_used_up_give_a_new_producer_id(version: int) -> None:
    cluster = Cluster()
    producer = cluster.init()
    cluster.coordinator.get("tx").producer_epoch = LAST_EPOCH
    last = producer._replace(epoch=LAST_EPOCH)
    cluster.add(last, A, version=version)
    following = cluster.end(last, version=version)
    if version == 1:
        following = cluster.init()
    assert following == (1, 0)
    cluster.add(following, A, version=version)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_invalid_time_outs_are_refused(timeout_ms: int) -> None:
    with pytest.raises(InvalidTransactionTimeoutError, match=f"{timeout_ms} ms is not from 1 to .*900000"):
        Cluster().coordinator.init_producer_id("tx", timeout_ms)


def test_an_empty_or_unknown_id_is_told_apart() -> None:
    cluster = Cluster()
    with pytest.raises(InvalidRequestError):
        cluster.coordinator.init_producer_id("", 1)
    with pytest.raises(InvalidProducerIdMappingError):
        cluster.end(ProducerIdAndEpoch(0, 0))
    with pytest.raises(TransactionalIdNotFoundError):
        cluster.coordinator.get("tx")


@pytest.mark.parametrize("of_cluster", [1, 2])
def test_time_ends_a_transaction_and_fences_its_producer(version: int, of_cluster: Literal[1, 2]) -> None:
    cluster = Cluster(version=of_cluster)
    told: list[float] = []
    cluster.coordinator.on_deadline = told.append
    producer = cluster.init()
    cluster.now = 5.0
    cluster.add(producer, A, version=version)
    assert told == [65.0]
    cluster.coordinator.expire(64.9)
    assert cluster.state() is S.ONGOING
    cluster.coordinator.expire(cluster.coordinator.next_deadline() or 0)
    assert cluster.state() is S.COMPLETE_ABORT
    assert cluster.coordinator.next_deadline() is None
    if version == of_cluster == 2:
        # The producer is told of the abort that it would have asked for; see KIP-890.
        with pytest.raises(InvalidTxnStateError):
            cluster.end(producer, version=2)
        assert cluster.end(producer, is_commit=False, version=2) == (producer.producer_id, producer.epoch + 1)
    else:
        for is_commit in (True, False):
            with pytest.raises(ProducerFencedError):
                cluster.end(producer, is_commit=is_commit, version=version)


def test_membership_is_verified() -> None:
    cluster = Cluster()
    producer = cluster.init()
    for _ in range(2):
        with pytest.raises(TransactionAbortableError):
            cluster.coordinator.verify("tx", producer, A)
        cluster.add(producer, B, groups=("g",))
    cluster.coordinator.verify("tx", producer, B)
    cluster.coordinator.verify("tx", producer, group="g")
    with pytest.raises(TransactionAbortableError):
        cluster.coordinator.verify("tx", producer, group="h")


def test_markers_that_cannot_be_written_are_tried_again(version: int) -> None:
    cluster = Cluster(can_write=False)
    producer = cluster.init()
    cluster.add(producer, A, version=version)
    following = cluster.end(producer, version=version)
    assert cluster.state() is S.PREPARE_COMMIT
    for call in (
        lambda: cluster.add(following, A),
        lambda: cluster.init(),
        lambda: cluster.end(producer, version=version),
    ):
        with pytest.raises(ConcurrentTransactionsError):
            call()
    with pytest.raises(InvalidTxnStateError):
        cluster.end(producer, is_commit=False, version=version)
    cluster.can_write = True
    cluster.coordinator.resume()
    assert cluster.state() is S.COMPLETE_COMMIT
    cluster.add(following, A, version=version)


@pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_COMMIT])
def test_every_state_survives_a_restart(tmp_path: Path, version: int, state: TransactionState) -> None:
    cluster = Cluster(tmp_path)
    producer = following = cluster.init()
    if state is not S.EMPTY:
        cluster.add(producer, A, version=version)
    cluster.coordinator.hold(state in (S.PREPARE_COMMIT, S.PREPARE_ABORT))
    if state not in (S.EMPTY, S.ONGOING):
        following = cluster.end(producer, is_commit=state is not S.PREPARE_ABORT, version=version)
    assert cluster.state() is state
    before, cluster.now = len(cluster.written), 100.0
    cluster.open().resume()
    assert len(cluster.written) == before + (state in (S.PREPARE_COMMIT, S.PREPARE_ABORT))
    assert cluster.coordinator.next_deadline() == (160.0 if state is S.ONGOING else None), "the whole time-out anew"
    assert cluster.coordinator.next_producer_id() == 1
    cluster.add(following, B, version=version)
    cluster.end(following, version=version)
    assert cluster.state() is S.COMPLETE_COMMIT


def test_a_change_that_the_disk_refuses_does_not_happen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path)
    producer = cluster.init()
    cluster.add(producer, A)

    def fail(*_: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("aiokafkapy.broker.storage.journal.write_all", fail)
        for call in (lambda: cluster.add(producer, B), lambda: cluster.end(producer)):
            with pytest.raises(KafkaStorageError, match="no room"):
                call()
    assert cluster.coordinator.get("tx").partitions == {A}
    assert cluster.written == []
    cluster.end(producer)
    assert cluster.written == [(S.PREPARE_COMMIT, 0, {A}, set())]
