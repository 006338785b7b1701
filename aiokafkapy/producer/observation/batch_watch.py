"""The events of batches, for observers, and the times that a delivered record tells of itself.

The Sender's side says of each batch that it is about to have its outcome; one function for each that there is. Knows
neither requests nor answers. Java has no counterpart; its sensors are fed from ``Sender`` itself.

Rules: called before the batch has its outcome, once for each; nothing raises, not even for an observer that does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ...observability.observer import BatchDone, Observers
from ...record.encoding import BATCH_HEADER_SIZE
from ..accumulator.producer_batch import BatchState, ProducerBatch
from ..deliveries.record_timing import BatchTiming

__all__ = ["BatchWatch", "BatchWatcher", "PassingWatch"]


class BatchWatcher(Protocol):
    """The events of the Sender's side: ``BatchWatch``, or a ``PassingWatch`` before it."""

    throttled: float

    def completed(self, batch: ProducerBatch, base_offset: int, now: float) -> None:
        """The broker has the batch."""

    def failed(self, batch: ProducerBatch, records: int, error: BaseException, now: float) -> None:
        """So many of the batch's records fail."""


class BatchWatch:
    """Watches the batches of one producer. ``throttled`` is the pause that the answer being handled asks for, in
    seconds; with ``times_records`` each delivered record has its timing.
    """

    __slots__ = ("_clock", "_tell", "_times_records", "throttled")

    def __init__(self, observers: Observers, clock: Callable[[], float], *, times_records: bool = False) -> None:
        self._tell = observers.batch_done
        self._clock = clock
        self._times_records = times_records
        self.throttled = 0.0

    def completed(self, batch: ProducerBatch, base_offset: int, now: float) -> None:
        """The broker has the batch."""
        if self._times_records:
            batch.produce_result.timing = BatchTiming(
                queued=batch.drained_at - batch.created,
                in_flight=now - batch.drained_at,
                throttled=self.throttled,
                attempts=_attempts(batch),
                batch_records=batch.record_count,
                batch_size=batch.size,
                answered_at=now,
                clock=self._clock,
            )
        if self._tell is not None:
            self._tell(_done(batch, batch.record_count, now, self.throttled, base_offset, None))

    def failed(self, batch: ProducerBatch, records: int, error: BaseException, now: float) -> None:
        """So many of the batch's records fail."""
        if self._tell is not None:
            self._tell(_done(batch, records, now, 0.0, -1, error))

    def aborted(self, batch: ProducerBatch, records: int, error: BaseException) -> None:
        """So many of the batch's records are given up: the producer closes, a transaction is aborted, there is no room,
        or the time of single records is over.
        """
        self.failed(batch, records, error, self._clock())


class PassingWatch:
    """Stands before another watch, if there is one, and passes all on to it: a base for those that look themselves."""

    def __init__(self, then: BatchWatcher | None) -> None:
        self._then = then
        self._throttled = 0.0

    @property
    def throttled(self) -> float:
        """The pause that the answer being handled asks for, in seconds."""
        return self._throttled

    @throttled.setter
    def throttled(self, seconds: float) -> None:
        self._throttled = seconds
        if self._then is not None:
            self._then.throttled = seconds

    def completed(self, batch: ProducerBatch, base_offset: int, now: float) -> None:
        """The broker has the batch."""
        if self._then is not None:
            self._then.completed(batch, base_offset, now)

    def failed(self, batch: ProducerBatch, records: int, error: BaseException, now: float) -> None:
        """So many of the batch's records fail."""
        if self._then is not None:
            self._then.failed(batch, records, error, now)


def _attempts(batch: ProducerBatch) -> int:
    """How often it was sent; the attempt that is under way counts."""
    return batch.attempts + (batch.state is BatchState.IN_FLIGHT)


def _done(
    batch: ProducerBatch, records: int, now: float, throttled: float, base_offset: int, error: BaseException | None
) -> BatchDone:
    topic, partition = batch.topic_partition
    last_attempt = batch.drained_at if batch.has_been_sent else now
    return BatchDone(
        topic,
        partition,
        records,
        batch.size,
        BATCH_HEADER_SIZE + batch.builder.records_size,
        _attempts(batch),
        last_attempt - batch.created,
        now - last_attempt,
        throttled,
        base_offset,
        error,
    )
