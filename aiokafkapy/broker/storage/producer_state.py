"""A partition's memory of its producers and their transactions, and the source of producer ids.

Owns, per producer id, the epoch, the last five batches (sequences and offsets) and the start of its open transaction;
decides whether a batch is new, a duplicate or out of order. Knows no bytes, no topic configuration and no disk beyond
the block of ids. Kafka's counterparts are ``ProducerStateManager``, ``ProducerStateEntry``, ``ProducerAppendInfo`` and
``ProducerIdManager``.

Rules (Kafka 4.x):
- a batch equal in epoch and sequences to one of the last five is a duplicate: it is acknowledged again with its first
  offset, and not appended;
- an epoch below the last one is InvalidProducerEpochError; a new epoch begins with sequence 0;
- a producer id that the partition does not remember may begin with any sequence (KIP-360): UNKNOWN_PRODUCER_ID is
  history;
- nothing is remembered before the batch is in the log, so a write that failed can be tried again;
- a producer with an open transaction writes nothing outside of it; a marker ends the transaction, and its epoch counts
  from then on.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

from ...errors import InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceNumberError
from ...record.batch import ControlType
from ..config import PRODUCER_ID_EXPIRATION_MS_DEFAULT
from .checkpoint_file import read_checkpoint, write_checkpoint

__all__ = ["NO_TRANSACTION", "BatchMetadata", "Marker", "ProducerIdManager", "ProducerState", "ProducerStateManager"]

BATCHES_TO_RETAIN: Final = 5
"""Java's ``ProducerStateEntry.NUM_BATCHES_TO_RETAIN``: as many as a producer may have in flight."""
MAX_SEQUENCE: Final = 2**31 - 1
PRODUCER_ID_BLOCK_SIZE: Final = 1000
"""Ids are written to disk a block at a time, as Kafka does; a restart skips the rest of a block."""
FIRST_EXPIRY_CHECK: Final = 1000
NO_TRANSACTION: Final = -1
NO_EPOCH: Final = -1
"""The epoch of a batch with a producer id alone, which no idempotent producer sends: any sequence follows it."""


