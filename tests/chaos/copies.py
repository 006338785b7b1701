"""The work of copiers, and the comparison of a copy with its source.

A copy has the records of its source, each once, in the same partition and in the same order, with any faults of the
copiers, for each of their transactions has records and offsets together or neither. All of it is pure, and independent
of how the logs were read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..promises.judging import Place, out_of_order
from .accounts import Findings, LogRecord
from .schedule import Way

__all__ = ["CopyAccount", "Ends", "check_copy", "check_ends"]


class Ends(NamedTuple):
    """A partition's last stable offset, and the end of its log."""

    stable: int
    end: int


class CopyAccount:
    """The outcomes that the copiers of one source were told."""

    def __init__(self) -> None:
        self.committed = 0
        """Transactions that were committed."""
        self.records = 0
        """Records of these transactions."""
        self.begun_again: Counter[str] = Counter()
        """Attempts that were aborted and made again, by copier."""
        self.strikes: Counter[Way] = Counter()
        self.started: Counter[str] = Counter()
        """Started producers, by copier."""
        self.ends: Counter[str] = Counter()
        """The reasons for their ends."""
        self._reached: dict[int, int] = {}

    def commit(self, offsets: Mapping[int, int], records: int) -> None:
        """A transaction was committed, with the next offset to read of each partition."""
        self.committed += 1
        self.records += records
        for partition, offset in offsets.items():
            self._reached[partition] = max(offset, self._reached.get(partition, 0))

    def behind(self, ends: Mapping[int, int]) -> dict[int, int]:
        """The partitions whose copy is not up to these offsets, with the offset that it is up to."""
        return {p: self._reached.get(p, 0) for p, end in ends.items() if self._reached.get(p, 0) < end}

    def __str__(self) -> str:
        again, started = self.begun_again.total(), self.started.total()
        return (
            f"{self.records:,} records copied in {self.committed:,} transactions, {again:,} attempts made again\n"
            f"  {self.strikes.total()} strikes: {_counts(self.strikes)}\n"
            f"  {started} producers of {len(self.started)} names, which ended: {_counts(self.ends)}"
        )


def _counts(counter: Counter[Any]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counter.items())) or "none"


Logs = Mapping[int, Iterable[LogRecord]]


def check_copy(source: Logs, copy: Logs) -> list[str]:
    """The findings in a copy, by partition as its source is; empty if there are none."""
    found = Findings()
    copied: dict[tuple[bytes | None, bytes | None], list[Place]] = defaultdict(list)
    for partition, records in copy.items():
        for record in records:
            copied[record.key, record.value].append((partition, record.offset))
    for partition, records in source.items():
        in_order = []
        for record in records:
            places = copied.pop((record.key, record.value), [])
            name = f"{_start(record.value)} of {(partition, record.offset)}"
            in_order.append((name, [place for place in places if place[0] == partition]))
            if not places:
                found.add("lost", name)
            elif len(places) > 1:
                found.add("doubled", name, "is at", places)
            elif places[0][0] != partition:
                found.add("in another partition", name, "is at", places)
        for late, early in out_of_order(in_order):
            found.add("out of order", late, "is before", early)
    for (_, value), places in copied.items():
        found.add("from nowhere", _start(value), "is at", places)
    return found.lines()


def check_ends(ends: Mapping[str, Mapping[int, Ends]]) -> Iterator[str]:
    """The partitions in which a transaction is open, by topic: a reader with ``read_committed`` does not come
    further.
    """
    for topic, partitions in ends.items():
        for partition, (stable, end) in partitions.items():
            if stable != end:
                yield f"a transaction is open: {topic}-{partition} can be read up to {stable} of {end}"


def _start(value: bytes | None) -> str:
    return repr((value or b"")[:16])
