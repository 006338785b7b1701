"""Spark's filters on topics, partitions, offsets and times: which ranges need not be read.

Owns the meaning of the filters that are pushed down, and nothing of how they get here. Spark's connector has no
counterpart: it pushes nothing down.

Rules:

- Pruning never drops a row that a filter would keep: a filter that is not understood prunes nothing, and Spark applies
  every filter again to the rows that come.
- A lower bound of the time becomes the first offset whose record is not older: all before it are older. A bound at or
  before the epoch prunes nothing, as Kafka looks up none, and no upper bound does, as later offsets may have earlier
  times.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ...common import TopicPartition
from .offsets import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

__all__ = ["Pruning"]

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LOWER: Final = frozenset({"GreaterThan", "GreaterThanOrEqual"})
_UPPER: Final = frozenset({"LessThan", "LessThanOrEqual"})
_EQUAL: Final = frozenset({"EqualTo", "EqualNullSafe"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """Whole numbers from ``low`` to ``high``, both included, and of these ``only`` some; None is without a bound."""

    low: int | None = None
    high: int | None = None
    only: frozenset[int] | None = None

    def within(self, other: Bounds) -> Bounds:
        """The intersection."""
        low = max((one for one in (self.low, other.low) if one is not None), default=None)
        high = min((one for one in (self.high, other.high) if one is not None), default=None)
        only = self.only
        if other.only is not None:
            only = other.only if only is None else only & other.only
        return Bounds(low, high, only)

    def __contains__(self, number: int) -> bool:
        is_in_range = (self.low is None or number >= self.low) and (self.high is None or number <= self.high)
        return is_in_range and (self.only is None or number in self.only)


@dataclass(frozen=True, slots=True)
class Pruning:
    """The rest to read. ``topics`` is None for all; ``earliest_ms`` is the lower bound of the time, in milliseconds
    since the epoch.
    """

    topics: frozenset[str] | None = None
    partitions: Bounds = Bounds()
    offsets: Bounds = Bounds()
    earliest_ms: int | None = None

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> Pruning:
        """The ranges that all of Spark's filters (``pyspark.sql.datasource.Filter``) together leave."""
        found = cls()
        for one in filters:
            attribute: Sequence[str] = getattr(one, "attribute", ())
            if len(attribute) == 1:
                found = found._with(attribute[0].lower(), type(one).__name__, getattr(one, "value", None))
        return found

    def keeps(self, topic_partition: TopicPartition) -> bool:
        """Whether rows of the partition may be wanted."""
        is_topic_kept = self.topics is None or topic_partition.topic in self.topics
        return is_topic_kept and topic_partition.partition in self.partitions

    def cut(self, one: OffsetRange, first_by_time: int | None = None) -> OffsetRange:
        """The wanted part of a range, perhaps nothing; ``first_by_time`` is the first offset that is not too old."""
        low, high = self.offsets.low, self.offsets.high
        start = max(one.start, low or 0, first_by_time or 0)
        end = one.end if high is None else min(one.end, high + 1)
        return one._replace(start=min(start, one.end), end=max(end, min(start, one.end)))

    # internals

    def _with(self, column: str, kind: str, value: object) -> Pruning:
        if column == "topic":
            names = _values(kind, value, str)
            if names is not None:
                return replace(self, topics=names if self.topics is None else self.topics & names)
        elif column in ("partition", "offset"):
            bounds = _bounds(kind, value)
            if column == "partition":
                return replace(self, partitions=self.partitions.within(bounds))
            return replace(self, offsets=self.offsets.within(bounds))
        elif column == "timestamp":
            earliest = _earliest_ms(kind, value)
            if earliest is not None:
                return replace(self, earliest_ms=max(earliest, self.earliest_ms or 0))
        return self


def _values(kind: str, value: object, wanted: type) -> frozenset[Any] | None:
    """The values, one of which a column must equal; None when the filter says something else."""
    if kind == "In" and isinstance(value, list | tuple):
        # A null among the values of IN matches no row.
        found: list[Any] = [one for one in value if one is not None]
    else:
        found = [value] if kind in _EQUAL else []
    is_known = bool(found) and all(isinstance(one, wanted) and not isinstance(one, bool) for one in found)
    return frozenset(found) if is_known else None


def _bounds(kind: str, value: object) -> Bounds:
    numbers = _values(kind, value, int)
    if numbers is not None:
        return Bounds(min(numbers), max(numbers), numbers)
    if isinstance(value, int) and not isinstance(value, bool):
        if kind in _LOWER:
            return Bounds(low=value + (kind == "GreaterThan"))
        if kind in _UPPER:
            return Bounds(high=value - (kind == "LessThan"))
    return Bounds()


def _earliest_ms(kind: str, value: object) -> int | None:
    if kind == "In" and isinstance(value, list | tuple) and value:
        times = [_earliest_ms("EqualTo", one) for one in value]
        known = [one for one in times if one is not None]
        return min(known) if len(known) == len(times) else None
    if kind not in _LOWER | _EQUAL or not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return None
    # Rounded down: Kafka's times are milliseconds.
    earliest = (value - _EPOCH) // datetime.timedelta(milliseconds=1)
    # Kafka looks up no time before the epoch, where -1 and -2 mean latest and earliest, and records may be older.
    return earliest if earliest > 0 else None
