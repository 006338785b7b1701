"""The fate of the records of a call that is cancelled.

Owns the report of their fate in the caller's error. It knows neither batches nor requests: the runtime takes the
records back. Java's calls cannot be cancelled; a franz-go record is cancelled by its context.

Rules:

- The error remains a CancelledError, for ``asyncio.timeout()`` and task groups look for that very type.
- Its attribute ``deliveries`` has the records that still go on, also those that were accepted in the step in
  which the call was cancelled: nothing else refers to them.
- With ``cancel_takes_back`` it has a second one, ``outcome_unknown``, and a note.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from ...common import counted
from ..deliveries.delivery import Delivery
from ..deliveries.delivery_list import DeliveryList
from .pending_record import PendingRecord
from .record_deadlines import Accepted, accepted_of, places_of

__all__ = ["take_back", "tell_deliveries"]


class TakesBack(Protocol):
    """The part of the producer's runtime that is used here."""

    def take_back(self, records: Sequence[Delivery | DeliveryList]) -> int:
        """Take records that were never sent out of their batches; returns their number."""


def tell_deliveries(cancelled: asyncio.CancelledError, records: Iterable[Accepted | BaseException]) -> None:
    """Give the error of a cancelled call its ``deliveries``. ``records`` are all records of the call, in order."""
    error: Any = cancelled
    error.deliveries = _Deliveries(records)


def take_back(runtime: TakesBack, records: Sequence[Accepted], cancelled: asyncio.CancelledError) -> None:
    """Take back the records that were never sent, and say in ``cancelled`` how many left and how many stay."""
    accepted = accepted_of(records, PendingRecord.cancel)
    pending = sum(map(len, places_of(accepted).values()))
    stayed = pending - runtime.take_back(accepted) if pending else 0
    # Records that the call withdrew before they were accepted count too
    left = pending - stayed + sum(isinstance(each, PendingRecord) and each.cancelled() for each in records)
    if left or stayed:
        error: Any = cancelled
        error.outcome_unknown = stayed > 0
        cancelled.add_note(_note(left, stayed))


class _Deliveries:
    """The fate of the records of a call, in order: the delivery of each accepted one, the error of each refused one.
    For records that were taken together these are made only when they are read.
    """

    __slots__ = ("_records",)

    def __init__(self, records: Iterable[Accepted | BaseException]) -> None:
        self._records = tuple(records)

    def __iter__(self) -> Iterator[Delivery | BaseException]:
        for record in self._records:
            if isinstance(record, DeliveryList):
                yield from record
            elif not isinstance(record, PendingRecord):
                yield record
            elif record.done() and not record.cancelled():
                yield record.exception() or record.result()


def _note(left: int, stayed: int) -> str:
    parts = []
    if left:
        parts.append(f"{counted(left, 'record')} taken back: not sent")
    if stayed:
        parts.append(f"{counted(stayed, 'record')} in a request: delivery goes on, and the outcome is unknown here")
    return "; ".join(parts)
