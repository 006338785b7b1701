"""``Transaction``: the state of a transactional producer, and the parts of its open transaction.

Owns the states of Kafka's ``TransactionManager`` that only a transactional producer has, the partitions and groups of
the open transaction, and the effect of an error on it. It knows no sockets, no clock and no asyncio:
``TransactionRequests`` sends the requests that are due, the accumulator asks at drain, the Sender tells which
batches failed.

Rules, KIP-98, KIP-360, KIP-588, KIP-890, KIP-1050:

- Version 2 (``transaction.version``, finalized by the cluster) adds partitions by the Produce request itself, and the
  end of each transaction gives the next epoch. In version 1 a partition is added by a request of its own, before its
  first batch may go. The version changes between transactions only.
- An error of a record or of a request makes the transaction *abortable*: it cannot be committed any more, and the
  producer is as good as new after ``abort``. After a broker's ``fatal`` error (another producer has taken over the id,
  or a right is missing) the producer can only be closed.
- A *prepared* transaction (KIP-939) waits until this producer ends it, or until the next one of its name does, which
  gets the identity that it was prepared with.
- A requested end stays requested until its answer arrives: a commit whose answer was lost counts neither as done nor
  as undone.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from ...common import TopicPartition
from ...errors import (
    BrokerError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    TransactionAbortableError,
    UnknownProducerIdError,
)
from ...states import StateTable

__all__ = ["TRANSACTION_STATES", "PreparedTxnState", "Transaction", "TransactionState"]


@dataclass(frozen=True, slots=True)
class PreparedTxnState:
    """A prepared transaction's name: to be kept with the other system's transaction, as its text (KIP-939)."""

    producer_id: int
    producer_epoch: int

    @classmethod
    def of(cls, text: str) -> Self:
        """The opposite of ``str``. Raises ValueError."""
        found = re.fullmatch(r"(\d{1,19}):(\d{1,5})", text, re.ASCII)
        if found is None:
            raise ValueError(
                f"{text!r} is not a prepared transaction: expected a producer id and its epoch, as in 4711:3"
            )
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.producer_epoch}"


class TransactionState(enum.Enum):
    """Kafka's states, by their names."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in_transaction"
    PREPARED_TRANSACTION = "prepared_transaction"
    COMMITTING_TRANSACTION = "committing_transaction"
    ABORTING_TRANSACTION = "aborting_transaction"
    ABORTABLE_ERROR = "abortable_error"
    FATAL_ERROR = "fatal_error"


_S = TransactionState

TRANSACTION_STATES: Final = StateTable(
    "Transaction",
    _S.UNINITIALIZED,
    {
        _S.UNINITIALIZED: {_S.INITIALIZING, _S.FATAL_ERROR},
        _S.INITIALIZING: {_S.READY, _S.PREPARED_TRANSACTION, _S.FATAL_ERROR},
        _S.READY: {_S.IN_TRANSACTION, _S.FATAL_ERROR},
        _S.IN_TRANSACTION: {
            _S.PREPARED_TRANSACTION,
            _S.COMMITTING_TRANSACTION,
            _S.ABORTING_TRANSACTION,
            _S.ABORTABLE_ERROR,
            _S.FATAL_ERROR,
        },
        _S.PREPARED_TRANSACTION: {_S.COMMITTING_TRANSACTION, _S.ABORTING_TRANSACTION, _S.FATAL_ERROR},
        _S.COMMITTING_TRANSACTION: {_S.READY, _S.ABORTABLE_ERROR, _S.FATAL_ERROR},
        _S.ABORTABLE_ERROR: {_S.ABORTING_TRANSACTION, _S.FATAL_ERROR},
        _S.ABORTING_TRANSACTION: {_S.READY, _S.FATAL_ERROR},
        _S.FATAL_ERROR: (),
    },
)

# After one of these answers to a commit an abort is possible; after any other, not even that.
_COMMIT_MAY_BE_ABORTED: Final = (TransactionAbortableError, UnknownProducerIdError)


