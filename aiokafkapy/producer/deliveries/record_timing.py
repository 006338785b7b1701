"""The durations of a batch's records, for ``RecordMetadata.timing``: kept once a batch, read off by each record.

A batch has one only when the producer has ``record_timing=True``; its records' metadata then belongs to a class with
the timing, and equals the same metadata without. Java has no counterpart; librdkafka's is ``Message.latency()``.

Rules: no duration is computed before a record's metadata is read; nothing here holds the loop, which holds a
program's tasks and deliveries, because the cyclic collector does not see a delivery's result (``WeakClock``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Protocol

from ..records import RecordMetadata, RecordTiming

__all__ = ["BatchTiming", "MetadataMaker", "TimedRecordMetadata", "WeakClock"]


class MetadataMaker(Protocol):
    """Makes the metadata of a batch's records, in the place of the plain one: a ``BatchTiming``, or the spool's."""

    def metadata(
        self, topic: str, partition: int, offset: int, timestamp_ms: int, key_size: int, value_size: int
    ) -> RecordMetadata:
        """The metadata of one record."""


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
        told = max(0.0, self._clock() - self._answered_at)  # the clock of a vanished loop may show an earlier time
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


class WeakClock:
    """The clock of a loop, without the loop; when that is gone, it stands still."""

    __slots__ = ("_last", "_loop")

    def __init__(self, loop: _HasTime) -> None:
        self._loop = weakref.ref(loop)
        self._last = 0.0

    def __call__(self) -> float:
        """The time, in seconds."""
        loop = self._loop()
        if loop is not None:
            self._last = loop.time()
        return self._last


class _HasTime(Protocol):
    def time(self) -> float:
        """The time, in seconds."""
