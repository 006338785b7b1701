"""``OutboxRow``: one record as the table has it, and the checks that make one of a caller's arguments.

Pure. Kafka's counterpart is ``ProducerRecord``, whose constructor checks.

Rules: a record that could never be published is refused before it is written, by the errors that ``producer.send`` has
for it; its transaction is the caller's to roll back. A record without a time stamp has that of its ``add``, so that it
is the same however often it is published.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, TypedDict
from uuid import UUID, uuid4

from ...common import check_topic_name
from ...errors import RecordTooLargeError, SerializationError
from ...producer.records import HeadersLike, ProducerRecord, Timestamp
from .lanes import lane_of, shard_of

__all__ = ["OutboxRow", "decode_headers", "encode_headers", "row_values"]

MAX_PARTITION: Final = 2**31 - 1
MAX_TIMESTAMP: Final = 2**63 - 1


class OutboxRow(NamedTuple):
    """A row as the relay reads it, in the order of the columns that it selects."""

    id: int
    uid: UUID
    lane: int
    shard: int
    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: str | None
    timestamp_ms: int

    @property
    def record(self) -> ProducerRecord:
        """The record that is sent."""
        headers = decode_headers(self.headers)
        return ProducerRecord(self.topic, self.value, self.key, self.partition, self.timestamp_ms, headers)


class RowValues(TypedDict):
    """A row as it is inserted: the database numbers it."""

    uid: UUID
    lane: int
    shard: int
    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: str | None
    timestamp_ms: int


def row_values(record: ProducerRecord, shards: int, max_record_bytes: int) -> RowValues:
    """The columns of a record whose key and value are serialized.

    Raises InvalidTopicError, SerializationError, RecordTooLargeError, and TypeError or ValueError for a partition or
    a time stamp.
    """
    topic = record.topic
    check_topic_name(topic)
    key, value = _bytes_of(topic, "key", record.key), _bytes_of(topic, "value", record.value)
    headers = _pairs_of(topic, record.headers)
    partition = None if record.partition is None else _number(topic, "partition", record.partition, MAX_PARTITION)
    size = len(key or b"") + len(value or b"")
    size += sum(len(name.encode()) + len(data or b"") for name, data in headers)
    if size > max_record_bytes:
        raise RecordTooLargeError(
            f"a record of topic {topic!r} has {size} bytes of key, value and headers: the outbox takes "
            f"max_record_bytes={max_record_bytes}",
            size=size,
            limit=max_record_bytes,
            topic=topic,
        )
    lane = lane_of(topic, key, partition)
    return {
        "uid": uuid4(),
        "lane": lane,
        "shard": shard_of(lane, shards),
        "topic": topic,
        "partition": partition,
        "key": key,
        "value": value,
        "headers": encode_headers(headers),
        "timestamp_ms": _milliseconds(topic, record.timestamp_ms),
    }


def encode_headers(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    """Headers as the column has them; None for none."""
    pairs = [(name, None if data is None else base64.b64encode(data).decode()) for name, data in headers]
    return json.dumps(pairs) if pairs else None


def decode_headers(text: str | None) -> tuple[tuple[str, bytes | None], ...] | None:
    """The opposite of ``encode_headers``."""
    if text is None:
        return None
    return tuple((name, None if data is None else base64.b64decode(data)) for name, data in json.loads(text))


# internals


def _bytes_of(topic: str, part: str, data: Any) -> bytes | None:
    if data is None or type(data) is bytes:
        return data
    try:
        return memoryview(data).tobytes()
    except TypeError:
        raise SerializationError(
            f"the {part} of a record of topic {topic!r} is a {type(data).__name__}, not bytes: encode it, or give the "
            f"outbox a {part}_serializer",
            topic=topic,
        ) from None


def _pairs_of(topic: str, headers: HeadersLike | None) -> list[tuple[str, bytes | None]]:
    pairs: list[tuple[str, bytes | None]] = []
    try:
        for name, data in headers.items() if isinstance(headers, Mapping) else headers or ():
            if not isinstance(name, str):
                raise TypeError(f"a name is a {type(name).__name__}, not a str")
            name.encode()
            pairs.append((name, None if data is None else memoryview(data).tobytes()))
    except (TypeError, ValueError) as error:
        raise SerializationError(
            f"topic {topic!r}: headers must be pairs, [('name', b'value')], or a mapping: {error}", topic=topic
        ) from error
    return pairs


def _number(topic: str, name: str, given: object, most: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"topic {topic!r}: {name} is a {type(given).__name__}, not an int")
    if not 0 <= given <= most:
        raise ValueError(f"topic {topic!r}: {name}={given}: write 0 to {most}, or None")
    return given


def _milliseconds(topic: str, moment: Timestamp | None) -> int:
    if moment is None:
        return time.time_ns() // 1_000_000
    number = round(moment.timestamp() * 1_000) if isinstance(moment, datetime) else moment
    return _number(topic, "timestamp_ms", number, MAX_TIMESTAMP)
