"""``RecordDeadlines``: records with a time of their own: ``delivery_timeout_ms`` or ``deadline()``.

Owns the list of these records, the time at which the next one is overdue, and the deadline that encloses a call;
``timed_calls`` has the calls. It knows neither batches nor queues: overdue records are handed on together. Kafka has
one ``delivery.timeout.ms`` for all records; franz-go's records may have a ``context`` with a deadline.

Rules:

- A record without a time of its own costs nothing here. One timer serves all records, and without records no timer
  runs.
- A record whose outcome came in time is forgotten when its time is over, or earlier, once as many others have come.
- A deadline may let its records go meanwhile. That is looked up when their time is over: they then have the rest of
  their own time.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from itertools import count
from typing import Final, NamedTuple, Protocol, TypeAlias

from ..deliveries.delivery import Delivery, place_of
from ..deliveries.delivery_list import DeliveryList
from ..deliveries.produce_request_result import ProduceRequestResult
from .pending_record import PendingRecord

__all__ = [
    "Accepted",
    "EnclosingDeadline",
    "RecordDeadlines",
    "accepted_of",
    "enclosing_deadline",
    "open_deadlines",
    "places_of",
]

FIRST_PRUNE: Final = 1024
"""Settled records are dropped when so many have gathered, and then at each doubling."""


Accepted: TypeAlias = PendingRecord | Delivery | DeliveryList


class EnclosingDeadline(Protocol):
    """The part of a ``Deadline`` that the calls in its block use."""

    def ends_at(self, loop: asyncio.AbstractEventLoop) -> float:
        """The time at which it is over, in the time of ``loop``; infinity without a limit."""

    def watched_by(self, deadlines: RecordDeadlines) -> None:
        """Records of ``deadlines`` have this deadline."""

    def later_end(self, loop: asyncio.AbstractEventLoop) -> float | None:
        """The new end of the time of a record sent here, in the time of ``loop``, if an enclosing block has let it go;
        infinity if all have. None if no block has: the end is as it was.
        """


enclosing_deadline: ContextVar[EnclosingDeadline | None] = ContextVar("aiokafkapy.deadline", default=None)
"""The innermost ``deadline()`` block, open or not."""

open_deadlines: Final[set[EnclosingDeadline]] = set()
"""The blocks that are open in this process, of any thread: while no block is open, no call looks for its own."""


class RecordDeadlines:
    """The deadlines of one producer. ``expire`` gets the overdue records that have no outcome."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[list[Accepted]], None]) -> None:
        self._loop = loop
        self._expire = expire
        self.on_add: Callable[[Accepted, float], object] | None = None
        """Called with each record and its deadline."""
        self._heap: list[_Timed] = []
        self._numbers = count()
        self._prune_at = FIRST_PRUNE
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def __len__(self) -> int:
        return len(self._heap)

    def add(
        self, record: Accepted, deadline: float, block: EnclosingDeadline | None = None, own: float = math.inf
    ) -> None:
        """The record's time is over at ``deadline``, in loop time: ``block``'s, or its ``own`` if that is shorter."""
        self._push(deadline, record, block, own)
        if len(self._heap) >= self._prune_at:
            self._prune()
        self._rearm()
        if self.on_add is not None:
            self.on_add(record, deadline)

    def expire_until(self, now: float) -> None:
        """Hand on the records that are overdue at ``now``, ahead of the timer."""
        overdue: list[Accepted] = []
        while self._heap and self._heap[0].deadline <= now:
            _, _, record, block, own = heapq.heappop(self._heap)
            if _has_outcome(record):
                continue
            later = None if block is None else block.later_end(self._loop)
            if later is None or (later := min(later, own)) <= now:
                overdue.append(record)
            elif later < math.inf:
                self._push(later, record, block, own)
        self._rearm()
        if overdue:
            self._expire(overdue)

    def close(self) -> None:
        """Forget all records."""
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # asyncio callbacks

    def _on_timer(self) -> None:
        self._timer = None
        self.expire_until(self._loop.time())

    # internals

    def _push(self, deadline: float, record: Accepted, block: EnclosingDeadline | None, own: float) -> None:
        heapq.heappush(self._heap, _Timed(deadline, next(self._numbers), record, block, own))

    def _prune(self) -> None:
        self._heap = [timed for timed in self._heap if not _has_outcome(timed.record)]
        heapq.heapify(self._heap)
        self._prune_at = max(FIRST_PRUNE, 2 * len(self._heap))

    def _rearm(self) -> None:
        if not self._heap:
            return
        first = self._heap[0].deadline
        if self._timer is not None and self._timer_at > first:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer, self._timer_at = self._loop.call_at(first, self._on_timer), first


def accepted_of(
    records: Iterable[Accepted], expire: Callable[[PendingRecord], object]
) -> list[Delivery | DeliveryList]:
    """End the wait of the records that are not accepted yet, by ``expire``; returns the accepted ones."""
    accepted: list[Delivery | DeliveryList] = []
    for record in records:
        if not isinstance(record, PendingRecord):
            accepted.append(record)
        elif not record.done():
            expire(record)
        elif record.delivery is not None:  # the end of an earlier record may have had it accepted, or refused
            accepted.append(record.delivery)
    return accepted


def places_of(records: Iterable[Delivery | DeliveryList]) -> dict[ProduceRequestResult, Sequence[int]]:
    """The places of the records without an outcome: the results that they read, and their indexes there, each once."""
    places: dict[ProduceRequestResult, Sequence[int]] = {}
    for record in records:
        if isinstance(record, DeliveryList):
            found = record.pending()
        else:
            result, index = place_of(record)
            found = iter(() if record.done() else [(result, (index,))])
        for result, indexes in found:
            known = places.setdefault(result, indexes)
            if known is indexes:
                continue
            if not isinstance(known, list):
                known = places[result] = list(known)
            known.extend(indexes)
    return places


# internals


class _Timed(NamedTuple):
    deadline: float
    number: int
    """Orders records that are due at the same time."""
    record: Accepted
    block: EnclosingDeadline | None
    own: float
    """The end of the record's own time, in case its block lets it go; infinity without one."""


def _has_outcome(record: Accepted) -> bool:
    if not isinstance(record, PendingRecord):
        return record.done()
    return record.done() and (record.delivery is None or record.delivery.done())
