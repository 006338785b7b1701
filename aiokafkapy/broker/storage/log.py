"""One partition's log: record batches as the producer sent them, with offset and leader epoch stamped in.

Owns offsets, the look-ups by offset and time, and the partition's producer state; ``log_validator`` has the checks of a
batch, ``LeaderEpochCache`` the look-up by epoch. It must not know leaders nor clients. Kafka's counterpart is
``UnifiedLog``; replicas share the log here, so the high watermark is the end.

Rules:

- a batch is copied at most once, into the storage; the stamp (offset, epoch) lies outside its CRC, so nothing is
  computed again but on a LogAppendTime topic; no record is decoded on append, unless one of them is to be refused;
- ``append`` either has the batch with the storage and remembers its sequences, or raises and changes nothing;
- a record before the last stable offset belongs to no open transaction; those that were aborted are kept in memory, and
  found again by recovery, as the producers' state is;
- ``read`` gives whole batches, so the first may begin below the offset asked for, as clients expect;
- recovery reads all batches: each must have a sound CRC and begin at the offset at which the one before it ends. A
  write that was cut short at the end is dropped; anything else that does not fit is damage, and the log is not opened.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from struct import Struct
from typing import Final, NamedTuple

from ...common import NO_TIMESTAMP, Buffer, ConsumedRecord
from ...errors import (
    CorruptMessageError,
    KafkaError,
    OffsetOutOfRangeError,
    PolicyViolationError,
)
from ...observability import get_logger
from ...record.batch import (
    BATCH_HEADER_SIZE,
    ControlType,
    RecordBatch,
    assign_offset,
    control_batch,
    iter_batches,
    set_append_time,
)
from ...record.layout import LENGTH_AT, MAGIC_AT
from ..config import PRODUCER_ID_EXPIRATION_MS_DEFAULT
from .leader_epoch_cache import UNDEFINED_EPOCH, LeaderEpochCache
from .log_storage import LogStorage, SegmentScan
from .log_validator import the_batch, validate_batch, validate_records
from .producer_state import NO_TRANSACTION, BatchMetadata, Marker, ProducerStateManager
from .topic_config import TopicConfig

__all__ = ["AbortedTransaction", "AppendInfo", "PartitionLog", "TimestampOffset"]

logger = get_logger()

HIGH_WATERMARK: Final = -1
"""In place of an offset, in a DeleteRecords."""
KEEP_FROM: Final = 64 * 1024
"""Bytes from which a batch is kept in two pieces; below, a view of its own would cost more than the copy."""
MAX_LEADER_EPOCH: Final = 2**31 - 1

_PLACE: Final = Struct(">q15xi")  # base offset and last offset delta
_BASE_OFFSET: Final = Struct(">q")
_LENGTH: Final = Struct(">i")


class AppendInfo(NamedTuple):
    """The place of a batch in the log; ``log_append_time_ms`` is -1 when the records keep their own times."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    is_duplicate: bool


