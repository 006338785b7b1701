"""The demo's accounts: the records sent, acknowledged and read back, and the checks that compare them.

Knows no network. A row is a flight's position in the order of departure. It is in one of four states; a row that was
sent but never answered (an interrupted run, a lost connection) may be in the log or not, and is counted as neither.

Rules:

- Every number of the report comes from here, and no number is derived from another.
- The log decides: a record counts if it was read back with its key, timestamp and value byte for byte.
- The order per key is the order of the calls, which equals the order of departure: only one caller at a time sends a
  key.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..common import ConsumedRecord
from .flights import Flight, row_of

__all__ = ["Check", "Ledger", "render_checks"]

NOT_SENT: Final = 0
SENT: Final = 1
ACKNOWLEDGED: Final = 2
FAILED: Final = 3
FIRST_FEW: Final = 3
"""The most examples of each kind of failure that are kept for the report."""


@dataclass(frozen=True, slots=True)
class Check:
    """One question of the report and its answer."""

    name: str
    passed: bool
    detail: str


@dataclass(slots=True)
class Ledger:
    """Rows in, rows out. Not for two threads."""

    flights: Sequence[Flight]

    # on the way in
    states: bytearray = field(init=False)
    partitions: array[int] = field(init=False)
    offsets: array[int] = field(init=False)
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    # in the log
    times_found: bytearray = field(init=False)
    found: int = 0
    foreign: int = 0
    twice: int = 0
    unanswered_found: int = 0
    failed_found: int = 0
    altered: int = 0
    misplaced: int = 0
    out_of_order: int = 0
    keys: dict[bytes, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.flights)
        self.states = bytearray(count)
        self.times_found = bytearray(count)
        self.partitions = array("i", [-1]) * count
        self.offsets = array("q", [-1]) * count

    def record_sent(self, row: int) -> None:
        """The row was given to the producer, or to the service; its outcome is open."""
        self.states[row] = SENT
        self.sent += 1

    def record_acknowledged(self, row: int, partition: int, offset: int) -> None:
        """The broker has the row, and told its place."""
        self.states[row] = ACKNOWLEDGED
        self.partitions[row] = partition
        self.offsets[row] = offset
        self.acknowledged += 1

    def record_failed(self, row: int, reason: str) -> None:
        """The row was refused: its call raised the error."""
        self.states[row] = FAILED
        self.failed += 1
        self.failures[reason] += 1

    def record_unanswered(self, reason: str) -> None:
        """The outcome of a sent row is unknown: it stays open, and the reason is kept."""
        self.failures[reason] += 1

    def record_found(self, records: Iterable[ConsumedRecord]) -> None:
        """Enter records that were read from a partition, in the log's order."""
        for record in records:
            row = row_of(record.value or b"")
            if not 0 <= row < len(self.flights) or not self.states[row]:
                self.foreign += 1
                self._keep("foreign", record, row)
                continue
            self.found += 1
            if self.times_found[row]:
                self.twice += 1
                self._keep("twice", record, row)
            else:
                self.times_found[row] = 1
            flight = self.flights[row]
            if (flight.value, flight.key, flight.timestamp_ms) != (record.value, record.key, record.timestamp_ms):
                self.altered += 1
                self._keep("altered", record, row)
            self._compare_place(record, row)
            if record.key is not None:
                if self.keys.get(record.key, -1) >= row:
                    self.out_of_order += 1
                    self._keep("out of order", record, row)
                self.keys[record.key] = row

    @property
    def lost(self) -> int:
        """Rows that were acknowledged and are not in the log."""
        pairs = zip(self.states, self.times_found, strict=True)
        return sum(1 for state, times in pairs if state == ACKNOWLEDGED and not times)

    @property
    def unanswered(self) -> int:
        """Rows that were sent, with unknown outcome."""
        return self.sent - self.acknowledged - self.failed

    def checks(self, *, was_interrupted: bool = False) -> list[Check]:
        """The checks' results; call it after everything is read back."""
        rows = len(self.flights)
        lost = self.lost
        kept = self.acknowledged - lost
        whole = self.sent == rows and not self.failed and not self.unanswered
        all_in = Check(
            "nothing failed" if was_interrupted else "every flight was acknowledged",
            whole or (was_interrupted and not self.failed),
            f"{self.acknowledged:,} of {rows:,}"
            + (f", {self.failed:,} failed" if self.failed else "")
            + (f", {self.unanswered:,} without an answer" if self.unanswered else "")
            + (" (interrupted)" if was_interrupted else ""),
        )
        return [
            all_in,
            Check(
                "records in = records out",
                not lost and not self.foreign and not self.failed_found,
                f"{self.acknowledged:,} acknowledged, {kept:,} of them read back"
                + (f", {lost:,} LOST" if lost else "")
                + (f", {self.unanswered_found:,} more whose answer was not waited for" if self.unanswered_found else "")
                + (f", {self.failed_found:,} that had FAILED" if self.failed_found else "")
                + (f", {self.foreign:,} that are not ours" if self.foreign else ""),
            ),
            Check("none twice", not self.twice, f"{self.twice:,} twice"),
            Check(
                "order per key",
                not self.out_of_order,
                f"{len(self.keys):,} keys, {self.out_of_order:,} records out of order",
            ),
            Check(
                "key, timestamp and value as sent",
                not self.altered,
                f"{self.altered:,} differ, of {self.found:,} records",
            ),
            Check(
                "where the acknowledgement said",
                not self.misplaced,
                f"{self.misplaced:,} at another partition or offset",
            ),
        ]

    # internals

    def _compare_place(self, record: ConsumedRecord, row: int) -> None:
        state = self.states[row]
        if state == SENT:
            self.unanswered_found += 1
        elif state == FAILED:
            self.failed_found += 1
        elif (self.partitions[row], self.offsets[row]) != (record.partition, record.offset):
            self.misplaced += 1
            self._keep("misplaced", record, row)

    def _keep(self, kind: str, record: ConsumedRecord, row: int) -> None:
        kept = self.examples.setdefault(kind, [])
        if len(kept) < FIRST_FEW:
            kept.append(f"{kind}: row {row} at partition {record.partition}, offset {record.offset}")


def render_checks(checks: Sequence[Check]) -> list[str]:
    """A line of text for each."""
    width = max((len(check.name) for check in checks), default=0)
    return [f"  {'ok    ' if one.passed else 'FAILED'}  {one.name:<{width}}  {one.detail}" for one in checks]
