"""How long the records of a batch took, for ``RecordMetadata.timing``: kept once a batch, read off by each record.

A batch has one only when the producer has ``record_timing=True``; the metadata of its records is then of a class that
has the timing, and is equal to what it is without. Java has no counterpart; librdkafka's is ``Message.latency()``.

Rule: nothing is computed before somebody reads a record's metadata.
"""

from __future__ import annotations

from collections.abc import Callable

from ..records import RecordMetadata, RecordTiming

__all__ = ["BatchTiming", "TimedRecordMetadata"]


class BatchTiming:
    """The times of one delivered batch; durations are seconds, ``answered_at`` is loop time."""

    __slots__ = (
        "_answered_at",
        "_attempts",
        "_batch_records",
        "_batch_size",
        "_clock",
        "_encode",
        "_in_flight",
        "_linger",
        "_node_id",
        "_queued",
        "_retried",
        "_throttled",
    )

    def __init__(
        self,
        *,
        linger: float,
        queued: float,
        encode: float,
        retried: float,
        in_flight: float,
        throttled: float,
        attempts: int,
        node_id: int,
        batch_records: int,
        batch_size: int,
        answered_at: float,
        clock: Callable[[], float],
    ) -> None:
        self._linger = linger
        self._queued = queued
        self._encode = encode
        self._retried = retried
        self._in_flight = in_flight
        self._throttled = throttled
        self._attempts = attempts
        self._node_id = node_id
        self._batch_records = batch_records
        self._batch_size = batch_size
        self._answered_at = answered_at
        self._clock = clock

    def metadata(
        self, topic: str, partition: int, offset: int, timestamp_ms: int, key_size: int, value_size: int
    ) -> RecordMetadata:
        """A record's metadata, with its timing; it counts as told now."""
        metadata = TimedRecordMetadata(topic, partition, offset, timestamp_ms, key_size, value_size)
        told = self._clock() - self._answered_at
        metadata._timing = RecordTiming(
            self._linger,
            self._queued,
            self._encode,
            self._retried,
            self._in_flight,
            told,
            self._throttled,
            self._attempts,
            self._node_id,
            self._batch_records,
            self._batch_size,
        )
        return metadata


class TimedRecordMetadata(RecordMetadata):
    """A ``RecordMetadata`` that knows its timing."""

    _timing: RecordTiming | None = None

    @property
    def timing(self) -> RecordTiming | None:
        """Described in ``RecordMetadata``."""
        return self._timing