class AbortedTransaction(NamedTuple):
    """An aborted transaction in a partition; ``last_offset`` is its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int


class TimestampOffset(NamedTuple):
    """The result of a look-up by time."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class PartitionLog:
    """The records of one partition: ``start_offset`` ≤ offset < ``end_offset``."""

    __slots__ = (
        "__weakref__",
        "_aborted",
        "_base_offsets",
        "_epochs",
        "_index",
        "_last_modified_ms",
        "_max_timestamps",
        "_name",
        "_positions",
        "_running_max",
        "_storage",
        "_topic",
        "_unflushed",
        "config",
        "end_offset",
        "producers",
        "start_offset",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        config: TopicConfig,
        storage: LogStorage,
        *,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS_DEFAULT,
        newest_epoch: int = MAX_LEADER_EPOCH,
    ) -> None:
        """Recovers the records of the storage, which were written under leader epochs up to ``newest_epoch``.

        Raises DamagedFileError, and OSError when the storage cannot be read.
        """
        self._topic = topic
        self._index = index
        self._name = f"{topic}-{index}"
        self._storage = storage
        self.config = config
        self.producers = ProducerStateManager(self._name, producer_id_expiration_ms)
        # one entry per batch, oldest first; the running maximum makes the look-up by time a bisection
        self._base_offsets = array("q")
        self._positions = array("q")
        self._max_timestamps = array("q")
        self._running_max = array("q")
        self._aborted: list[AbortedTransaction] = []  # in the order of their markers
        self._epochs = LeaderEpochCache()
        self.start_offset = self.end_offset = 0
        self._unflushed = 0  # records since the last sync to the disk
        # The wall time of the last append. After a restart retention begins to count anew.
        self._last_modified_ms: int | None = None
        self._recover(newest_epoch)

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers read: the end of the log, since replicas share it."""
        return self.end_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which consumers with ``read_committed`` read."""
        unstable = self.producers.first_unstable_offset
        return self.end_offset if unstable is None else max(unstable, self.start_offset)

    def aborted_transactions(self, offset: int, before: int) -> list[AbortedTransaction]:
        """The aborted transactions that have records from ``offset`` up to ``before``."""
        start = bisect_left(self._aborted, offset, key=lambda each: each.last_offset)
        return [each for each in self._aborted[start:] if each.first_offset < before]

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Whether a batch has records of an aborted transaction; a marker has none."""
        if batch.is_control or not batch.is_transactional:
            return False
        aborted = self.aborted_transactions(batch.base_offset, batch.base_offset + 1)
        return any(each.producer_id == batch.producer_id for each in aborted)

    @property
    def size(self) -> int:
        """Bytes held."""
        return self._storage.size - self._positions[0] if self._positions else 0

    # appending

    def append(self, records: Buffer | RecordBatch, leader_epoch: int, timestamp_ms: int) -> AppendInfo:
        """Append one batch at wall time ``timestamp_ms``, and hand it to the storage.

        Read-only bytes must never change: a large batch of them is kept without a copy.

        A batch that is here already (idempotence) is not appended; its old place is returned. Raises
        CorruptMessageError, InvalidRecordError, InvalidTimestampError, MessageTooLargeError,
        OutOfOrderSequenceNumberError, InvalidProducerEpochError, InvalidTxnStateError or KafkaStorageError; then
        nothing has changed.
        """
        batch = records if isinstance(records, RecordBatch) else the_batch(records)
        validate_batch(batch, self.config, self._name)
        sequences = _sequences(batch)
        if sequences is not None:
            duplicate = self.producers.check(
                batch.producer_id, batch.producer_epoch, *sequences, is_transactional=batch.is_transactional
            )
            if duplicate is not None:
                time_ms = duplicate.timestamp_ms if self.config.uses_log_append_time else NO_TIMESTAMP
                return AppendInfo(duplicate.first_offset, duplicate.last_offset, time_ms, is_duplicate=True)
        max_timestamp = batch.max_timestamp
        validate_records(batch, self.config, self._name, timestamp_ms)
        base_offset, position = self.end_offset, self._storage.size
        if self.config.uses_log_append_time:
            max_timestamp = timestamp_ms
            data = bytearray(batch.buffer)
            assign_offset(data, base_offset, leader_epoch)
            set_append_time(data, timestamp_ms)
            pieces: Sequence[Buffer] = (data,)
        else:
            pieces = _stamped(batch, base_offset, leader_epoch)
        self._write(pieces, base_offset, batch.record_count)
        self._last_modified_ms = timestamp_ms
        self._note(batch, sequences, base_offset, leader_epoch, max_timestamp, position)
        log_append_time_ms = timestamp_ms if self.config.uses_log_append_time else NO_TIMESTAMP
        return AppendInfo(base_offset, self.end_offset - 1, log_append_time_ms, is_duplicate=False)

    def append_marker(self, marker: Marker, leader_epoch: int, timestamp_ms: int) -> None:
        """Append the batch that ends a producer's transaction, whether or not one is open.

        Raises InvalidProducerEpochError or KafkaStorageError; then nothing has changed.
        """
        self.producers.check_epoch(marker.producer_id, marker.producer_epoch)
        data = control_batch(
            marker.control_type,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=timestamp_ms,
        )
        base_offset, position = self.end_offset, self._storage.size
        assign_offset(data, base_offset, leader_epoch)
        self._write((data,), base_offset, 1)
        self._note(RecordBatch(data), None, base_offset, leader_epoch, timestamp_ms, position)

    # reading

    def read(self, offset: int, max_bytes: int, *, minimum_one: bool = True, before: int | None = None) -> list[Buffer]:
        """Whole batches from the one that holds ``offset``, of at most ``max_bytes`` in sum; the first one comes
        of any size with ``minimum_one`` (KIP-74). ``before`` is the offset of the first batch that is not read.
        Raises OffsetOutOfRangeError.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(
                f"Received request for offset {offset} for partition {self._name}, but we only have log "
                f"segments from offset {self.start_offset} up to {self.end_offset}."
            )
        limit = self._position_of(before)
        if offset == self.end_offset or (before is not None and offset >= before):
            return []
        first = bisect_right(self._base_offsets, offset) - 1
        start = self._positions[first]
        if start + max_bytes >= limit:
            end = limit
        else:
            last = bisect_right(self._positions, start + max_bytes) - 1
            if last == first and minimum_one:
                last += 1
            end = self._positions[last] if last < len(self._positions) else limit
        return self._storage.read(start, end - start) if end > start else []

    def bytes_from(self, offset: int, *, before: int | None = None) -> int:
        """The number of bytes that ``read`` could give from ``offset``, which must be in range or the end."""
        if offset >= (self.end_offset if before is None else before):
            return 0
        return self._position_of(before) - self._positions[bisect_right(self._base_offsets, offset) - 1]

    def records(self, offset: int | None = None) -> list[ConsumedRecord]:
        """All records from ``offset`` (the start by default), decoded. Raises OffsetOutOfRangeError."""
        offset = self.start_offset if offset is None else offset
        if not self.read(offset, 1):
            return []
        first = bisect_right(self._base_offsets, offset) - 1
        return [record for batch in self._batches(first) for record in self._decoded(batch) if record.offset >= offset]

    # look-ups

    def offset_for_time(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record that is not older than ``timestamp_ms``, markers included as in Kafka; None when all are."""
        for batch in self._batches(bisect_left(self._running_max, timestamp_ms)):
            for record in batch.records(self._topic, self._index):
                if record.timestamp_ms >= timestamp_ms and record.offset >= self.start_offset:
                    return TimestampOffset(record.timestamp_ms, record.offset, batch.leader_epoch)
        return None

    def max_timestamp(self) -> TimestampOffset | None:
        """The first of the youngest records; None when there is none (KIP-734)."""
        return self.offset_for_time(self._running_max[-1]) if self._running_max else None

    def first_offset_after(self, timestamp_ms: int) -> int:
        """The base offset of the first batch with a younger record; the end when there is none."""
        found = bisect_right(self._running_max, timestamp_ms)
        return self._base_offsets[found] if found < len(self._base_offsets) else self.end_offset

    def epoch_at(self, offset: int) -> int:
        """The leader epoch under which the record at ``offset`` was written, -1 when there is none."""
        return self._epochs.epoch_at(offset) if offset < self.end_offset else UNDEFINED_EPOCH

    def end_offset_for_epoch(self, epoch: int, current_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the last records written under ``epoch`` or below it; (-1, -1) when unknown (KIP-320).
        ``current_epoch`` is the leader's.
        """
        return self._epochs.end_offset_for(epoch, current_epoch, self.end_offset)

    # removing

    def delete_records(self, before_offset: int) -> int:
        """Make ``before_offset`` (HIGH_WATERMARK: the end) the start of the log. Returns the start; it never goes back.

        Raises OffsetOutOfRangeError above the end, PolicyViolationError when the topic is only compacted.
        """
        if self.config.is_compacted and "delete" not in self.config.value("cleanup.policy"):
            raise PolicyViolationError(f"Records of {self._topic} can not be deleted due to its cleanup policy.")
        offset = self.end_offset if before_offset == HIGH_WATERMARK else before_offset
        if not 0 <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(
                f"The specified offset {before_offset} is not between 0 and the high watermark {self.end_offset}."
            )
        self._start_at(offset)
        return self.start_offset

    def delete_expired(self, timestamp_ms: int) -> bool:
        """Delete the oldest batches, past the topic's retention at this wall time; returns whether there were any.

        A batch stands for Kafka's segment: it is deleted as a whole, when all its records are too old
        (``retention.ms``) or the later batches have ``retention.bytes``. A batch without a time counts as old as the
        last append. Records of open transactions stay. Raises KafkaStorageError.
        """
        if "delete" not in self.config.value("cleanup.policy"):
            return False
        keep_ms, keep_bytes = (int(self.config.value(f"retention.{unit}")) for unit in ("ms", "bytes"))
        oldest = timestamp_ms - keep_ms if keep_ms >= 0 else NO_TIMESTAMP
        if self._last_modified_ms is None:
            self._last_modified_ms = timestamp_ms
        first = 0
        while first < len(self._base_offsets):
            end = self._positions[first + 1] if first + 1 < len(self._positions) else self._storage.size
            is_large = 0 <= keep_bytes <= self._storage.size - end
            newest = self._max_timestamps[first]
            if newest < 0:
                newest = self._last_modified_ms
            if not (newest < oldest or is_large):
                break
            first += 1
        expired = self._base_offsets[first] if first < len(self._base_offsets) else self.end_offset
        return self._start_at(min(expired, self.last_stable_offset))

    # compaction, for the log cleaner

    def active_segment_start(self, timestamp_ms: int) -> int:
        """The start of the segment that Kafka would write to at this wall time; the storage's own segments do not
        count.

        That is the end when the first record of it is older than ``segment.ms``.
        """
        first = 0
        for index, position in enumerate(self._positions):
            end = self._positions[index + 1] if index + 1 < len(self._positions) else self._storage.size
            if end - self._positions[first] > self.config.segment_bytes and position > self._positions[first]:
                first = index
        is_old = first < len(self._positions) and timestamp_ms - self._max_timestamps[first] > int(
            self.config.value("segment.ms")
        )
        return self.end_offset if is_old or not self._positions else self._base_offsets[first]

    def segments(self) -> list[list[RecordBatch]]:
        """The batches that are held, by segments."""
        found: list[list[RecordBatch]] = []
        batches = self._batches(0)
        for start, size in self._storage.segments():
            first, last = bisect_left(self._positions, start), bisect_left(self._positions, start + size)
            found.append([next(batches) for _ in range(first, last)])
        return found

    def replace_segment(self, number: int, batches: Sequence[bytes]) -> None:
        """Replace the batches of a segment by others, which cover the same offsets.

        Raises KafkaStorageError; then nothing has changed.
        """
        start, size = self._storage.segments()[number]
        first, last = bisect_left(self._positions, start), bisect_left(self._positions, start + size)
        # Batches before the log's start may still be at the beginning of the file, whose name says where it begins.
        hidden = b"".join(self._storage.read(start, self._positions[first] - start))
        self._storage.replace(number, [hidden, *batches] if hidden else batches)
        change = sum(map(len, batches)) + len(hidden) - size
        headers = list(map(RecordBatch, batches))
        positions = array("q", accumulate(map(len, batches), initial=start + len(hidden)))
        later = array("q", [position + change for position in self._positions[last:]])
        self._positions = self._positions[:first] + positions[:-1] + later
        self._base_offsets[first:last] = array("q", [batch.base_offset for batch in headers])
        self._max_timestamps[first:last] = array("q", [batch.max_timestamp for batch in headers])
        self._running_max = array("q", accumulate(self._max_timestamps, max))

    def delete(self) -> None:
        """Remove the log and its files."""
        self._storage.delete()
        for column in (self._base_offsets, self._positions, self._max_timestamps, self._running_max):
            del column[:]
        self.end_offset = self.start_offset

    # internals: the index of the batches, and recovery

    def _write(self, pieces: Sequence[Buffer], base_offset: int, record_count: int) -> None:
        """Hand a batch to the storage, and sync it to the disk when it completes ``flush.messages`` records."""
        unflushed = self._unflushed + record_count
        sync = unflushed >= self.config.flush_messages
        self._storage.append(pieces, base_offset, self.config.segment_bytes, sync=sync)
        self._unflushed = 0 if sync else unflushed

    def _note(
        self,
        batch: RecordBatch,
        sequences: tuple[int, int] | None,
        base_offset: int,
        leader_epoch: int,
        max_timestamp: int,
        position: int,
    ) -> None:
        self._base_offsets.append(base_offset)
        self._positions.append(position)
        self._max_timestamps.append(max_timestamp)
        self._running_max.append(max(max_timestamp, self._running_max[-1]) if self._running_max else max_timestamp)
        self._epochs.assign(leader_epoch, base_offset)
        last_offset = base_offset + batch.last_offset_delta
        self.end_offset = last_offset + 1
        if sequences is not None:
            self.producers.update(
                batch.producer_id,
                batch.producer_epoch,
                BatchMetadata(*sequences, base_offset, last_offset, max_timestamp),
                is_transactional=batch.is_transactional,
            )
        elif batch.is_control:
            self._note_marker(batch, last_offset, max_timestamp)

    def _note_marker(self, batch: RecordBatch, last_offset: int, timestamp_ms: int) -> None:
        start = self.producers.end_transaction(batch.producer_id, batch.producer_epoch, timestamp_ms)
        if start != NO_TRANSACTION and batch.control_type() is ControlType.ABORT:
            self._aborted.append(AbortedTransaction(batch.producer_id, start, last_offset))

    def _position_of(self, offset: int | None) -> int:
        """The position of the batch that begins at ``offset``; the end when there is none."""
        if offset is None or offset >= self.end_offset:
            return self._storage.size
        return self._positions[bisect_left(self._base_offsets, offset)]

    def _start_at(self, offset: int) -> bool:
        """Begin at a later offset; returns whether it is later. Raises KafkaStorageError; then nothing has changed."""
        if offset <= self.start_offset:
            return False
        self._storage.save_start_offset(offset)
        self.start_offset = offset
        self._forget_before(offset)
        return True

    def _forget_before(self, offset: int) -> None:
        keep = bisect_right(self._base_offsets, offset) - 1 if offset < self.end_offset else len(self._base_offsets)
        position = self._positions[keep] if keep < len(self._positions) else self._storage.size
        # The storage may have to keep more than that, out of every reader's sight.
        self._storage.discard_before(position)
        del self._base_offsets[:keep], self._positions[:keep], self._max_timestamps[:keep]
        self._running_max = array("q", accumulate(self._max_timestamps, max))
        self._aborted = [each for each in self._aborted if each.last_offset >= offset]
        self._epochs.forget_before(offset)

    def _batches(self, first: int) -> Iterator[RecordBatch]:
        for index in range(first, len(self._base_offsets)):
            start = self._positions[index]
            end = self._positions[index + 1] if index + 1 < len(self._positions) else self._storage.size
            yield RecordBatch(b"".join(self._storage.read(start, end - start)))

    def _decoded(self, batch: RecordBatch) -> list[ConsumedRecord]:
        return [] if batch.is_control else batch.records(self._topic, self._index)

    def _recover(self, newest_epoch: int) -> None:
        self.start_offset = self._storage.load_start_offset()
        self.end_offset = self._storage.first_offset()
        torn = self._storage.recover(partial(self._scan, newest_epoch))
        if torn is not None:
            logger.warning(
                "broker.log_truncated",
                file=str(torn.segment),
                bytes=torn.size,
                kept_in=str(torn.kept_in),
                topic=self._topic,
                partition=self._index,
                end_offset=self.end_offset,
            )
        if self.end_offset < self.start_offset:
            # The machine died after records were deleted and before they were all on the disk.
            self._storage.discard_all()
            self.end_offset = self.start_offset
        if self.start_offset:
            self._forget_before(self.start_offset)

    def _scan(self, newest_epoch: int, segment: memoryview, position: int, base_offset: int) -> SegmentScan:
        damage = self._misplaced(base_offset)
        if damage is not None:
            return SegmentScan(0, self.end_offset, damage)
        sound = 0
        try:
            for batch in iter_batches(segment):
                batch.validate()
                damage = self._out_of_order(batch, newest_epoch)
                if damage is not None:
                    break
                base_offset, epoch, max_timestamp = batch.base_offset, batch.leader_epoch, batch.max_timestamp
                self._note(batch, _sequences(batch), base_offset, epoch, max_timestamp, position + sound)
                sound += batch.size
            else:
                damage = _length_problem(segment[sound:])
        except KafkaError as error:
            # A file system leaves zeros in place of a write that the machine did not survive.
            damage = str(error) if bytes(segment[sound:]).strip(b"\0") else None
        where = f"at byte {sound}, where offset {self.end_offset} should be: "
        return SegmentScan(sound, self.end_offset, damage and where + damage)

    def _misplaced(self, base_offset: int) -> str | None:
        """The reason why a segment that begins at ``base_offset`` does not fit those before it; None when it does."""
        if base_offset != self.end_offset:
            return f"the segments before it end at offset {self.end_offset}, and not where this one begins"
        if not self._base_offsets and base_offset > self.start_offset:
            return f"the segments before it are missing: the log starts at offset {self.start_offset}"
        return None

    def _out_of_order(self, batch: RecordBatch, newest_epoch: int) -> str | None:
        """The reason why a batch does not fit those before it, by the fields outside of its CRC; None when it does."""
        if batch.base_offset != self.end_offset:
            return f"a batch says that it begins at offset {batch.base_offset}"
        latest = self._epochs.latest
        if not latest <= batch.leader_epoch <= newest_epoch:
            return f"a batch has leader epoch {batch.leader_epoch}, which is not from {latest} to {newest_epoch}"
        return None


def _length_problem(tail: memoryview) -> str | None:
    """The damage of the bytes after the last whole batch; None when they are a write that was cut short.

    A batch with a damaged length looks like such a write; but it has the right CRC with another length, with which it
    ends at the end of the segment or before the next batch.
    """
    if len(tail) < BATCH_HEADER_SIZE:
        return None
    base_offset, last_offset_delta = _PLACE.unpack_from(tail)
    data = bytes(tail)
    next_batch = _BASE_OFFSET.pack(base_offset + last_offset_delta + 1)
    end = data.find(next_batch, BATCH_HEADER_SIZE)
    while True:
        size = len(data) if end < 0 else end
        candidate = bytearray(data[:size])
        _LENGTH.pack_into(candidate, LENGTH_AT, size - LENGTH_AT - _LENGTH.size)
        try:
            RecordBatch(candidate).validate()
        except CorruptMessageError:
            if end < 0:
                return None
        else:
            return f"the length of a batch is damaged: it has {size} bytes"
        end = data.find(next_batch, end + 1)


def _stamped(batch: RecordBatch, base_offset: int, leader_epoch: int) -> Sequence[Buffer]:
    """The batch with its place in the log; a large one that cannot change any more is not copied for it.

    The bytes before the magic byte change: base offset, length and leader epoch, which are outside of the CRC.
    """
    if batch.size >= KEEP_FROM and batch.buffer.readonly:
        stamp = bytearray(batch.buffer[:MAGIC_AT])
        assign_offset(stamp, base_offset, leader_epoch)
        return stamp, batch.buffer[MAGIC_AT:]
    data = bytearray(batch.buffer)
    assign_offset(data, base_offset, leader_epoch)
    return (data,)


def _sequences(batch: RecordBatch) -> tuple[int, int] | None:
    return (batch.base_sequence, batch.last_sequence) if batch.has_producer_id and not batch.is_control else None
