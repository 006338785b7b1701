"""``OutboxRow``: one record of the table, and the checks that turn a caller's arguments into one.

Pure. Kafka's counterpart is ``ProducerRecord``, whose constructor checks.

Rules: a record that could never be published is refused before it is written, by the checks of ``producer.send``; the
caller rolls back its transaction. A record without a timestamp gets the time of its ``add``, so that it is the same
however often it is published.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import NamedTuple, TypedDict
from uuid import UUID

from ...errors import RecordTooLargeError, SerializationError
from ...producer.arguments import check_data, headers_of, partition_of, plain_data, time_of, topic_name
from ...producer.records import ProducerRecord
from .lanes import lane_of, shard_of

__all__ = ["OutboxRow", "decode_headers", "encode_headers", "row_values"]


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
    """A row to insert: the database numbers it."""

    uid: UUID
    lane: int
    shard: int
    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: str | None
    timestamp_ms: int


def row_values(record: ProducerRecord, shards: int, max_record_bytes: int, *, now_ms: int, uid: UUID) -> RowValues:
    """The columns of a record whose key and value are serialized.

    Raises InvalidTopicError, SerializationError, RecordTooLargeError, and TypeError or ValueError for a partition or
    a timestamp.
    """
    topic = topic_name(record.topic)
    key, value = _bytes_of(topic, "key", record.key), _bytes_of(topic, "value", record.value)
    headers = () if record.headers is None else headers_of(topic, record.headers) or ()
    partition = None if record.partition is None else partition_of(topic, record.partition)
    timestamp_ms = now_ms if record.timestamp_ms is None else time_of(topic, record.timestamp_ms)
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
        "uid": uid,
        "lane": lane,
        "shard": shard_of(lane, shards),
        "topic": topic,
        "partition": partition,
        "key": key,
        "value": value,
        "headers": encode_headers(headers),
        "timestamp_ms": timestamp_ms,
    }


def encode_headers(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    """Headers in the form of the column; None without headers."""
    pairs = [(name, None if data is None else base64.b64encode(data).decode()) for name, data in headers]
    return json.dumps(pairs) if pairs else None


def decode_headers(text: str | None) -> tuple[tuple[str, bytes | None], ...] | None:
    """The opposite of ``encode_headers``."""
    if text is None:
        return None
    return tuple((name, None if data is None else base64.b64decode(data)) for name, data in json.loads(text))


# internals


def _bytes_of(topic: str, part: str, data: object) -> bytes | None:
    try:
        check_data(topic, None, data)
    except SerializationError as error:
        raise SerializationError(
            f"the {part} of a record of topic {topic!r} is a {type(data).__name__}, not bytes: encode it, or give the "
            f"outbox a {part}_serializer",
            topic=topic,
        ) from error.__cause__
    return plain_data(data)
