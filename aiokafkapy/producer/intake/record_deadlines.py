"""``RecordDeadlines``: the records whose calls gave them a time of their own, ``delivery_timeout_ms``.

Owns which records these are, and when the next one's time is over. It knows neither batches nor queues: those that are
overdue are handed on together. Kafka has one ``delivery.timeout.ms`` for all records; franz-go's records may have a
``context`` with a deadline.

Rules: a record without a time of its own costs nothing here. One timer serves all, and there is none without records.
A record whose outcome came in time is forgotten when its time is over, or earlier, when as many others have come.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from ...errors import IllegalStateError
from ..deliveries.delivery import Delivery
from .arguments import milliseconds_of
from .pending_record import PendingRecord

if TYPE_CHECKING:
    from .record_intake import RecordIntake

__all__ = ["RecordDeadlines", "accept_within"]

FIRST_PRUNE: Final = 1024
"""Records are looked through for outcomes when so many have gathered, and then at each doubling."""


class RecordDeadlines:
    """Of one producer. ``expire`` gets the overdue records that have no outcome."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, expire: Callable[[list[PendingRecord | Delivery]], None]
    ) -> None:
        self._loop = loop
        self._expire = expire
        # The number keeps records apart that are due at the same time.
        self._heap: list[tuple[float, int, PendingRecord | Delivery]] = []
        self._numbers = count()
        self._prune_at = FIRST_PRUNE
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, record: PendingRecord | Delivery, deadline: float) -> None:
        """The record's time is over at ``deadline``, in loop time."""
        heapq.heappush(self._heap, (deadline, next(self._numbers), record))
        if len(self._heap) >= self._prune_at:
            self._prune()
        self._rearm()

    def close(self) -> None:
        """Forget all records."""
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # asyncio callbacks

    def _on_timer(self) -> None:
        self._timer = None
        now, overdue = self._loop.time(), []
        while self._heap and self._heap[0][0] <= now:
            record = heapq.heappop(self._heap)[2]
            if not _has_outcome(record):
                overdue.append(record)
        self._rearm()
        if overdue:
            self._expire(overdue)

    # internals

    def _prune(self) -> None:
        self._heap = [entry for entry in self._heap if not _has_outcome(entry[2])]
        heapq.heapify(self._heap)
        self._prune_at = max(FIRST_PRUNE, 2 * len(self._heap))

    def _rearm(self) -> None:
        if not self._heap:
            return
        first = self._heap[0][0]
        if self._timer is not None and self._timer_at > first:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer, self._timer_at = self._loop.call_at(first, self._on_timer), first


def accept_within(
    intake: RecordIntake,
    topic: Any,
    value: Any,
    key: Any,
    partition: Any,
    timestamp_ms: Any,
    headers: Any,
    delivery_timeout_ms: Any,
) -> Delivery | PendingRecord:
    """As ``RecordIntake.accept``, for a record that must have its outcome within ``delivery_timeout_ms``.

    Raises for a wrong time as for any wrong argument, and IllegalStateError with ``enable_gapless_guarantee``.
    """
    seconds = milliseconds_of(topic, "delivery_timeout_ms", delivery_timeout_ms) / 1000
    runtime = intake.accepting_runtime()
    if runtime.config.enable_gapless_guarantee:
        raise IllegalStateError(
            "with enable_gapless_guarantee a record has no delivery_timeout_ms of its own: those behind it, which have "
            "time left, would fail with it"
        )
    accepted = intake.accept(topic, value, key, partition, timestamp_ms, headers)
    deadline = runtime.now() + seconds
    if isinstance(accepted, PendingRecord):
        accepted.own_deadline = deadline
    runtime.deadlines.add(accepted, deadline)
    return accepted


def _has_outcome(record: PendingRecord | Delivery) -> bool:
    if isinstance(record, Delivery):
        return record.done()
    if not record.done():
        return False
    return record.cancelled() or record.exception() is not None or record.result().done()
