"""The producer's identity and the next sequences: the idempotent half of Kafka's ``TransactionManager``.

It owns the producer id and epoch, and per partition (Kafka's ``TxnPartitionMap`` and ``TxnPartitionEntry``) the next
sequence number, the last one acknowledged, and the batches that have a sequence and no outcome yet, on the wire or
waiting to be sent again. It knows no sockets and no clock (``now`` is an argument); the accumulator asks it at drain,
the Sender tells it outcomes. For a transactional producer ``TransactionRequests`` gets the id, and ``Transaction``
decides the effect of an error on the open transaction.

Rules, KIP-98 and KIP-360:

- A sequence is given at drain and belongs to those bytes: a retry carries the same one.
- A gap can only be left by a batch that was given a sequence. An expired one that may be on a broker makes its
  partition *unresolved*: nothing new is drained until the batches in flight have answered. Then either all is well, or
- the epoch is bumped. Only the partition that asked is renumbered, and only once none of its batches is on the wire
  and the first of them is not in doubt (a broker that has it would take it again under another number): a batch in
  doubt is sent again unchanged until a broker tells. The batches after it cannot be on a broker without it, so only
  refused batches are renumbered. Java renumbers at once. Other partitions finish with the old epoch, and take the new
  one when they are empty.
- A retried batch is sent only as the first of its partition's in-flight batches; that keeps order.
- A new batch waits while five of its partition have no outcome, or one of them is older than the last one acknowledged:
  after a change of leader they are on their way to two brokers, and the new leader would forget those at the old one.
- Until a partition has acknowledged a batch of this identity, only one batch at a time is in flight there. A broker
  that knows nothing of a producer takes any sequence: if the first batch were refused (by a broker that is not the
  leader yet) and the second taken, the first could never be written. Java sends five, and loses it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Final

from ...common import ExponentialBackoff, TopicPartition
from ...errors import (
    InvalidProducerEpochError,
    KafkaError,
    OutOfOrderSequenceNumberError,
    UnknownProducerIdError,
    for_code,
)
from ...states import StateTable
from .sequenced_batch import (
    BATCHES_REMEMBERED,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SequencedBatch,
    increment_sequence,
)
from .transaction import Transaction

__all__ = [
    "TRANSACTION_MANAGER_STATES",
    "ProducerIdAndEpoch",
    "TransactionManager",
    "TransactionManagerState",
    "TxnPartitionEntry",
]

NO_LAST_ACKED_SEQUENCE: Final = -1
MAX_EPOCH: Final = 2**15 - 1
NO_OFFSET: Final = -1


class TransactionManagerState(enum.Enum):
    """The states of the producer id."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"


_State = TransactionManagerState

TRANSACTION_MANAGER_STATES: Final = StateTable(
    "TransactionManager",
    _State.UNINITIALIZED,
    {
        _State.UNINITIALIZED: {_State.INITIALIZING},
        _State.INITIALIZING: {_State.READY, _State.UNINITIALIZED},
        # Back to the start when the epoch is used up: a new producer id is needed.
        _State.READY: {_State.UNINITIALIZED},
    },
)


class ProducerIdAndEpoch:
    """A producer's identity as InitProducerId gave it, its epoch possibly bumped since. Never changed."""

    __slots__ = ("epoch", "producer_id")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch

    def is_that_of(self, producer_id: int, epoch: int) -> bool:
        """True when it is this identity."""
        return self.producer_id == producer_id and self.epoch == epoch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProducerIdAndEpoch) and self.is_that_of(other.producer_id, other.epoch)

    def __hash__(self) -> int:
        return hash((self.producer_id, self.epoch))

    def __repr__(self) -> str:
        return f"ProducerIdAndEpoch({self.producer_id}, {self.epoch})"


# Looked up once: reading a member off its class costs more than all else in some of these methods.
_UNINITIALIZED: Final = _State.UNINITIALIZED
_READY: Final = _State.READY

NO_IDENTITY: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def last_sequence_of(batch: SequencedBatch) -> int:
    """The sequence of a batch's last record."""
    return increment_sequence(batch.base_sequence, batch.record_count - 1)