class Marker(NamedTuple):
    """The end of a producer's transaction in a partition, as its coordinator writes it."""

    control_type: ControlType
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class BatchMetadata(NamedTuple):
    """One remembered batch."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerState:
    """One producer id in one partition."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "transaction_offset")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_TO_RETAIN)
        self.last_timestamp_ms = -1
        self.coordinator_epoch = -1
        self.transaction_offset = NO_TRANSACTION
        """First offset of the open transaction."""

    @property
    def last_sequence(self) -> int:
        """The sequence of the last batch's last record, -1 without a batch."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerStateManager:
    """All producers of one partition. ``check`` before the append, ``update`` after it."""

    __slots__ = ("_expiration_ms", "_expiry_check_at", "_name", "_open", "producers")

    def __init__(self, name: str, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS_DEFAULT) -> None:
        self.producers: dict[int, ProducerState] = {}
        self._name = name
        self._open: dict[int, int] = {}  # in the order of their offsets, since offsets only grow
        self._expiration_ms = expiration_ms
        self._expiry_check_at = FIRST_EXPIRY_CHECK

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the first open transaction; None when none is open."""
        return next(iter(self._open.values()), None)

    def check(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int, *, is_transactional: bool = False
    ) -> BatchMetadata | None:
        """The batch that this one repeats, None when it is new and in order.

        Raises InvalidProducerEpochError, OutOfOrderSequenceNumberError or InvalidTxnStateError.
        """
        state = self.producers.get(producer_id)
        if state is None:
            return None
        self.check_epoch(producer_id, epoch)
        if state.transaction_offset != NO_TRANSACTION and not is_transactional:
            raise InvalidTxnStateError(f"Expected transactional write from producer {producer_id} in {self._name}")
        if epoch > state.epoch:
            if first_sequence != 0 and state.epoch != NO_EPOCH:
                raise OutOfOrderSequenceNumberError(
                    f"Invalid sequence number for new epoch of producer {producer_id} in {self._name}: {epoch} "
                    f"(request epoch), {first_sequence} (seq. number), {state.epoch} (current producer epoch)"
                )
            return None
        for batch in state.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        last = state.last_sequence
        if first_sequence != next_sequence(last) and state.epoch != NO_EPOCH:
            raise OutOfOrderSequenceNumberError(
                f"Out of order sequence number for producer {producer_id} in {self._name}: {first_sequence} "
                f"(incoming seq. number), {last} (current end sequence number)"
            )
        return None

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Raise InvalidProducerEpochError for an epoch before the last one seen."""
        state = self.producers.get(producer_id)
        if state is not None and epoch < state.epoch:
            raise InvalidProducerEpochError(
                f"Epoch of producer {producer_id} in {self._name} is {epoch}, which is smaller than the last seen "
                f"epoch {state.epoch}"
            )

    def has_lost(self, producer_id: int, epoch: int) -> bool:
        """Whether nothing says which sequence comes next: the producer is unknown, or has no batch of its epoch."""
        state = self.producers.get(producer_id)
        return state is None or (state.epoch == epoch and not state.batches)

    def end_transaction(self, producer_id: int, epoch: int, timestamp_ms: int) -> int:
        """A marker is in the log now; returns the start of the transaction, NO_TRANSACTION when none was open."""
        state = self._state(producer_id, epoch, timestamp_ms)
        start, state.transaction_offset = state.transaction_offset, NO_TRANSACTION
        self._open.pop(producer_id, None)
        return start

    def update(self, producer_id: int, epoch: int, batch: BatchMetadata, *, is_transactional: bool = False) -> None:
        """Remember a batch that is in the log now (or was found there at start, where order is not questioned)."""
        state = self._state(producer_id, epoch, batch.timestamp_ms)
        state.batches.append(batch)
        if is_transactional and state.transaction_offset == NO_TRANSACTION:
            state.transaction_offset = self._open[producer_id] = batch.first_offset

    # internals

    def _state(self, producer_id: int, epoch: int, timestamp_ms: int) -> ProducerState:
        """The producer's state with this epoch."""
        state = self.producers.get(producer_id)
        if state is None:
            if len(self.producers) >= self._expiry_check_at:
                self._expire(timestamp_ms)
            state = self.producers[producer_id] = ProducerState(epoch)
        elif state.epoch != epoch:
            state.epoch = epoch
            state.batches.clear()
        state.last_timestamp_ms = timestamp_ms
        return state

    def _expire(self, timestamp_ms: int) -> None:
        # Looked at when the number has doubled, so that it costs nothing per batch.
        for producer_id in [
            producer_id
            for producer_id, state in self.producers.items()
            if timestamp_ms - state.last_timestamp_ms >= self._expiration_ms
            and state.transaction_offset == NO_TRANSACTION
        ]:
            del self.producers[producer_id]
        self._expiry_check_at = max(FIRST_EXPIRY_CHECK, 2 * len(self.producers))


class ProducerIdManager:
    """Hands out producer ids, each once, with a ``data_dir`` also over restarts."""

    def __init__(self, data_dir: Path | str | None = None, *, first: int = 0) -> None:
        """The ids begin with ``first`` or with the block on disk, whichever is higher. DamagedFileError, OSError."""
        self._path = None if data_dir is None else Path(data_dir) / "producer-ids"
        saved = None
        if self._path is not None:
            remedy = "delete it: new producer ids then begin after the highest in the logs"
            saved = read_checkpoint(self._path, remedy)
        self._next = max(first, int(saved or 0))
        self._block_end = self._next

    def skip_before(self, producer_id: int) -> None:
        """Give out no id below this one: the lower ones are in use."""
        self._next = max(self._next, producer_id)
        self._block_end = max(self._block_end, self._next)

    def generate(self) -> int:
        """The next id. Raises KafkaStorageError when the block cannot be reserved on disk."""
        if self._next >= self._block_end:
            end = self._block_end + PRODUCER_ID_BLOCK_SIZE
            if self._path is not None:
                write_checkpoint(self._path, b"%d" % end)
            self._block_end = end
        self._next += 1
        return self._next - 1


def next_sequence(sequence: int) -> int:
    """The sequence number that follows: after 2³¹ - 1 comes 0."""
    return 0 if sequence == MAX_SEQUENCE else sequence + 1
