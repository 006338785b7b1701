"""Compares the outcomes that a producer reported with the log: each record once, in order, at the reported offset.

Pure: knows neither producer nor log, only a record's outcome and its positions. Callers add the record's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from aiokafkapy.errors import KafkaError

__all__ = ["NO_OFFSET", "Place", "Told", "broken_promises", "out_of_order"]

Place = tuple[int, int]
"""Partition and offset."""
Told = Place | BaseException | None
"""The reported position or error of a record; None if nothing was reported."""
NO_OFFSET = -1
"""The outcome of a record that was already written: Kafka's DUPLICATE_SEQUENCE_NUMBER has no offset."""

Record = TypeVar("Record")


def broken_promises(told: Told, places: Sequence[Place], *, is_idempotent: bool = True) -> Iterator[tuple[str, str]]:
    """The promises broken for one record, with details.

    An acknowledged record is in the log, at the reported position. A failed one is not, unless its error says that it
    may be. No record is there twice. Without idempotence a retried record may be there anyway, and twice.
    """
    if is_idempotent and len(places) > 1:
        yield "repeated", f"{places}, told {told!r}"
    if told is None:
        yield "without an outcome", f"is at {places}"
    elif isinstance(told, KafkaError):
        if is_idempotent and places and not told.outcome_unknown:
            yield "said to be not written, and is", f"{places}, told {told!r:.200}"
    elif isinstance(told, BaseException):
        yield "failed with an error that is not Kafka's", repr(told)
    elif not places:
        yield "acknowledged and lost", f"told {told}"
    elif told not in places and (told[1] != NO_OFFSET or told[0] not in {partition for partition, _ in places}):
        yield "elsewhere than told", f"told {told}, is at {places}"


def out_of_order(records: Iterable[tuple[Record, Sequence[Place]]]) -> Iterator[tuple[Record, Record]]:
    """Pairs of records that are in the wrong order in the log, from records in call order with their positions.

    Of a repeated record the first position counts.
    """
    last: dict[int, tuple[int, Record]] = {}
    for record, places in records:
        for partition, offset in places[:1]:
            if partition in last and last[partition][0] > offset:
                yield record, last[partition][1]
            last[partition] = (offset, record)
