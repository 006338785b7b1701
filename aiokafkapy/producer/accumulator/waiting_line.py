"""``WaitingLine``: the records that wait for room, in the order in which they get it.

Owns the order, and the set of topics with priority. It knows neither memory nor batches: ``RecordAppender`` asks which
is next. Kafka's counterpart is the single queue of waiters in ``BufferPool``.

Rules: first in, first out, among the records of topics with priority, and among the others; those come first. All
records of a topic are in the same queue, so that no record ever passes another one of its partition.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from .serialized_record import WaitingRecord

__all__ = ["WaitingLine"]


class WaitingLine:
    """The line of one producer."""

    __slots__ = ("_first", "_others", "_priority_topics")

    def __init__(self, priority_topics: Collection[str] = ()) -> None:
        self._priority_topics = frozenset(priority_topics)
        # OrderedDicts, because their first entry is found in O(1) even after many removals.
        self._first: OrderedDict[WaitingRecord, None] = OrderedDict()
        self._others: OrderedDict[WaitingRecord, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._first) + len(self._others)

    def __contains__(self, record: WaitingRecord) -> bool:
        return record in self._queue_of(record)

    def has_priority(self, topic: str) -> bool:
        """True when records of the topic get room before others, and from the share that is kept for them."""
        return topic in self._priority_topics

    def is_behind_others(self, record: WaitingRecord) -> bool:
        """True when records wait that a new one must not pass."""
        return bool(self._first) or (bool(self._others) and not self.has_priority(record.topic))

    def add(self, record: WaitingRecord) -> None:
        """Put ``record`` last in its queue."""
        self._queue_of(record)[record] = None

    def next(self) -> WaitingRecord:
        """The record whose turn it is; there must be one."""
        return next(iter(self._first or self._others))

    def remove(self, record: WaitingRecord) -> bool:
        """Take ``record`` out; False if it is not here."""
        queue = self._queue_of(record)
        if record not in queue:
            return False
        del queue[record]
        return True

    def clear(self) -> None:
        """Take all out."""
        self._first.clear()
        self._others.clear()

    # internals

    def _queue_of(self, record: WaitingRecord) -> OrderedDict[WaitingRecord, None]:
        return self._first if record.topic in self._priority_topics else self._others
