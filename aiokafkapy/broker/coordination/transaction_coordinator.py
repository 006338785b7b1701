"""The transaction coordinator: the producer that may write under a transactional id, and the end of its transactions.

Owns every transactional id and decides each request on one; ``transaction`` has the effect of a step on an id,
``transaction_markers`` brings an outcome to the partitions and groups. It knows no message class, no socket and no
node; ``now`` is an argument. Kafka's counterparts are ``TransactionCoordinator`` and ``TransactionStateManager``.

Rules:

- a change is in the journal before anybody hears of it, and before any marker is written; so after ``kill -9`` an
  outcome that was decided is carried out, and a transaction that was open is still open, with its whole time-out;
- a change that the journal refuses does not happen: KafkaStorageError, and the id is as it was;
- the answer to an end comes when it is decided; a producer that comes again before the markers are written gets
  CONCURRENT_TRANSACTIONS;
- an abort by time, or by a second producer of the same id, raises the epoch: in version 1 before it, in version 2 with
  it, as every end does, so that a producer that asks for the same abort afterwards is told of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ...common import TopicPartition
from ...errors import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdNotFoundError,
)
from ..config import BrokerConfig
from ..features import TRANSACTION_VERSION, Features
from ..storage.journal import Journal
from .transaction import (
    LAST_EPOCH,
    NEVER_MS,
    NO_EPOCH,
    NO_PRODUCER,
    Addition,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
)

__all__ = ["Markers", "TakenId", "TransactionCoordinator"]

REMEDY: Final = "remove that line, or the file, to start without the transactional ids there"


class TakenId(NamedTuple):
    """A producer's identity, and that of the producer whose transaction was left open."""

    producer: ProducerIdAndEpoch
    ongoing: ProducerIdAndEpoch = NO_PRODUCER


class Markers(Protocol):
    """Writes a transaction's outcome to its partitions and groups."""

    def write(self, transaction: TransactionMetadata) -> bool:
        """Write a marker to each partition and group where that is possible now, and take it out of the transaction;
        False when some are left, and it is to be tried again.
        """


