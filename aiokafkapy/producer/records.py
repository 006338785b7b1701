"""The record that goes in and the metadata that comes back: ``ProducerRecord`` and ``RecordMetadata``.

Both are plain values: they know nothing of batches, clocks or brokers. Kafka's counterparts have the same names in
``org.apache.kafka.clients.producer``.

Rules: ``value=None`` is a tombstone, ``key=None`` means no key, and both reach the broker as such; header keys may
repeat, a header's value may be None, and their order is kept (KIP-82); an offset of -1 means that no broker told it
(``acks=0``, a duplicate that the broker had already, or a record in the spool).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from ..common import NO_TIMESTAMP, Headers, TopicPartition

__all__ = [
    "INVALID_OFFSET",
    "BytesWithHeaders",
    "CallOverflow",
    "HeadersLike",
    "PlainRecord",
    "ProducerRecord",
    "RecordMetadata",
    "RecordTiming",
    "Timestamp",
    "Unchecked",
    "serialized_size",
]

HeadersLike: TypeAlias = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]
"""A record's headers: pairs in any iterable, which is read once, or a mapping."""
Timestamp: TypeAlias = int | datetime
"""A record's timestamp: milliseconds since 1970, or a datetime; one without a time zone is local time, as for its own
``timestamp()``. Not before 1970, as in Java.
"""
Unchecked: TypeAlias = Any
"""An argument as a caller gave it, or data as a serializer gave it: nothing has looked at it yet."""
CallOverflow: TypeAlias = Literal["wait", "raise", "drop_newest", "drop_oldest"]
"""The policies that a call may have for its records when there is no room for them."""

INVALID_OFFSET = -1
"""The offset of a record when no broker told it."""


class PlainRecord(NamedTuple):
    """A record of plain values, as it is written to a file. ``partition`` None, or a negative one, was not chosen."""

    topic: str
    partition: int | None
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers | None = None


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """One record to send: ``send_many`` takes it where a bare value is not enough, and interceptors see it.

    ``partition`` None leaves the choice to the partitioner, ``timestamp_ms`` None means the time of the call. An
    iterator of headers is read when the record is made, so that it can be sent again. A record is checked when it is
    sent.
    """

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: Timestamp | None = None
    headers: HeadersLike | None = None

    def __post_init__(self) -> None:
        headers = self.headers
        if isinstance(headers, Iterator):
            object.__setattr__(self, "headers", tuple(headers))


class RecordTiming(NamedTuple):
    """The times of a delivered record, in seconds: the first five, in this order and without a gap, are those of its
    batch, from its first record to the answer.
    """

    linger: float
    """From the batch's first record until it could have gone: it was full, its linger was over, a flush, or its leader
    had no request in flight.
    """
    queued: float
    """From then to the first attempt, ``encode`` excluded: no leader, no connection, too many requests in flight, or
    earlier batches of the partition.
    """
    encode: float
    """Making the batch's bytes final: compression, with the wait for a thread when the batch is large. Serializers are
    not included: they run before there is a batch.
    """
    retried: float
    """From the first attempt to the last: earlier answers, or none, and the back-off. 0 when there was one attempt."""
    in_flight: float
    """From the last attempt to the answer: the wire and the broker."""
    told: float
    """From the answer to the reading of this metadata: a busy event loop, or a late ``result()``."""
    throttled: float
    """The throttling that the answer asked for: after this record, and maybe because of it."""
    attempts: int
    """The number of times that the batch was sent."""
    node_id: int
    """The broker that answered: the partition's leader at that time."""
    batch_records: int
    """Records in the batch: many make ``linger`` long, and few make requests many."""
    batch_size: int
    """Bytes of the batch as it was sent, compressed, with its header."""


class BytesWithHeaders(bytes):
    """The result of a serializer that adds its own headers to the record, behind those of the caller.

    Java's serializers are given the record's headers to add to (KIP-82); these are not shown to interceptors.
    """

    headers: HeadersLike

    def __new__(cls, data: bytes, headers: HeadersLike) -> Self:
        """``data`` with ``headers``, which are checked when the record is sent."""
        made = super().__new__(cls, data)
        made.headers = headers
        return made


class RecordMetadata(NamedTuple):
    """The place of a delivered record: topic, partition, offset, and the timestamp it carries there.

    The sizes are those of the key and value as sent, in bytes, or -1 for None.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int = NO_TIMESTAMP
    serialized_key_size: int = -1
    serialized_value_size: int = -1

    @property
    def timing(self) -> RecordTiming | None:
        """The times of the record; None unless the producer has ``record_timing=True``."""
        return None

    @property
    def topic_partition(self) -> TopicPartition:
        """The place as a ``TopicPartition``."""
        return TopicPartition(self.topic, self.partition)

    @property
    def has_offset(self) -> bool:
        """False when no broker told the offset (``acks=0``, or a duplicate that it no longer remembered)."""
        return self.offset != INVALID_OFFSET

    @property
    def is_spooled(self) -> bool:
        """True when no broker has the record yet: it is in the spool, from which it is sent later (``spool_dir``). The
        offset is -1 then, and so is a partition that was not chosen.
        """
        return False


def serialized_size(data: bytes | None) -> int:
    """The size of a key or value as ``RecordMetadata`` has it: -1 for None, as in Kafka's own format."""
    return -1 if data is None else len(data)
