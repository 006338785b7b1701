"""The events of batches, for observers, and the times in a delivered record's metadata.

The Sender's side reports each batch that is about to have its outcome; there is one function for each outcome. Knows
neither requests nor answers. Java has no counterpart; its sensors are fed from ``Sender`` itself.

Rules: called before the batch has its outcome, once for each; nothing raises, not even for an observer that does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ...observability.observer import BatchDone, Observers
from ...record.layout import BATCH_HEADER_SIZE
from ..accumulator.producer_batch import BatchState, ProducerBatch
from ..deliveries.record_timing import BatchTiming

if TYPE_CHECKING:
    from ..accumulator.batch_phases import BatchPhases

__all__ = ["BatchWatch", "BatchWatcher", "PassingWatch"]


class BatchWatcher(Protocol):
    """The events of the Sender's side: ``BatchWatch``, or a ``PassingWatch`` before it."""

    def answered(self, node_id: int, throttled: float) -> None:
        """This broker's answer is handled next; the broker throttles us for so many seconds."""

    def completed(self, batch: ProducerBatch, base_offset: int, now: float) -> None:
        """The broker has the batch."""

    def failed(self, batch: ProducerBatch, records: int, error: BaseException, now: float) -> None:
        """``records`` of the batch's records fail."""


class BatchWatch:
    """Watches the batches of one producer. The records of batches that a ``PhaseTimer`` has seen have their timing."""

    __slots__ = ("_clock", "_node_id", "_tell", "_throttled")

    def __init__(self, observers: Observers, clock: Callable[[], float]) -> None:
        self._tell = observers.batch_done
        self._clock = clock
        # Of the answer that is being handled
        self._node_id = -1
        self._throttled = 0.0

    def answered(self, node_id: int, throttled: float) -> None:
        """This broker's answer is handled next; the broker throttles us for so many seconds."""
        self._node_id = node_id
        self._throttled = throttled

    def completed(self, batch: ProducerBatch, base_offset: int, now: float) -> None:
        """The broker has the batch."""
        if batch.phases is not None:
            batch.produce_result.timing = self._timing(batch, batch.phases, now)
        if self._tell is not None:
            self._tell(_done(batch, batch.record_count, now, self._throttled, base_offset, None))

    def failed(self, batch: ProducerBatch, records: int, error: BaseException, now: float) -> None:
        """``records`` of the batch's records fail."""
        if self._tell is not None:
            self._tell(_done(batch, records, now, 0.0, -1, error))

    def aborted(self, batch: ProducerBatch, records: int, error: BaseException) -> None:
        """``records`` of the batch's records are given up: the producer closes, a transaction is aborted, there is no
        room, or the time of single records is over.
        """
        self.failed(batch, records, error, self._clock())

    # internals

    def _timing(self, batch: ProducerBatch, phases: BatchPhases, now: float) -> BatchTiming | None:
        ready, first, last = phases.ready_at, phases.first_attempted_at, phases.attempted_at
        if ready is None or first is None or last is None:
            return None
        return BatchTiming(
            linger=ready - batch.created,
            queued=max(0.0, first - ready - phases.encode),  # a difference may round to just below 0
            encode=phases.encode,
            retried=last - first,
            in_flight=max(0.0, now - last),
            throttled=self._throttled,
            attempts=_attempts(batch),
            node_id=self._node_id,
            batch_records=batch.record_count,
            batch_size=batch.size,
            answered_at=now,
            clock=self._clock,
        )


class PassingWatch:
    """Stands before another watch, if any, and passes all events on to it: a base for watches that look themselves."""

    def __init__(self, then: BatchWatcher | None) -> None:
        self._then = then

    def answered(self, node_id: int, throttled: float) -> None:
        """This broker's answer is handled next; the broker throttles us for so many seconds."""
        if self._then is not None:
            self._then.answered(node_id, throttled)

    def completed(self, batch: ProducerBatch, base_offset: int, now: float) -> None:
        """The broker has the batch."""
        if self._then is not None:
            self._then.completed(batch, base_offset, now)

    def failed(self, batch: ProducerBatch, records: int, error: BaseException, now: float) -> None:
        """``records`` of the batch's records fail."""
        if self._then is not None:
            self._then.failed(batch, records, error, now)


def _attempts(batch: ProducerBatch) -> int:
    """The number of attempts, the one under way included."""
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
