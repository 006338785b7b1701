"""One partition as one share group sees it: its start, the records that members have, and those that are done with.

Owns the state of each record in flight, and decides every acquisition and acknowledgement; it reads no log, no clock
and no request. Kafka's counterpart is ``SharePartition`` (KIP-932).

A record is AVAILABLE until a member acquires it; it is ACQUIRED until the member acknowledges it, or its lock runs out;
then it is AVAILABLE again, or done with: ACKNOWLEDGED when it was accepted, ARCHIVED when it was rejected, when it was
delivered as often as a record may be, or when the log has no record at this offset.

Rules:

- the records in flight are those from ``start_offset`` (Kafka's SPSO) up to ``end_offset`` (SPEO); every record before
  them is done with, and no record after them was ever acquired;
- a record is with one member at most, and only that member acknowledges it;
- an acknowledgement of several batches is taken whole or not at all;
- whole batches of the log are acquired, so that a member may get more records than it asked for;
- a record that comes back because its member is gone was not delivered: it keeps the count that it had before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from typing import Final, NamedTuple, TypeVar

from ...errors import InvalidRecordStateError, InvalidRequestError
from ...states import StateTable

__all__ = [
    "RECORD_STATES",
    "AcknowledgeType",
    "AcknowledgementBatch",
    "AcquireRequest",
    "AcquiredRecords",
    "InFlightRecord",
    "RecordState",
    "SharePartition",
    "StateBatch",
]

T = TypeVar("T")


class RecordState(IntEnum):
    """The values are those of Kafka's state topic."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


RECORD_STATES: Final = StateTable(
    "record of a share group",
    RecordState.AVAILABLE,
    {
        RecordState.AVAILABLE: {RecordState.ACQUIRED, RecordState.ARCHIVED},
        RecordState.ACQUIRED: {RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED},
        RecordState.ACKNOWLEDGED: set(),
        RecordState.ARCHIVED: set(),
    },
)

DONE: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class AcknowledgeType(IntEnum):
    """A member's verdict on a record; GAP is for an offset at which the log has no record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3


_OUTCOMES: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


class AcquiredRecords(NamedTuple):
    """Consecutive acquired records, both ends inclusive, and their number of deliveries, this one included."""

    first_offset: int
    last_offset: int
    delivery_count: int


class AcquireRequest(NamedTuple):
    """A member wants ``max_records`` records of ``batches``, which are pairs of first and last offset.

    ``aborted`` are the ranges of aborted transactions: their records are never delivered.
    """

    member_id: str
    batches: Sequence[tuple[int, int]]
    max_records: int
    aborted: Sequence[tuple[int, int]] = ()


class AcknowledgementBatch(NamedTuple):
    """A member's verdict on consecutive records: one type for all, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]

    def type_of(self, offset: int) -> AcknowledgeType:
        """The verdict on one of the records."""
        return AcknowledgeType(self.types[0] if len(self.types) == 1 else self.types[offset - self.first_offset])