def is_before(first: int, second: int) -> bool:
    """True when ``first`` comes before ``second``, also across the wrap."""
    return 0 < (second - first) & MAX_SEQUENCE < 1 << 30


class TransactionManager:
    """Producer id, epoch and sequences of one producer."""

    __slots__ = (
        "_attempts",
        "_backoff",
        "_identity",
        "_is_foreign",
        "_last_error",
        "_partitions",
        "_partitions_to_rewrite",
        "_retry_at",
        "_state",
        "_unresolved",
        "transaction",
    )

    def __init__(self, backoff: ExponentialBackoff, transaction: Transaction | None = None) -> None:
        self.transaction = transaction
        self._state = TRANSACTION_MANAGER_STATES.initial
        self._identity = NO_IDENTITY
        # InitProducerId
        self._backoff = backoff
        self._attempts = 0
        self._retry_at = float("-inf")
        self._last_error: KafkaError | None = None
        # Another cluster gave us our id.
        self._is_foreign = False
        # Sequences
        self._partitions: dict[TopicPartition, TxnPartitionEntry] = {}
        self._partitions_to_rewrite: set[TopicPartition] = set()
        # The sequence that follows the last expired batch, per partition.
        self._unresolved: dict[TopicPartition, int] = {}

    # identity

    @property
    def state(self) -> TransactionManagerState:
        """The state of the producer id."""
        return self._state

    @property
    def producer_id_and_epoch(self) -> ProducerIdAndEpoch:
        """The identity that new batches get; not valid before InitProducerId has succeeded."""
        return self._identity

    @property
    def last_error(self) -> KafkaError | None:
        """The error of the last InitProducerId; None after a success."""
        return self._last_error

    def wants_attention(self) -> bool:
        """True if an id must be requested, a sequence settled or the epoch bumped: almost never."""
        return (
            self._state is _UNINITIALIZED
            or self._is_foreign
            or bool(self._unresolved)
            or bool(self._partitions_to_rewrite)
        )

    def time_to_init_producer_id(self, now: float) -> float | None:
        """Seconds until InitProducerId may be sent; None while it must not be sent."""
        if self._state is not _UNINITIALIZED or self.transaction is not None:
            return None
        return max(0.0, self._retry_at - now)

    def handle_init_producer_id_sent(self) -> None:
        """An InitProducerId request is on its way."""
        self._transition(_State.INITIALIZING)

    def handle_init_producer_id(self, producer_id: int, epoch: int) -> None:
        """A broker gave us an id. Partitions that waited for it to be renumbered are renumbered now."""
        self._transition(_State.READY)
        self._identity = ProducerIdAndEpoch(producer_id, epoch)
        self._attempts = 0
        self._last_error = None
        self._rewrite_partitions()

    def handle_init_producer_id_failed(self, error: KafkaError, now: float) -> None:
        """Go back to the start, until ``time_to_init_producer_id``; ``error`` is kept as ``last_error``."""
        self._transition(_State.UNINITIALIZED)
        self._retry_at = now + self._backoff.delay(self._attempts)
        self._attempts += 1
        self._last_error = error

    def use_identity(self, producer_id: int, epoch: int) -> None:
        """A transaction coordinator gave this identity: partitions take it with their next batch."""
        if self._state is not _READY:
            self._transition(_State.INITIALIZING)
            self._transition(_State.READY)
        self._identity = ProducerIdAndEpoch(producer_id, epoch)
        self.reset_sequences()

    def reset_sequences(self) -> None:
        """Forget all sequences: every batch was aborted, and the next ones get another producer id."""
        self._partitions.clear()
        self._partitions_to_rewrite.clear()
        self._unresolved.clear()

    # asked by the accumulator at drain

    def should_stop_drain_batches_for_partition(self, topic_partition: TopicPartition, first: SequencedBatch) -> bool:
        """True when ``first``, the first batch of the partition, must not be drained now."""
        if self._identity is NO_IDENTITY or self._is_foreign:
            return True
        if self.transaction is not None and self.transaction.must_wait(topic_partition, first.order):
            return True
        if self._partitions_to_rewrite and topic_partition in self._partitions_to_rewrite and first.may_be_renumbered:
            return True
        entry = self._partitions.get(topic_partition)
        if entry is None:
            return False
        oldest = entry.in_flight[0] if entry.in_flight else None
        if first.base_sequence == NO_SEQUENCE:
            # A new epoch starts at 0, so it must not overtake batches of the old one; nor may anything overtake the
            # first batch, see the rules; and while a batch's outcome is unknown, so is the next sequence.
            # Nor may a batch that went to a new leader push those on their way to the old one out of the five that
            # brokers remember: their retries would be out of order for ever.
            if oldest is not None and (
                entry.last_acked_sequence == NO_LAST_ACKED_SEQUENCE
                or not self._is_current(entry)
                or len(entry.in_flight) >= BATCHES_REMEMBERED
                or not is_before(entry.last_acked_sequence, oldest.base_sequence)
            ):
                return True
            return bool(self._unresolved) and topic_partition in self._unresolved
        # A retry: only as the first of those in flight, which keeps order and brings the number in flight to one.
        return oldest is not None and oldest.base_sequence != first.base_sequence

    def stamp(self, batch: SequencedBatch) -> None:
        """Give a new batch our identity and the partition's next sequences, and follow it until it has an outcome.

        An empty partition that still has an old identity begins again with the current one.
        """
        entry = self._entry(batch.destination())
        if not entry.in_flight and not self._is_current(entry):
            entry.start_sequences_at_beginning(self._identity)
        identity, is_transactional = self._identity, self.transaction is not None
        batch.set_producer_state(identity.producer_id, identity.epoch, entry.next_sequence, is_transactional)
        entry.next_sequence = increment_sequence(entry.next_sequence, batch.record_count)
        entry.add(batch)

    def add_in_flight_batch(self, batch: SequencedBatch) -> None:
        """Follow ``batch``, which has its sequence, until it has an outcome."""
        self._entry(batch.destination()).add(batch)

    # told by the Sender

    def remove_in_flight_batch(self, batch: SequencedBatch) -> None:
        """Forget ``batch``: it was split, or has an outcome."""
        entry = self._partitions.get(batch.destination())
        if entry is not None:
            entry.remove(batch)

    def handle_completed_batch(self, batch: SequencedBatch, base_offset: int) -> int:
        """``batch`` is on the broker; ``base_offset`` is -1 when unknown. It may have expired meanwhile.

        Returns -1, or the highest offset acknowledged before, when the batch was written at or below it: records that
        were acknowledged are gone. A batch that the broker had already may lie below a later one.
        """
        entry = self._partitions.get(batch.destination())
        if entry is None or not entry.identity.is_that_of(batch.producer_id, batch.producer_epoch):
            return NO_OFFSET  # the answer to a batch from before a renumbering
        last, lost_from = last_sequence_of(batch), NO_OFFSET
        if entry.last_acked_sequence == NO_LAST_ACKED_SEQUENCE or is_before(entry.last_acked_sequence, last):
            entry.last_acked_sequence = last
            if base_offset != NO_OFFSET:
                if base_offset <= entry.last_acked_offset:
                    lost_from = entry.last_acked_offset
                entry.last_acked_offset = base_offset + batch.record_count - 1
        entry.remove(batch)
        return lost_from

    def handle_failed_batch(
        self, batch: SequencedBatch, error: BaseException, *, adjust_sequence_numbers: bool
    ) -> None:
        """``batch`` failed for good. ``adjust_sequence_numbers``: it is known to be on no broker, so it left a gap."""
        self.remove_in_flight_batch(batch)
        if self.transaction is not None:
            # A batch that had its outcome before its request ended was of a transaction that is over, or failed.
            if not batch.is_done:
                self._fail_transaction(batch, error)
            return
        if not batch.has_sequence:
            return
        if isinstance(error, UnknownProducerIdError) and not adjust_sequence_numbers:
            self._entry(batch.destination()).reset_sequences()
        elif isinstance(error, OutOfOrderSequenceNumberError) or adjust_sequence_numbers:
            self.request_epoch_bump(batch.destination())

    def mark_sequence_unresolved(self, batch: SequencedBatch) -> None:
        """``batch`` expired and may or may not be on the broker: drain no new batch until that is settled.

        In a transaction this is never settled: it can only be aborted, and the next one has another epoch.
        """
        if self.transaction is not None:
            return
        following = increment_sequence(last_sequence_of(batch), 1)
        known = self._unresolved.get(batch.destination())
        if known is None or is_before(known, following):
            self._unresolved[batch.destination()] = following

    def maybe_resolve_sequences(self, is_on_the_wire: Callable[[TopicPartition], bool]) -> None:
        """Settle the unresolved partitions without batches in flight (Java's method of this name)."""
        if not self._unresolved:
            return
        settled = [tp for tp in self._unresolved if not self.has_in_flight_batches(tp) and not is_on_the_wire(tp)]
        for topic_partition in settled:
            entry = self._entry(topic_partition)
            del self._unresolved[topic_partition]
            # When a later batch was acknowledged, the expired one had arrived, and there is no gap.
            if not entry.is_next_sequence(entry.next_sequence):
                self.request_epoch_bump(topic_partition)

    def request_epoch_bump(self, topic_partition: TopicPartition) -> None:
        """Bump the epoch soon and renumber the batches of this partition (KIP-360)."""
        self._partitions_to_rewrite.add(topic_partition)

    def request_new_producer_id(self) -> None:
        """Ask for another id soon, and renumber all partitions: the brokers are another cluster's now.

        There our id may be another producer's, and our batches would be taken for repetitions of its own.
        """
        if self.transaction is not None:
            self.transaction.fail(InvalidProducerEpochError("the cluster is another one now"))
            self.transaction.needs_new_epoch = True
            return
        self._is_foreign = True

    def bump_epoch_if_needed(self, is_on_the_wire: Callable[[TopicPartition], bool]) -> bool:
        """Bump the epoch once no batch of the partitions that asked is on the wire, or first and in doubt; True if so.

        When the epoch is used up, or the id is another cluster's, the producer id is dropped instead; the partitions
        are renumbered when the new id comes.
        """
        if self._is_foreign:
            self._partitions_to_rewrite.update(self._partitions)
        elif not self._partitions_to_rewrite:
            return False
        if self._state is not _READY:
            return False
        if any(map(is_on_the_wire, self._partitions_to_rewrite)):
            return False
        if not self._is_foreign and any(map(self._is_first_in_doubt, self._partitions_to_rewrite)):
            return False
        if self._identity.epoch == MAX_EPOCH or self._is_foreign:
            self._is_foreign = False
            self._transition(_State.UNINITIALIZED)
            self._retry_at = float("-inf")
            self._identity = NO_IDENTITY
            return True
        self._identity = ProducerIdAndEpoch(self._identity.producer_id, self._identity.epoch + 1)
        self._rewrite_partitions()
        return True

    def can_retry(self, code: int, log_start_offset: int, batch: SequencedBatch) -> bool:
        """True when the batch may be sent again after the error ``code``; may ask for an epoch bump as KIP-360 says."""
        topic_partition = batch.destination()
        if self.transaction is not None:
            return self._can_retry_in_transaction(code, batch)
        if code == UnknownProducerIdError.code:
            # The broker lost our state. -1: the partition was moving while it answered, so ask again. Renumbered
            # batches get this answer for their old numbers. Otherwise begin again with a new epoch.
            if log_start_offset != NO_OFFSET and not batch.sequence_has_been_reset:
                self.request_epoch_bump(topic_partition)
            return True
        if code == OutOfOrderSequenceNumberError.code:
            entry = self._entry(topic_partition)
            is_unresolved = topic_partition in self._unresolved
            if not is_unresolved and (batch.sequence_has_been_reset or not entry.is_next_sequence(batch.base_sequence)):
                return True  # an earlier batch is being retried; this one was only too early
            # A real gap, unless the batch behind the expired one has yet to answer.
            if not is_unresolved or self._unresolved[topic_partition] == batch.base_sequence:
                self.request_epoch_bump(topic_partition)
            return True
        return for_code(code).retriable

    # state

    def has_in_flight_batches(self, topic_partition: TopicPartition) -> bool:
        """True when a batch of the partition has a sequence and no outcome yet, on the wire or waiting for a retry."""
        entry = self._partitions.get(topic_partition)
        return entry is not None and bool(entry.in_flight)

    # internals

    def _fail_transaction(self, batch: SequencedBatch, error: BaseException) -> None:
        """A batch without an outcome, or one that left a gap, needs another epoch once the transaction is aborted."""
        transaction = self.transaction
        assert transaction is not None
        transaction.needs_new_epoch |= batch.has_sequence
        cause = error if isinstance(error, KafkaError) else KafkaError(str(error))
        transaction.fail_batch(batch.destination(), batch.order, cause)

    def _can_retry_in_transaction(self, code: int, batch: SequencedBatch) -> bool:
        """An epoch cannot be bumped within a transaction: a gap in the sequences ends it."""
        transaction = self.transaction
        assert transaction is not None
        if code == OutOfOrderSequenceNumberError.code:
            # Only too early; but once the transaction has failed, the batch before may never come.
            entry = self._entry(batch.destination())
            return transaction.takes_partitions and not entry.is_next_sequence(batch.base_sequence)
        return for_code(code).retriable

    def _is_first_in_doubt(self, topic_partition: TopicPartition) -> bool:
        entry = self._partitions.get(topic_partition)
        return entry is not None and bool(entry.in_flight) and not entry.in_flight[0].may_be_renumbered

    def _entry(self, topic_partition: TopicPartition) -> TxnPartitionEntry:
        entry = self._partitions.get(topic_partition)
        if entry is None:
            entry = self._partitions[topic_partition] = TxnPartitionEntry(self._identity)
        return entry

    def _is_current(self, entry: TxnPartitionEntry) -> bool:
        """True when the partition has the identity that new batches get; nearly always it is the very same object."""
        return entry.identity is self._identity or entry.identity.is_that_of(
            self._identity.producer_id, self._identity.epoch
        )

    def _rewrite_partitions(self) -> None:
        for topic_partition in self._partitions_to_rewrite:
            self._entry(topic_partition).start_sequences_at_beginning(self._identity)
            self._unresolved.pop(topic_partition, None)
        self._partitions_to_rewrite.clear()

    def _transition(self, new: TransactionManagerState) -> None:
        self._state = TRANSACTION_MANAGER_STATES.transition(self._state, new)


