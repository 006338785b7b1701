"""``ProducerBatch``: records of one partition that are sent and acknowledged together.

Owns a batch's bytes (in a ``RecordBatchBuilder``), its state, its attempts, and its producer id, epoch and sequence. It
knows no memory limit and no broker: the accumulator decides when it is sent, the Sender what an answer means, and
``batch_successors.py`` makes the batches that its records move on to. Kafka's counterpart has the same name; its states
are drawn in ``BATCH_STATES``.

Rules:

- A batch is done once. A second outcome is ignored: an expired batch may still be answered by a slow broker.
- Once a batch has been given a sequence, a retry sends the same bytes; only ``reset_producer_state`` (an epoch bump,
  KIP-360) changes its header.
- ``order`` is the place of its first record among all records of the partition, so that batches which come back, whole
  or in pieces, find their place in the queue again.
- A record withdrawn before its batch was ever sent gets its outcome at once. Its bytes are left out when the batch is
  sealed, or when most of its records are withdrawn, and not for each: a thousand callers may give up one by one.
- Compiled, batches are invisible to the cyclic collector, which would visit thousands. The one reference cycle goes
  through the account of batches without an outcome: the outcome breaks it, or ``abandon()`` when the producer is thrown
  away.
- ``compress()`` may run in another thread; everything else belongs to the event loop's.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ... import _form as cython
else:
    try:
        import cython
    except ImportError:  # interpreted, where there is no Cython
        from ... import _form as cython

from ...common import NO_LEADER_EPOCH, NO_TIMESTAMP, Buffer, Headers, TopicPartition
from ...errors import IllegalStateError
from ...record.arrow_rows import ArrowRows
from ...record.builder import RecordBatchBuilder
from ...record.compression import Compression, compress, inline_limit
from ...record.layout import MAX_BATCH_SIZE
from ...states import StateTable
from ..deliveries.delivery import Delivery, new_delivery
from ..deliveries.produce_request_result import Move, ProduceRequestResult, Teller, new_result
from ..identity.sequenced_batch import NO_SEQUENCE, SequencedBatch, increment_sequence

if TYPE_CHECKING:
    from .batch_phases import BatchPhases

__all__ = ["BATCH_STATES", "RECORDS_PER_ORDER", "BatchAccount", "BatchState", "ProducerBatch", "new_batch"]

RECORDS_PER_ORDER: Final = 1 << 24
"""``order`` leaves room for this many records in a batch: more than 100 MB of the smallest ones."""


class BatchState(enum.Enum):
    """The states of a batch."""

    OPEN = "takes records"
    CLOSED = "waits to be sent, for the first time or again"
    IN_FLIGHT = "drained: in a request"
    SUCCEEDED = "on the broker"
    FAILED = "given up"
    ABORTED = "thrown away by us"
    SPLIT = "its records live on in other batches"


# Looked up once: reading a member off its class costs more than a change of state.
_OPEN: Final = BatchState.OPEN
_CLOSED: Final = BatchState.CLOSED
_IN_FLIGHT: Final = BatchState.IN_FLIGHT
_SUCCEEDED: Final = BatchState.SUCCEEDED
_UNCOMPRESSED: Final = int(Compression.NONE)
_OUTCOMES: Final = (BatchState.SUCCEEDED, BatchState.FAILED, BatchState.ABORTED, BatchState.SPLIT)

BATCH_STATES: Final = StateTable(
    "ProducerBatch",
    _OPEN,
    {
        BatchState.OPEN: {BatchState.CLOSED},
        # A batch that waits for its retry can still be answered, if the broker was only slow.
        BatchState.CLOSED: {BatchState.IN_FLIGHT, *_OUTCOMES},
        BatchState.IN_FLIGHT: {BatchState.CLOSED, *_OUTCOMES},
        **dict.fromkeys(_OUTCOMES, ()),
    },
)
_changes: Final = BATCH_STATES.changes


class BatchAccount:
    """Counts the outcomes of batches: ``IncompleteBatches`` does. This one counts nothing."""

    __slots__ = ("teller",)

    def __init__(self) -> None:
        # Wakes the tasks that wait for a batch; without it they are woken all at once.
        self.teller: Teller | None = None

    def settled(self, batch: ProducerBatch, delivered: int, failed: int) -> None:
        """The batch has its outcome."""

    def withdrawn(self, count: int) -> None:
        """``count`` records have left their batch, and failed."""

    def replace(self, batch: ProducerBatch, successors: Iterable[ProducerBatch], failed: int) -> None:
        """The batch's records were moved into others, except for those that failed."""


