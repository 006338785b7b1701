"""A record as the accumulator takes it off the fast path: serialized, and with its partition chosen.

Owns the two forms: ``WaitingRecord`` is the accumulator's protocol for a record that waits for memory (its waiter and
its deadline are in ``intake.pending_record``); ``SerializedRecord`` holds the arguments of ``RecordAppender.append``
when the last batch did not take them. In Java the arguments stay arguments, and threads wait inside
``BufferPool.allocate``.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from ... import _form as cython
else:
    try:
        import cython
    except ImportError:  # interpreted, where there is no Cython
        from ... import _form as cython

from ...common import Buffer, Headers

__all__ = ["IncomingRecord", "SerializedRecord", "WaitingRecord", "serialized_record"]


class WaitingRecord(Hashable, Protocol):
    """A serialized record whose partition is chosen; None and -1 are the topic's sticky partition.

    It is told apart from others by its identity, not by its content.
    """

    @property
    def topic(self) -> str:
        """Its topic's name."""

    @property
    def partition(self) -> int | None:
        """The partition's number."""

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value."""

    @property
    def headers(self) -> Headers | None:
        """Its headers; None for none."""


@cython.freelist(8)
@cython.final
@cython.cclass
class SerializedRecord:
    """One record; ``partition`` -1 is the topic's sticky partition. Made by ``serialized_record``."""

    __slots__ = ("headers", "key", "partition", "timestamp_ms", "topic", "value")

    topic: str
    partition: int
    timestamp_ms: int
    key: Buffer | None
    value: Buffer | None
    headers: Headers | None


IncomingRecord: TypeAlias = WaitingRecord | SerializedRecord
"""A record on its way in, whether it waited before or not."""


def serialized_record(
    topic: str, partition: int, timestamp_ms: int, key: Buffer | None, value: Buffer | None, headers: Headers | None
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