class TransactionCoordinator:
    """All transactional ids of the cluster."""

    def __init__(
        self,
        config: BrokerConfig,
        markers: Markers,
        new_producer_id: Callable[[], int],
        *,
        now: float,
        features: Features,
        data_dir: Path | str | None = None,
    ) -> None:
        """Reads the ids in ``data_dir``; ``resume`` carries out the decisions. DamagedFileError, OSError."""
        self._config = config
        self._features = features
        self._markers = markers
        self._new_producer_id = new_producer_id
        self._transactions: dict[str, TransactionMetadata] = {}
        self._ending: set[str] = set()
        self.on_deadline: Callable[[float], object] = _ignored
        """Called with the deadline of each transaction that begins."""
        self._is_holding = False
        path = None if data_dir is None else Path(data_dir) / "transactions.jsonl"
        self._journal = Journal(path, REMEDY)
        for document in self._journal.load():
            transaction = TransactionMetadata.of(document)
            self._transactions[transaction.transactional_id] = transaction
        for transaction in self:
            if transaction.state is TransactionState.ONGOING:
                transaction.watch(now)
            elif transaction.is_ending:
                self._ending.add(transaction.transactional_id)
        self._journal.rewrite(self._documents())

    # looking up

    def __iter__(self) -> Iterator[TransactionMetadata]:
        return iter(tuple(self._transactions.values()))

    def get(self, transactional_id: str) -> TransactionMetadata:
        """The state of an id. Raises TransactionalIdNotFoundError."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise TransactionalIdNotFoundError
        return transaction

    def next_producer_id(self) -> int:
        """The producer id after the highest one of any transactional id."""
        ids = (max(each.producer_id, each.previous_producer_id, each.next_producer_id) for each in self)
        return max(ids, default=-1) + 1

    # requests

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None = None,
        *,
        has_two_phases: bool = False,
        keeps_prepared: bool = False,
    ) -> TakenId:
        """Producer id and epoch for a producer that starts, or that has ``expected`` and asks for the next epoch
        (KIP-360).

        ``has_two_phases``: its transactions have no time-out. ``keeps_prepared``: an open transaction stays so, and it
        is told which one (KIP-939).

        Raises InvalidRequestError, InvalidTransactionTimeoutError, ProducerFencedError; ConcurrentTransactionsError
        when a transaction has to end first, which an open one does by being aborted; KafkaStorageError.
        """
        if not transactional_id:
            raise InvalidRequestError("A transactional id is not empty.")
        if has_two_phases:
            timeout_ms = NEVER_MS
        elif not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            raise InvalidTransactionTimeoutError(
                f"The transaction timeout {timeout_ms} ms is not from 1 to transaction.max.timeout.ms, "
                f"{self._config.transaction_max_timeout_ms}"
            )
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            transaction = TransactionMetadata(transactional_id, self._new_producer_id(), timeout_ms)
        if expected is not None and not _may_have(transaction, expected):
            raise ProducerFencedError
        self._check_ended(transaction)
        if transaction.state is TransactionState.ONGOING:
            if keeps_prepared and not transaction.is_epoch_exhausted:
                return self._keep_open(transaction)
            self._abort_for(transaction)
            raise ConcurrentTransactionsError
        changed = transaction.copy()
        expected_epoch = None if expected is None else expected.epoch
        if transaction.is_epoch_exhausted and expected_epoch in (None, transaction.producer_epoch):
            last_epoch = NO_EPOCH if expected is None else transaction.producer_epoch
            changed.rotate(self._new_producer_id(), timeout_ms, last_epoch)
        elif expected_epoch is None or transaction.producer_epoch == NO_EPOCH:
            changed.bump(timeout_ms, NO_EPOCH)
        elif expected_epoch == transaction.producer_epoch:
            changed.bump(timeout_ms, expected_epoch)
        elif expected_epoch != transaction.last_producer_epoch:
            raise ProducerFencedError
        self._keep(changed)
        return TakenId(changed.producer)

    def add(self, addition: Addition, now: float, now_ms: int) -> None:
        """Take partitions, or the offsets of groups, into the transaction, which begins with the first.

        Raises InvalidRequestError, InvalidProducerIdMappingError, ProducerFencedError, ConcurrentTransactionsError,
        KafkaStorageError.
        """
        transaction = self._of_producer(addition.transactional_id, addition.producer)
        self._check_ended(transaction)
        if (
            transaction.state is TransactionState.ONGOING
            and transaction.partitions.issuperset(addition.partitions)
            and transaction.groups.issuperset(addition.groups)
        ):
            return
        changed = transaction.copy()
        changed.add(addition, now, now_ms)
        self._keep(changed)
        if changed.deadline is not None:
            self.on_deadline(changed.deadline)

    def verify(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partition: TopicPartition | None = None,
        *,
        group: str | None = None,
    ) -> None:
        """Raise unless the partition, or the group, is in the producer's open transaction (KIP-890).

        As ``add``, and TransactionAbortableError.
        """
        transaction = self._of_producer(transactional_id, producer)
        self._check_ended(transaction)
        is_open = transaction.state is TransactionState.ONGOING
        if not is_open or not (partition in transaction.partitions or group in transaction.groups):
            raise TransactionAbortableError

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, is_commit: bool, version: int
    ) -> ProducerIdAndEpoch:
        """Commit or abort; the producer of the next transaction. ``version`` is the producer's: 2 bumps.

        Raises InvalidRequestError, InvalidProducerIdMappingError, ProducerFencedError, InvalidTxnStateError,
        ConcurrentTransactionsError while the same end is carried out, KafkaStorageError.
        """
        if not transactional_id:
            raise InvalidRequestError("A transactional id is not empty.")
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMappingError
        is_retry = version >= 2 and _is_retry_of_end(transaction, producer)
        if not is_retry:
            _check_producer(transaction, producer)
        state = transaction.state
        if state is TransactionState.ONGOING and not is_retry:
            self._end(transaction, is_commit=is_commit, version=version)
            return self._transactions[transactional_id].next_producer
        if transaction.is_ending:
            if is_commit != (state is TransactionState.PREPARE_COMMIT):
                raise InvalidTxnStateError
            self._check_ended(transaction)
        if version >= 2 and not is_retry and not is_commit:
            # Nothing was added, and still the next transaction gets its own epoch.
            self._end(transaction, is_commit=False, version=version)
            return self._transactions[transactional_id].next_producer
        is_same = state is (TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT)
        if not is_same or (version >= 2 and not is_retry):
            raise InvalidTxnStateError
        return transaction.next_producer

    # time, and later steps

    @property
    def is_holding(self) -> bool:
        """Whether outcomes are decided and not carried out."""
        return self._is_holding

    def next_deadline(self) -> float | None:
        """The first deadline of an open transaction; None when none is open."""
        return min((each.deadline for each in self if each.deadline is not None), default=None)

    def expire(self, now: float, transactional_id: str | None = None) -> int:
        """Abort the transactions that are over their time, or one id's; returns their number. KafkaStorageError."""
        expired = [
            each
            for each in self
            if each.deadline is not None and each.deadline <= now and transactional_id in (None, each.transactional_id)
        ]
        for transaction in expired:
            self._abort_for(transaction)
        return len(expired)

    def hold(self, is_held: bool) -> None:
        """Decide outcomes without carrying them out, until it is called with False. KafkaStorageError."""
        self._is_holding = is_held
        if not is_held:
            self.resume()

    def resume(self) -> None:
        """Carry out the decisions: at start, and whenever a partition has a leader again. KafkaStorageError."""
        for transactional_id in tuple(self._ending):
            self._carry_out(self._transactions[transactional_id])

    def close(self) -> None:
        """Close the file; idempotent."""
        self._journal.close()

    # internals

    def _of_producer(self, transactional_id: str, producer: ProducerIdAndEpoch) -> TransactionMetadata:
        if not transactional_id:
            raise InvalidRequestError("A transactional id is not empty.")
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMappingError
        _check_producer(transaction, producer)
        return transaction

    def _check_ended(self, transaction: TransactionMetadata) -> None:
        """Raise ConcurrentTransactionsError when markers are still to be written, after another try to write them."""
        if transaction.is_ending:
            self._carry_out(transaction)
            raise ConcurrentTransactionsError

    def _keep_open(self, transaction: TransactionMetadata) -> TakenId:
        changed = transaction.copy()
        changed.keep_open()
        self._keep(changed)
        return TakenId(changed.producer, ProducerIdAndEpoch(changed.producer_id, changed.open_epoch))

    def _abort_for(self, transaction: TransactionMetadata) -> None:
        """Abort an open transaction that its producer does not end."""
        version = max(1, self._features[TRANSACTION_VERSION])
        fenced = transaction.copy()
        fenced.fence(version)
        self._end(fenced, is_commit=False, version=version)

    def _end(self, transaction: TransactionMetadata, *, is_commit: bool, version: int) -> None:
        changed = transaction.copy()
        next_id = self._new_producer_id() if version >= 2 and transaction.producer_epoch >= LAST_EPOCH else -1
        changed.prepare(is_commit=is_commit, version=version, next_producer_id=next_id)
        self._keep(changed)
        self._carry_out(changed)

    def _carry_out(self, transaction: TransactionMetadata) -> None:
        if self._is_holding:
            return
        changed = transaction.copy()
        if self._markers.write(changed):
            changed.complete()
        if changed != transaction:
            self._keep(changed)

    def _keep(self, transaction: TransactionMetadata) -> None:
        self._journal.append(transaction.document())
        self._transactions[transaction.transactional_id] = transaction
        if transaction.is_ending:
            self._ending.add(transaction.transactional_id)
        else:
            self._ending.discard(transaction.transactional_id)
        self._journal.rewrite_if_stale(len(self._transactions), self._documents)

    def _documents(self) -> Iterator[object]:
        return (transaction.document() for transaction in self._transactions.values())


def _ignored(deadline: float) -> None:
    """The default of ``on_deadline``."""


def _check_producer(transaction: TransactionMetadata, producer: ProducerIdAndEpoch) -> None:
    if producer.producer_id != transaction.producer_id:
        raise InvalidProducerIdMappingError
    if producer.epoch != transaction.producer_epoch:
        raise ProducerFencedError


def _may_have(transaction: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
    """Java's ``isValidProducerId``: the id is this one, or the last whose epochs were used up."""
    return (
        transaction.producer_epoch == NO_EPOCH
        or producer.producer_id == transaction.producer_id
        or (producer.producer_id == transaction.previous_producer_id and producer.epoch >= LAST_EPOCH)
    )


def _is_retry_of_end(transaction: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
    """Whether the producer asks again for an end that has raised its epoch, or given it a new id."""
    if transaction.version < 2 or not (transaction.is_ending or transaction.is_complete):
        return False
    producer_id, epoch = producer
    if producer_id == transaction.producer_id:
        return epoch == transaction.last_producer_epoch == transaction.producer_epoch - 1
    return producer_id == transaction.previous_producer_id and epoch == LAST_EPOCH and transaction.producer_epoch == 0
