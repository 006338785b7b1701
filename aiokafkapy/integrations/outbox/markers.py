"""The marker of a shard: names the rows that were last committed to Kafka, in a record of the same transaction.

Pure: the marker's form and key. ``marker_topic`` reads it. Flink's ``KafkaSink`` keeps the same facts in its
checkpoints, and the Spark sink here in the topic of its micro-batches.

Rules: a marker names its rows one by one, since ids become visible in any order and a highest id would not suffice. A
uid goes with each id, because a table may be emptied and numbered again. One marker is enough, because a batch is
marked in the database before the next one of its shard is published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from uuid import UUID

from ...errors import SerializationError
from .rows import OutboxRow

__all__ = ["decode_marker", "encode_marker", "marker_key"]


def marker_key(transactional_id: str) -> bytes:
    """The key of a shard's markers, whose producer has this id."""
    return transactional_id.encode()


def encode_marker(rows: Iterable[OutboxRow]) -> bytes:
    """A record's value that names these rows."""
    return json.dumps({"rows": [[row.id, row.uid.hex] for row in rows]}, separators=(",", ":")).encode()


def decode_marker(value: bytes) -> Mapping[int, UUID]:
    """The rows of a marker. Raises SerializationError for any other record."""
    try:
        return {int(number): UUID(hex=uid) for number, uid in json.loads(value)["rows"]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SerializationError(
            f"a record in the topic of the outbox's markers is not a marker: {value[:80]!r}; "
            "nothing else may write to that topic"
        ) from error
