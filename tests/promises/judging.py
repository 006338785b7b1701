"""What a producer told of its records, held against where they are in the log: once, in order, and where it said.

Pure: knows neither producer nor log, but a record's outcome and its places. Whoever has sent, been told, and read back
asks here which promises are broken, and adds whose record it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from aiokafkapy.errors import KafkaError

__all__ = ["NO_OFFSET", "Place", "Told", "broken_promises", "out_of_order"]

Place = tuple[int, int]
"""Partition and offset."""
Told = Place | BaseException | None
"""Where a record is said to be, or why it is nowhere; None: nothing was said."""
NO_OFFSET = -1
"""What a record is told that was found to be written already: Kafka's DUPLICATE_SEQUENCE_NUMBER names no offset."""

Record = TypeVar("Record")


def broken_promises(told: Told, places: Sequence[Place], *, is_idempotent: bool = True) -> Iterator[tuple[str, str]]:
    """What is wrong with one record, and the particulars.

    An acknowledged record is in the log, where it was told to be. One that failed is not, unless the error says that it
    may be. None is there twice. Without idempotence one that was sent again may be there all the same, and twice.
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
    """Of records in call order, with their places: pairs of a late one and the early one that is behind it in the log.

    Of one that is repeated the first place counts.
    """
    last: dict[int, tuple[int, Record]] = {}
    for record, places in records:
        for partition, offset in places[:1]:
            if partition in last and last[partition][0] > offset:
                yield record, last[partition][1]
            last[partition] = (offset, record)