class TxnPartitionEntry:
    """Sequences of one partition, and its batches that have one and no outcome yet, in sequence order."""

    __slots__ = ("identity", "in_flight", "last_acked_offset", "last_acked_sequence", "next_sequence")

    def __init__(self, identity: ProducerIdAndEpoch) -> None:
        self.identity = identity
        self.next_sequence = 0
        self.last_acked_sequence = NO_LAST_ACKED_SEQUENCE
        self.last_acked_offset = NO_OFFSET
        self.in_flight: list[SequencedBatch] = []

    def add(self, batch: SequencedBatch) -> None:
        """Insert in sequence order; almost always at the end."""
        position = len(self.in_flight)
        while position:
            before = self.in_flight[position - 1]
            if not is_before(batch.base_sequence, before.base_sequence):
                break
            position -= 1
        self.in_flight.insert(position, batch)

    def remove(self, batch: SequencedBatch) -> None:
        """Drop ``batch`` when it is there."""
        for position, candidate in enumerate(self.in_flight):
            if candidate is batch:
                del self.in_flight[position]
                return

    def is_next_sequence(self, sequence: int) -> bool:
        """True when ``sequence`` directly follows the last one acknowledged."""
        if self.last_acked_sequence == NO_LAST_ACKED_SEQUENCE:
            return sequence == 0
        return sequence == increment_sequence(self.last_acked_sequence, 1)

    def start_sequences_at_beginning(self, identity: ProducerIdAndEpoch) -> None:
        """Take a new identity and number the batches in flight from 0."""
        self.identity = identity
        self.reset_sequences()

    def reset_sequences(self) -> None:
        """Number the batches in flight from 0 under the partition's identity."""
        self.next_sequence = self._renumber(self.in_flight)
        self.last_acked_sequence = NO_LAST_ACKED_SEQUENCE

    def _renumber(self, batches: Iterable[SequencedBatch]) -> int:
        sequence = 0
        for batch in batches:
            batch.reset_producer_state(self.identity.producer_id, self.identity.epoch, sequence)
            sequence = increment_sequence(sequence, batch.record_count)
        return sequence
