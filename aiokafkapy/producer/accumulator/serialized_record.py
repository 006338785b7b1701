"""A record as the accumulator takes it off the fast path: serialized, and with its partition chosen.

Owns the two forms: ``WaitingRecord`` is the accumulator's protocol for a record that waits for memory (its waiter and
its deadline are in ``intake.pending_record``); ``SerializedRecord`` holds the arguments of ``RecordAppender.append``
when the last batch did not take them. In Java the arguments stay arguments, and threads wait inside
``BufferPool.allocate``.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ... import _form as cython
else:
    try:
        import cython
    except ImportError:  # interpreted, where there is no Cython
        from ... import _form as cython

from ...common import Headers

__all__ = ["SerializedRecord", "WaitingRecord", "serialized_record"]


class WaitingRecord(Hashable, Protocol):
    """A serialized record whose partition is chosen; None and -1 are the topic's sticky partition.

    It is told apart from others by its identity, not by its content.
    """

    topic: str
    timestamp_ms: int
    key: Any
    value: Any
    headers: Headers | None

    @property
    def partition(self) -> int | None:
        """Its partition's number."""


@cython.freelist(8)
@cython.final
@cython.cclass
class SerializedRecord:
    """One record; ``partition`` -1 is the topic's sticky partition. Made by ``serialized_record``."""

    __slots__ = ("headers", "key", "partition", "timestamp_ms", "topic", "value")

    topic: str
    partition: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: Headers | None


def serialized_record(
    topic: str, partition: int, timestamp_ms: int, key: Any, value: Any, headers: Headers | None
) -> SerializedRecord:
    """The record of these parts."""
    record = SerializedRecord.__new__(SerializedRecord)
    record.topic = topic
    record.partition = partition
    record.timestamp_ms = timestamp_ms
    record.key = key
    record.value = value
    record.headers = headers
    return record