class StateBatch(NamedTuple):
    """Consecutive records in one state, as they are kept on disk."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int


class InFlightRecord:
    """A record from the start on: its state, its number of deliveries, and the member that has it, if any."""

    __slots__ = ("deadline_ms", "delivery_count", "member_id", "state")

    def __init__(self, state: RecordState = RECORD_STATES.initial, delivery_count: int = 0) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = ""
        self.deadline_ms = math.inf

    def acquire(self, member_id: str, deadline_ms: float) -> None:
        """Give it to a member, until ``deadline_ms``."""
        self.state = RECORD_STATES.transition(self.state, RecordState.ACQUIRED)
        self.delivery_count += 1
        self.member_id, self.deadline_ms = member_id, deadline_ms

    def leave(self, state: RecordState) -> None:
        """Take it from its member."""
        self.state = RECORD_STATES.transition(self.state, state)
        self.member_id, self.deadline_ms = "", math.inf


class SharePartition:
    """The records in flight, and the offsets around them. Times are milliseconds of the cluster's wall clock."""

    __slots__ = ("_max_delivery_count", "_max_in_flight", "_records", "start_offset")

    def __init__(
        self, start_offset: int, batches: Iterable[StateBatch] = (), *, max_delivery_count: int, max_in_flight: int
    ) -> None:
        """With the ``batches`` of a ``snapshot``; offsets between them were never acquired."""
        self.start_offset = start_offset
        self._max_delivery_count = max_delivery_count
        self._max_in_flight = max_in_flight
        self._records: list[InFlightRecord] = []  # index i has the record at offset start_offset + i
        for batch in batches:
            self._extend_to(batch.first_offset)
            for _ in range(max(batch.first_offset, start_offset), batch.last_offset + 1):
                self._records.append(InFlightRecord(RecordState(batch.state), batch.delivery_count))
        self._advance()

    @property
    def end_offset(self) -> int:
        """The offset after the last record that was ever acquired."""
        return self.start_offset + len(self._records)

    def in_flight(self) -> Iterator[tuple[int, InFlightRecord]]:
        """The records from the start on, each with its offset."""
        return enumerate(self._records, self.start_offset)

    @property
    def next_fetch_offset(self) -> int:
        """The first record that may be acquired."""
        for offset, record in self.in_flight():
            if record.state is RecordState.AVAILABLE:
                return offset
        return self.end_offset

    @property
    def can_acquire(self) -> bool:
        """Whether there is room for more in flight, or a record in flight is available again."""
        return len(self._records) < self._max_in_flight or self.next_fetch_offset < self.end_offset

    @property
    def next_deadline_ms(self) -> float:
        """The time at which the first lock runs out, infinity when nothing is locked."""
        return min((record.deadline_ms for record in self._records), default=math.inf)

    # changes

    def acquire(self, request: AcquireRequest, deadline_ms: float) -> list[AcquiredRecords]:
        """Give a member the available records of the first batches of the log from ``next_fetch_offset`` on, until it
        has ``max_records`` of them.
        """
        batches = request.batches
        if not batches:
            return []
        if not self._records:
            self.start_at(batches[0][0])  # compaction may have left nothing before
        first = self.next_fetch_offset
        room = self._max_in_flight - len(self._records)
        is_full = room <= 0
        limit = min(request.max_records, len(self._records) if is_full else room)
        taken: list[tuple[int, InFlightRecord]] = []
        reached = first
        for base, last in batches:
            if len(taken) >= limit or (is_full and base >= self.end_offset):
                break
            end = min(last + 1, self.end_offset) if is_full else last + 1
            self._extend_to(end)
            for _, record in self._available(reached, base):
                record.leave(RecordState.ARCHIVED)  # compaction left nothing there
            found = self._available(max(base, first), end)
            for _, record in found:
                record.acquire(request.member_id, deadline_ms)
            taken += found
            reached = end
        for low, high in request.aborted:
            for offset, record in taken:
                if low <= offset <= high:
                    record.leave(RecordState.ARCHIVED)
        self._advance()
        return _ranges((offset, record) for offset, record in taken if record.state is RecordState.ACQUIRED)

    def acknowledge(self, member_id: str, batches: Iterable[AcknowledgementBatch]) -> None:
        """Take a member's verdict on records that it has; records before ``start_offset`` are ignored.

        Raises InvalidRequestError, InvalidRecordStateError; then nothing has changed.
        """
        outcomes: dict[int, RecordState] = {}
        for batch in batches:
            self._check_range(batch)
            for offset in range(max(batch.first_offset, self.start_offset), batch.last_offset + 1):
                self._check_owner(
                    member_id, self._records[offset - self.start_offset], is_named_twice=offset in outcomes
                )
                outcomes[offset] = _OUTCOMES[batch.type_of(offset)]
        for offset, outcome in outcomes.items():
            record = self._records[offset - self.start_offset]
            record.leave(self._again(record) if outcome is RecordState.AVAILABLE else outcome)
        self._advance()

    def release(self, member_id: str) -> bool:
        """Take the records of a member that is gone, as if it had never had them; returns whether there were any."""
        found = [record for record in self._records if record.member_id == member_id]
        for record in found:
            record.leave(RecordState.AVAILABLE)
            record.delivery_count -= 1
        return bool(found)

    def expire(self, now_ms: float) -> bool:
        """Take the records whose lock has run out; returns whether there were any."""
        found = [record for record in self._records if record.deadline_ms <= now_ms]
        for record in found:
            record.leave(self._again(record))
        self._advance()
        return bool(found)

    def start_at(self, log_start_offset: int) -> bool:
        """Forget the records that the log no longer has; returns whether there were any."""
        if log_start_offset <= self.start_offset:
            return False
        del self._records[: log_start_offset - self.start_offset]
        self.start_offset = log_start_offset
        self._advance()
        return True

    def snapshot(self) -> list[StateBatch]:
        """The state to persist: a record that a member has acquired is stored as it was before."""
        kept = []
        for offset, record in self.in_flight():
            is_acquired = record.state is RecordState.ACQUIRED
            state = RecordState.AVAILABLE if is_acquired else record.state
            kept.append((offset, (int(state), record.delivery_count - is_acquired)))
        untouched = (int(RecordState.AVAILABLE), 0)
        return [StateBatch(low, high, *what) for low, high, what in _neighbours(kept) if what != untouched]

    # internals

    def _again(self, record: InFlightRecord) -> RecordState:
        is_spent = record.delivery_count >= self._max_delivery_count
        return RecordState.ARCHIVED if is_spent else RecordState.AVAILABLE

    def _extend_to(self, end: int) -> None:
        self._records += [InFlightRecord() for _ in range(end - self.end_offset)]

    def _available(self, first: int, end: int) -> list[tuple[int, InFlightRecord]]:
        records = self._records[first - self.start_offset : max(end, first) - self.start_offset]
        return [(offset, each) for offset, each in enumerate(records, first) if each.state is RecordState.AVAILABLE]

    def _advance(self) -> None:
        done = 0
        for record in self._records:
            if record.state not in DONE:
                break
            done += 1
        del self._records[:done]
        self.start_offset += done

    def _check_range(self, batch: AcknowledgementBatch) -> None:
        if batch.last_offset < self.start_offset:
            return
        if batch.first_offset >= self.end_offset:
            raise InvalidRequestError("Batch record not found. The first offset in request is past acquired records.")
        if batch.last_offset >= self.end_offset:
            raise InvalidRequestError("Batch record not found. The last offset in request is past acquired records.")

    @staticmethod
    def _check_owner(member_id: str, record: InFlightRecord, *, is_named_twice: bool) -> None:
        if record.state is not RecordState.ACQUIRED or is_named_twice:
            raise InvalidRecordStateError("The batch cannot be acknowledged. The offset is not acquired.")
        if record.member_id != member_id:
            raise InvalidRecordStateError("Member is not the owner of batch record")


def _ranges(records: Iterable[tuple[int, InFlightRecord]]) -> list[AcquiredRecords]:
    counts = [(offset, record.delivery_count) for offset, record in records]
    return [AcquiredRecords(low, high, count) for low, high, count in _neighbours(counts)]


def _neighbours(entries: Iterable[tuple[int, T]]) -> Iterator[tuple[int, int, T]]:
    """Runs of consecutive offsets with the same value."""
    numbered = enumerate(entries)
    for (_, value), run in groupby(numbered, key=lambda each: (each[1][0] - each[0], each[1][1])):
        offsets = [offset for _, (offset, _) in run]
        yield offsets[0], offsets[-1], value