class Transaction:
    """The state of one transactional producer. ``on_new_partition`` is called when a partition waits to be added."""

    def __init__(self, transactional_id: str, on_new_partition: Callable[[], None]) -> None:
        self.transactional_id = transactional_id
        self.version = 1
        self.error: KafkaError | None = None
        """The error because of which the transaction cannot be committed, or the producer not be used."""
        self.needs_new_epoch = False
        """An abort must end with a new epoch: a record or a request may still arrive late under this one."""
        self.is_commit_in_doubt = False
        """A commit was sent and has no answer: the coordinator may have received it."""
        self.prepared: PreparedTxnState | None = None
        """The name of the prepared transaction."""
        self.is_held = False
        """The transaction's first records wait for the markers of the transaction before."""
        self.cut: dict[TopicPartition, int] | None = None
        """While this transaction is committed and the next one takes records: the order from which batches belong to
        the next one, by partition; in a partition that is not named all of them do.
        """
        self._next_error: KafkaError | None = None
        self.on_error: Callable[[], None] = lambda: None
        """Called when the transaction cannot be committed any more, or the producer not be used."""
        self._state = TRANSACTION_STATES.initial
        self._on_new_partition = on_new_partition
        # The open transaction
        self.new_partitions: set[TopicPartition] = set()
        self.partitions: set[TopicPartition] = set()
        self.groups: set[str] = set()
        self.unanswered = 0
        """Unanswered requests that add to the transaction, abandoned ones included: the broker may have them already,
        or receive them late.
        """

    @property
    def state(self) -> TransactionState:
        """The state of the transaction."""
        return self._state

    @property
    def fatal_error(self) -> KafkaError | None:
        """The error after which the producer can only be closed."""
        return self.error if self._state is _S.FATAL_ERROR else None

    @property
    def is_open(self) -> bool:
        """True while records may be sent."""
        return self._state is _S.IN_TRANSACTION

    @property
    def takes_partitions(self) -> bool:
        """True while records of the transaction may still have to be sent, also during a commit."""
        return self._state in (_S.IN_TRANSACTION, _S.COMMITTING_TRANSACTION)

    @property
    def is_unfinished(self) -> bool:
        """True from ``begin`` until the transaction has ended, except while it is prepared."""
        return self._state in (
            _S.IN_TRANSACTION,
            _S.COMMITTING_TRANSACTION,
            _S.ABORTING_TRANSACTION,
            _S.ABORTABLE_ERROR,
        )

    @property
    def is_known_to_the_broker(self) -> bool:
        """True when the coordinator may have a transaction to end."""
        return self.has_begun_at_broker or self.unanswered > 0

    @property
    def has_begun_at_broker(self) -> bool:
        """True when the coordinator has a transaction to end, unless it has ended it by itself."""
        return bool(self.partitions or self.groups or self.prepared)

    # life

    def initialize(self) -> None:
        """The producer id is asked for."""
        self._become(_S.INITIALIZING)

    def initialized(self, kept: PreparedTxnState | None = None) -> None:
        """The producer id has arrived, and the transaction that an earlier producer of this name left open has been
        ended, or ``kept``.
        """
        self.prepared = kept
        self._become(_S.READY if kept is None else _S.PREPARED_TRANSACTION)

    def begin(self) -> None:
        """Open a transaction. Raises IllegalStateError, or the fatal error."""
        if self._state is _S.PREPARED_TRANSACTION:
            raise IllegalStateError(
                f"begin_transaction(): the transaction {self.prepared} is prepared, by this producer or an earlier one "
                "of its name: complete_transaction() or abort_transaction() ends it"
            )
        self._expect(_S.READY, "begin_transaction()")
        self._become(_S.IN_TRANSACTION)
        error = self._next_error
        self.forget_next()
        if error is not None:
            self.fail(error)

    def prepare(self, prepared: PreparedTxnState) -> None:
        """Every record has its outcome, and the end is left to an outside coordinator. Raises the error that prevents
        it.
        """
        if self.error is not None:
            raise self.error.fresh()
        self._expect(_S.IN_TRANSACTION, "prepare_transaction()")
        self.prepared = prepared
        self._become(_S.PREPARED_TRANSACTION)

    def check_prepared(self) -> None:
        """Raise IllegalStateError, or the fatal error, unless the transaction is prepared."""
        self._expect(_S.PREPARED_TRANSACTION, "complete_transaction()")

    def start_commit(self) -> None:
        """Take no more records. Raises IllegalStateError, the fatal error, or the error that only allows an abort."""
        if self._state is _S.ABORTABLE_ERROR:
            assert self.error is not None
            raise self.error.fresh()
        if self._state is not _S.COMMITTING_TRANSACTION:  # else the answer to the last commit did not come
            if self._state is not _S.PREPARED_TRANSACTION:
                self._expect(_S.IN_TRANSACTION, "commit_transaction()")
            self._become(_S.COMMITTING_TRANSACTION)

    def check_open(self, call: str) -> None:
        """Raise IllegalStateError, the fatal error, or the error that only allows an abort, unless it is open."""
        if self._state is _S.ABORTABLE_ERROR:
            assert self.error is not None
            raise self.error.fresh()
        self._expect(_S.IN_TRANSACTION, call)

    def start_commit_and_begin(self, cut: dict[TopicPartition, int]) -> None:
        """As ``start_commit``; records from ``cut`` on are the next transaction's."""
        self.start_commit()
        self.cut = cut

    def forget_next(self) -> None:
        """The next transaction has begun, or will not."""
        self.cut = self._next_error = None

    def start_abort(self) -> None:
        """Take no more records. Raises IllegalStateError, or the fatal error."""
        if self._state is _S.COMMITTING_TRANSACTION:
            raise IllegalStateError(
                "abort_transaction(): the commit was asked for, and its outcome is not known: "
                "commit_transaction() asks again"
            )
        if self._state in (_S.ABORTABLE_ERROR, _S.PREPARED_TRANSACTION):
            self._become(_S.ABORTING_TRANSACTION)
        elif self._state is not _S.ABORTING_TRANSACTION:
            self._expect(_S.IN_TRANSACTION, "abort_transaction()")
            self._become(_S.ABORTING_TRANSACTION)

    def ended(self) -> None:
        """The transaction is committed or aborted: the next may begin, unless the producer can only be closed."""
        if self._state is _S.FATAL_ERROR:
            return
        self._become(_S.READY)
        self.error = None
        self.needs_new_epoch = False
        self.is_commit_in_doubt = False
        self.new_partitions.clear()
        self.ended_at_broker()

    def ended_at_broker(self) -> None:
        """The coordinator has ended the transaction; before the next one may begin, an epoch may be needed."""
        self.prepared = None
        self.partitions.clear()
        self.groups.clear()
        self.unanswered = 0

    def fail(self, error: KafkaError) -> None:
        """A record or a request failed: the transaction can only be aborted, or the producer be closed.

        Once a commit is sent, only the coordinator tells the outcome of the transaction.
        """
        if self._state is _S.FATAL_ERROR:
            return
        if isinstance(error, BrokerError) and error.fatal:
            self._end_in(_S.FATAL_ERROR, error)
        elif self._state is _S.IN_TRANSACTION or (
            self._state is _S.COMMITTING_TRANSACTION and not self.is_commit_in_doubt
        ):
            self._end_in(_S.ABORTABLE_ERROR, error)

    def fail_accepting(self, error: KafkaError) -> None:
        """A record was refused before it was in a batch: it is missing in the transaction that takes records now."""
        if self.cut is None:
            self.fail(error)
        elif self._next_error is None:
            self._next_error = error

    def fail_batch(self, topic_partition: TopicPartition, order: int, error: KafkaError) -> None:
        """As ``fail``, for the transaction that the batch belongs to."""
        if self.is_of_next(topic_partition, order):
            self.fail_accepting(error)
        else:
            self.fail(error)

    def end_failed(self, error: KafkaError) -> None:
        """The coordinator refused to commit or to abort, or gave no answer, so that the end stays requested."""
        if isinstance(error, KafkaTimeoutError):
            error.outcome_unknown = self._state is _S.COMMITTING_TRANSACTION
        elif self._state is _S.COMMITTING_TRANSACTION and isinstance(error, _COMMIT_MAY_BE_ABORTED):
            self._end_in(_S.ABORTABLE_ERROR, error)
        elif self._state is not _S.FATAL_ERROR:
            self._end_in(_S.FATAL_ERROR, error)

    # asked by the accumulator at drain

    def is_of_next(self, topic_partition: TopicPartition, order: int) -> bool:
        """True when a batch belongs to the transaction after the one that is being committed."""
        return self.cut is not None and order >= self.cut.get(topic_partition, -1)

    def must_wait(self, topic_partition: TopicPartition, order: int) -> bool:
        """True when this batch may not be sent yet; in version 1 its partition must then be added."""
        if self.is_of_next(topic_partition, order):
            return True
        if topic_partition in self.partitions:
            return False
        if self.version >= 2:
            if self.is_held:
                return True
            self.partitions.add(topic_partition)
            return False
        if topic_partition not in self.new_partitions:
            self.new_partitions.add(topic_partition)
            self._on_new_partition()
        return True

    def added(self, partitions: set[TopicPartition]) -> None:
        """The coordinator knows that these belong to the transaction."""
        self.new_partitions -= partitions
        self.partitions |= partitions

    # errors

    def why_no_record(self) -> KafkaError:
        """The error for a record that cannot be sent now."""
        if self.error is not None:
            return self.error.fresh()
        if self._state is _S.READY:
            return IllegalStateError(
                f"no transaction is open: the producer has transactional_id={self.transactional_id!r}; send inside "
                "`async with producer.transaction():`"
            )
        return IllegalStateError(f"the transaction takes no more records: it is {self._state.value}")

    # internals

    def _expect(self, state: TransactionState, call: str) -> None:
        if self._state is _S.FATAL_ERROR:
            assert self.error is not None
            raise self.error.fresh()
        if self._state is not state:
            raise IllegalStateError(f"{call} needs the state {state.value}; the producer is {self._state.value}")

    def _end_in(self, state: TransactionState, error: KafkaError) -> None:
        self._become(state)
        self.error = error
        self.on_error()

    def _become(self, state: TransactionState) -> None:
        self._state = TRANSACTION_STATES.transition(self._state, state)
