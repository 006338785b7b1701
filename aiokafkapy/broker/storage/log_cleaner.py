"""Compaction: of the records of a key the last one stays (cleanup.policy=compact).

Owns the choice of the records that stay in a ``PartitionLog``; the log has the bytes. Pure except for that: the wall
time is an argument. Kafka's counterparts are ``LogCleaner`` and ``Cleaner``.

Rules:

- no offset changes or disappears: a batch keeps its offsets, and neighbouring batches that have lost all their records
  become one batch without records, as Kafka keeps for a producer's sequences. So readers always advance;
- undecided records stay: those from the last stable offset on, and those in batches younger than
  ``min.compaction.lag.ms``. Records of aborted transactions are removed, markers stay;
- a record without a value removes the earlier ones of its key, and is itself removed ``delete.retention.ms`` after it
  was first compacted;
- the last batch of an idempotent producer keeps its sequences, also without records.

The segment that is written to, or would be in Kafka (``segment.bytes``, ``segment.ms``), stays as it is, unless
``even_active`` asks for more: a segment has a gibibyte by default, which no test fills.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...common import NO_TIMESTAMP, ConsumedRecord
from ...record.batch import RecordBatch
from .log import PartitionLog

__all__ = ["LogCleaner"]

MAX_OFFSET_DELTA: Final = 2**31 - 1


class LogCleaner:
    """Compacts one log, again and again."""

    __slots__ = ("_cleaned_to", "_horizons", "_log")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._cleaned_to = 0
        # by offset, the time at which a record without a value may go
        self._horizons: dict[int, int] = {}

    def is_due(self, timestamp_ms: int) -> bool:
        """Whether the part never compacted reaches ``min.cleanable.dirty.ratio`` of the compactable bytes."""
        end = self._cleanable_end(timestamp_ms, even_active=False)
        if end <= self._cleaned_to:
            return False
        log = self._log
        total = log.bytes_from(log.start_offset, before=end)
        dirty = log.bytes_from(max(self._cleaned_to, log.start_offset), before=end)
        return dirty >= float(log.config.value("min.cleanable.dirty.ratio")) * total

    def compact(self, timestamp_ms: int, *, even_active: bool = True) -> int:
        """Compact at this wall time; returns the bytes freed. Raises KafkaStorageError, and CorruptMessageError."""
        log = self._log
        end = self._cleanable_end(timestamp_ms, even_active=even_active)
        if end <= log.start_offset:
            return 0
        size = log.size
        segments = log.segments()
        latest = self._latest(batch for segment in segments for batch in segment if batch.base_offset < end)
        for number, segment in enumerate(segments):
            rewritten = self._rewritten([batch for batch in segment if batch.base_offset < end], latest, timestamp_ms)
            untouched = [bytes(batch.buffer) for batch in segment if batch.base_offset >= end]
            if rewritten is not None:
                log.replace_segment(number, [*rewritten, *untouched])
        self._cleaned_to = end
        self._horizons = {offset: horizon for offset, horizon in self._horizons.items() if offset >= log.start_offset}
        return size - log.size

    # internals

    def _cleanable_end(self, timestamp_ms: int, *, even_active: bool) -> int:
        """The end of the part that may be compacted."""
        log = self._log
        lag_ms = int(log.config.value("min.compaction.lag.ms"))
        young = log.first_offset_after(timestamp_ms - lag_ms) if lag_ms else log.end_offset
        active = log.end_offset if even_active else log.active_segment_start(timestamp_ms)
        return min(log.last_stable_offset, young, active)

    def _latest(self, batches: Iterable[RecordBatch]) -> dict[bytes | None, int]:
        """The offset of the last record of each key."""
        return {
            record.key: record.offset
            for batch in batches
            if not batch.is_control and not self._log.is_aborted(batch)
            for record in batch.records()
        }

    def _rewritten(
        self, batches: list[RecordBatch], latest: dict[bytes | None, int], timestamp_ms: int
    ) -> list[bytes] | None:
        """The compacted batches of a segment, None when it has nothing to compact."""
        found: list[bytes] = []
        is_changed = False
        empty: list[RecordBatch] = []  # neighbours that become one

        def join() -> None:
            nonlocal is_changed
            if empty:
                data = empty[0].emptied(empty[-1].last_offset)
                is_changed |= len(empty) > 1 or data != empty[0].buffer
                found.append(data)
                empty.clear()

        for batch in batches:
            data = bytes(batch.buffer) if batch.is_control else self._compacted(batch, latest, timestamp_ms)
            if RecordBatch(data).record_count == 0 and not self._has_last_sequence(batch):
                if empty and not _can_join(empty[0], batch):
                    join()
                empty.append(batch)
                continue
            join()
            is_changed |= data != batch.buffer
            found.append(data)
        join()
        return found if is_changed else None

    def _compacted(self, batch: RecordBatch, latest: dict[bytes | None, int], timestamp_ms: int) -> bytes:
        if batch.record_count == 0:
            return bytes(batch.buffer)
        records = batch.records()
        is_aborted = self._log.is_aborted(batch)
        kept = [not is_aborted and self._stays(record, latest, timestamp_ms) for record in records]
        if all(kept):
            return bytes(batch.buffer)
        times = [record.timestamp_ms for record, is_kept in zip(records, kept, strict=True) if is_kept]
        newest = batch.max_timestamp if batch.has_append_time else max(times, default=NO_TIMESTAMP)
        return batch.with_records(kept, newest)

    def _stays(self, record: ConsumedRecord, latest: dict[bytes | None, int], timestamp_ms: int) -> bool:
        if record.key is None or latest[record.key] != record.offset:
            return False  # without a key: it is from before the topic was a compacted one
        if record.value is not None:
            return True
        keep_ms = int(self._log.config.value("delete.retention.ms"))
        return timestamp_ms < self._horizons.setdefault(record.offset, timestamp_ms + keep_ms)

    def _has_last_sequence(self, batch: RecordBatch) -> bool:
        if not batch.has_producer_id:
            return False
        state = self._log.producers.producers.get(batch.producer_id)
        return state is not None and any(each.first_offset == batch.base_offset for each in state.batches)


def _can_join(first: RecordBatch, other: RecordBatch) -> bool:
    return first.leader_epoch == other.leader_epoch and other.last_offset - first.base_offset <= MAX_OFFSET_DELTA
