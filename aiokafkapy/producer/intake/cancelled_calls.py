"""The fate of the records of a call that is cancelled, with ``cancel_takes_back``.

Owns the words of the caller's error. It knows neither batches nor requests: the runtime takes the records
back. Java's calls cannot be cancelled; a franz-go record is cancelled by its context.

Rule: the error stays the CancelledError that it is, for ``asyncio.timeout()`` and task groups look for that very type;
it gets an attribute, ``outcome_unknown``, and a note.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from ..deliveries.delivery import Delivery
from ..deliveries.delivery_list import DeliveryList
from .pending_record import PendingRecord
from .record_deadlines import Accepted, accepted_of, places_of

__all__ = ["take_back"]


class TakesBack(Protocol):
    """The part of the producer's runtime that is used here."""

    def take_back(self, records: Sequence[Delivery | DeliveryList]) -> int:
        """Take records that were never sent out of their batches; returns how many."""


def take_back(runtime: TakesBack, records: Sequence[Accepted], cancelled: asyncio.CancelledError) -> None:
    """Take back the records that were never sent, and say in ``cancelled`` how many left and how many stay."""
    accepted = accepted_of(records, PendingRecord.cancel)
    pending = sum(map(len, places_of(accepted).values()))
    stayed = pending - runtime.take_back(accepted) if pending else 0
    # And those that left with the call, before they were accepted
    left = pending - stayed + sum(isinstance(each, PendingRecord) and each.cancelled() for each in records)
    if left or stayed:
        error: Any = cancelled
        error.outcome_unknown = stayed > 0
        cancelled.add_note(_note(left, stayed))


def _note(left: int, stayed: int) -> str:
    parts = []
    if left:
        parts.append(f"{_count(left)} taken back: not sent")
    if stayed:
        parts.append(f"{_count(stayed)} in a request: delivery goes on, and the outcome is unknown here")
    return "; ".join(parts)


def _count(records: int) -> str:
    return f"{records} record{'' if records == 1 else 's'}"