# Not seen by the cyclic collector, see above. Said here and not in the .pxd, for Cython takes it from the source only.
@cython.no_gc
@cython.final
@cython.cclass
class ProducerBatch(SequencedBatch):
    """A batch of one partition. Make one with a builder, append, ``close``, ``seal``, send ``buffers()``, settle it."""

    __slots__ = (
        "_compressed",
        "_incomplete",
        "attempts",
        "attempts_when_leader_last_changed",
        "builder",
        "compression",
        "compression_level",
        "created",
        "current_leader_epoch",
        "drained_at",
        "in_retry",
        "is_being_compressed",
        "is_in_doubt",
        "is_split_batch",
        "is_writable",
        "last_attempt",
        "limit",
        "memory",
        "phases",
        "produce_result",
        "reserved_memory",
        "retry_at",
        "state",
        "topic_partition",
        "wanted",
        "withdrawn",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        builder: RecordBatchBuilder,
        created: float,
        *,
        order: int = 0,
        compression: int = Compression.NONE,
        compression_level: int | None = None,
        incomplete: BatchAccount | None = None,
        is_split_batch: bool = False,
    ) -> None:
        self._open(
            topic_partition, builder, created, order, int(compression), compression_level, incomplete, is_split_batch
        )
        self.record_count = builder.count

    def _open(
        self,
        topic_partition: TopicPartition,
        builder: RecordBatchBuilder,
        created: float,
        order: int,
        compression: int,
        compression_level: int | None,
        incomplete: BatchAccount | None,
        is_split_batch: bool,
    ) -> None:
        self._without_sequence(order, 0)
        self.topic_partition = topic_partition
        self.builder = builder
        self.created = created
        self.is_split_batch = is_split_batch
        self._incomplete = incomplete
        self.produce_result = new_result(topic_partition)
        self.state = _OPEN
        # The batch's memory. ``wanted`` is the memory that the last record lacked, 0 when the batch was full.
        self.is_writable = True
        self.limit = builder.limit
        self.wanted = 0
        self.memory = 0
        self.reserved_memory = 0
        # Compression
        self.compression = compression
        self.compression_level = compression_level
        self.is_being_compressed = False
        self._compressed: Buffer | None = None
        # The indexes of the records that are not to be sent
        self.withdrawn: set[int] | None = None
        # Attempts
        self.attempts = 0
        self.in_retry = False
        self.last_attempt = created
        self.retry_at = created
        self.drained_at = -1.0
        self.current_leader_epoch = NO_LEADER_EPOCH
        self.attempts_when_leader_last_changed = 0
        # An attempt may have been written
        self.is_in_doubt = False
        # The moments on the batch's way, with ``record_timing``
        self.phases: BatchPhases | None = None

    # filling

    def try_append(
        self, timestamp_ms: int, key: Buffer | None, value: Buffer | None, headers: Headers | None
    ) -> Delivery | None:
        """Encode one record (bytes-like or None) and return its delivery; None when the batch is full or closed, or
        when it needs more memory than its builder's ``allowance``, which ``wanted`` then tells.

        An empty batch takes a record of any size. Raises the builder's error for a key, value or header that has
        no bytes; the batch is then as it was.
        """
        if not self.is_writable:
            return None
        size = self.builder.try_append(timestamp_ms, key, value, headers)
        if size <= 0:
            self.wanted = -size
            return None
        index = self.record_count
        self.record_count = index + 1
        return new_delivery(
            self.produce_result,
            index,
            timestamp_ms,
            -1 if key is None else len(key) if type(key) is bytes else _size_of(key),
            len(value) if type(value) is bytes else _size_of(value),
        )

    def append_run(self, timestamp_ms: int, values: Sequence[bytes | None], start: int, stop: int) -> int:
        """Append ``values[start:stop]``, without keys, as long as they fit into the memory that is paid for; return the
        position after them. Raises as ``try_append``; the records before are in the batch.
        """
        builder, position = self.builder, start
        while position < stop:
            first, position = position, builder.append_run(timestamp_ms, values, position, stop)
            self.record_count += position - first
            if position == stop:
                break
            if builder.try_append(timestamp_ms, None, values[position], None) <= 0:
                break
            self.record_count += 1
            position += 1
        return position

    def append_rows(self, rows: ArrowRows, stop: int, most_bytes: int) -> int:
        """Append rows of a table as ``ArrowRows.append_run`` does; returns the memory wanted for more, or 0."""
        before = self.builder.count
        wanted = rows.append_run(self.builder, stop, most_bytes)
        self.record_count += self.builder.count - before
        return wanted

    @property
    def is_full(self) -> bool:
        """True when no more records fit."""
        return not self.is_writable or self.builder.size >= self.limit

    @property
    def size(self) -> int:
        """Bytes on the wire, the batch's header included; before ``seal()``, as if it were not compressed."""
        return self.builder.size

    def settle_memory(self) -> int:
        """Note in ``memory`` the bytes that the builder really holds, and allow it no more; returns by how much it has
        grown.
        """
        capacity = self.builder.capacity
        grown = capacity - self.memory
        self.memory = self.builder.allowance = capacity
        return grown

    def close(self) -> None:
        """Take no more records. May be called again."""
        if self.is_writable:
            self.is_writable = False
            self.produce_result.record_count = self.record_count
            _changes.check(self.state, _CLOSED)
            self.state = _CLOSED

    # sealing

    def compress(self) -> None:
        """Compress the closed batch's records; may run in a thread. ``seal()`` then takes the outcome."""
        view = self.builder.records_view()
        try:
            self._compressed = compress(Compression(self.compression), view, self.compression_level)
        finally:
            view.release()

    @property
    def needs_compression(self) -> bool:
        """True when the records are not compressed yet, and compressing them would block the loop for too long."""
        return (
            self.compression != 0
            and not self.builder.is_sealed
            and self._compressed is None
            and self.builder.records_size > inline_limit(self.compression, self.compression_level)
        )

    def seal(self) -> None:
        """Close the batch and make its bytes final, compressing it now unless a thread has already done so.

        Records that compression would only make longer are sent as they are.
        """
        self.close()
        self.leave_out_withdrawn()
        if self.builder.is_sealed:
            return
        if self.compression and self._compressed is None:
            self.compress()
        payload, self._compressed = self._compressed, None
        if payload is None or len(payload) >= self.builder.records_size:
            self.builder.seal(_UNCOMPRESSED)
        else:
            self.builder.seal(self.compression, payload)

    def destination(self) -> TopicPartition:
        """The batch's partition, as the ``TransactionManager`` asks for it."""
        return self.topic_partition

    def stamp(self) -> None:
        """Write the sealed batch's header, with its identity and sequence."""
        self.builder.stamp(self.producer_id, self.producer_epoch, self.base_sequence, self.is_transactional)

    def buffers(self) -> tuple[Buffer, ...]:
        """The sealed batch's bytes for the transport, not copied."""
        return self.builder.buffers()

    # attempts

    def drained(self, now: float) -> None:
        """The batch goes into a request."""
        _changes.check(self.state, _IN_FLIGHT)
        self.state = _IN_FLIGHT
        self.drained_at = now
        self.sequence_has_been_reset = False

    def reenqueued(self, now: float, backoff: float) -> None:
        """The attempt failed; the next one may begin ``backoff`` seconds from now."""
        _changes.check(self.state, _CLOSED)
        self.state = _CLOSED
        self.attempts += 1
        self.in_retry = True
        self.last_attempt = now
        self.retry_at = now + backoff

    def is_backing_off(self, now: float) -> bool:
        """True while a retry waits, unless the partition has a new leader, which deserves a try at once (KIP-951)."""
        return self.attempts > 0 and now < self.retry_at and not self.has_leader_changed_for_the_ongoing_retry

    def maybe_update_leader_epoch(self, leader_epoch: int) -> None:
        """The metadata has this leader epoch now."""
        if leader_epoch > self.current_leader_epoch:
            self.current_leader_epoch = leader_epoch
            self.attempts_when_leader_last_changed = self.attempts

    @property
    def has_leader_changed_for_the_ongoing_retry(self) -> bool:
        """True when this retry will be the first to go to a newer leader."""
        return self.attempts > 0 and self.attempts == self.attempts_when_leader_last_changed

    @property
    def has_been_sent(self) -> bool:
        """True once the batch was in a request: when it fails without an answer, its outcome is unknown."""
        return self.drained_at >= 0

    @property
    def may_be_taken_back(self) -> bool:
        """True while the batch is on no broker and was in no request, and would leave no gap in the sequences."""
        return self.drained_at < 0 and self.base_sequence == NO_SEQUENCE and not self.is_done

    def has_reached_delivery_timeout(self, delivery_timeout: float, now: float) -> bool:
        """True when ``delivery_timeout`` seconds have passed since the batch was made."""
        # The same sum as the timer's: a difference may round to just below it, and the timer would spin.
        return now >= self.created + delivery_timeout

    # outcome

    def complete(self, base_offset: int, log_append_time_ms: int = NO_TIMESTAMP) -> bool:
        """The broker has the batch. False when it had an outcome already, which stays."""
        if not self._finish(_SUCCEEDED):
            return False
        account, teller = self._incomplete, None
        if account is not None:
            self._incomplete = None
            account.settled(self, self.record_count, 0)
            teller = account.teller
        self.produce_result.succeed(base_offset, log_append_time_ms, teller)
        return True

    def fail(self, error: BaseException | Callable[[int], BaseException]) -> bool:
        """The batch failed: one error for all its records, or one for each index. False when it had an outcome."""
        return self._fail(BatchState.FAILED, error)

    def abort(self, error: BaseException) -> bool:
        """The batch is thrown away, because the producer closes or its transaction is aborted. False as in ``fail``."""
        return self._fail(BatchState.ABORTED, error)

    def abandon(self) -> None:
        """Give the batch up without an outcome: drop its waiters and its account."""
        self.produce_result.abandon()
        self._incomplete = None

    # records that leave

    def withdraw(self, errors: Mapping[int, BaseException]) -> None:
        """Fail these records, by index, and send the batch without them; nothing can be added to it any more.

        Only while it may be taken back, and no thread compresses it; and not for all of its records.
        """
        self.close()
        self.tell_early(errors)
        if self.withdrawn is None:
            self.withdrawn = set()
        self.withdrawn.update(errors)
        self.record_count -= len(errors)
        if self._incomplete is not None:
            self._incomplete.withdrawn(len(errors))

    def leave_out_withdrawn(self) -> None:
        """Write the batch anew without the records that left it, if there are any."""
        withdrawn, self.withdrawn = self.withdrawn, None
        if withdrawn is None:
            return
        self.builder, runs = self.copy_without(withdrawn)
        result, self.produce_result = self.produce_result, new_result(self.topic_partition)
        self.produce_result.record_count = self.record_count
        result.move([Move(index, self.produce_result, index_there) for index, index_there in runs])

    def tell_early(self, errors: Mapping[int, BaseException]) -> None:
        """Tell some records' own outcomes now, by index: the batch stays on its way with all of them.

        A waiter for the batch's outcome, such as a flush, still hears the batch's.
        """
        indexes = sorted(errors)
        told, own = ProduceRequestResult(self.topic_partition), ProduceRequestResult(self.topic_partition)
        told.record_count, own.record_count = len(indexes), self.record_count
        result, self.produce_result = self.produce_result, own
        result.move_all_but(indexes, told, own)
        told.fail([errors[index] for index in indexes].__getitem__)

    def copy_without(self, left_out: Collection[int]) -> tuple[RecordBatchBuilder, list[tuple[int, int]]]:
        """All other records in a new builder, and where each run of them begins: (index here, index there)."""
        # The limit was for filling: with another first timestamp the others may grow by some bytes.
        builder, runs = RecordBatchBuilder(MAX_BATCH_SIZE), []
        builder.expected = self.builder.records_size * (self.builder.count - len(left_out)) // self.builder.count
        was_left_out = True
        for index, (timestamp_ms, key, value, headers) in enumerate(self.builder.records()):
            is_left_out = index in left_out
            if not is_left_out:
                if was_left_out:
                    runs.append((index, builder.count))
                if builder.try_append(timestamp_ms, key, value, headers) <= 0:
                    raise IllegalStateError(f"record {index} of {self!r} does not fit into a batch of its own")
            was_left_out = is_left_out
        return builder, runs

    def pass_on(self, successors: Collection[ProducerBatch], moves: list[Move], failed: int = 0) -> None:
        """Seal ``successors``, in which the records live on but for ``failed`` of them; this batch is done.

        The successors get its identity and consecutive sequences, if it had any. Deliveries follow ``moves``.
        """
        if self.is_done:
            raise IllegalStateError(f"{self!r} has its outcome already")
        sequence = self.base_sequence
        for batch in successors:
            batch.seal()
            batch._incomplete = self._incomplete
            if self.has_sequence:
                batch.set_producer_state(self.producer_id, self.producer_epoch, sequence, self.is_transactional)
                sequence = increment_sequence(sequence, batch.record_count)
        self._finish(BatchState.SPLIT)
        account, self._incomplete = self._incomplete, None
        if account is not None:
            account.replace(self, successors, failed)
        self.produce_result.move(moves)

    def __repr__(self) -> str:
        state = self.state.name
        return f"<ProducerBatch {self.topic_partition} {state}, records={self.record_count}, size={self.size}>"

    # internals

    def _finish(self, outcome: BatchState) -> bool:
        if self.is_done:
            return False
        self.close()
        _changes.check(self.state, outcome)
        self.state = outcome
        self.is_done = True
        return True

    def _fail(self, outcome: BatchState, error: BaseException | Callable[[int], BaseException]) -> bool:
        if not self._finish(outcome):
            return False
        account, teller = self._incomplete, None
        if account is not None:
            self._incomplete = None
            account.settled(self, 0, self.record_count)
            teller = account.teller
        self.produce_result.fail(error, teller)
        return True


def new_batch(
    topic_partition: TopicPartition,
    builder: RecordBatchBuilder,
    created: float,
    order: int,
    compression: int,
    compression_level: int | None,
    incomplete: BatchAccount,
) -> ProducerBatch:
    """An empty batch, made without the constructor, whose keywords cost more than all else."""
    batch = ProducerBatch.__new__(ProducerBatch)
    batch._open(topic_partition, builder, created, order, compression, compression_level, incomplete, False)
    return batch


def _size_of(data: Buffer | None) -> int:
    return -1 if data is None else memoryview(data).nbytes
