"""Encodes the Metadata request without kio, and reads the response topic by topic.

A producer may request ten thousand topics; building kio's objects for that blocks the loop for 30 ms. The response is
read by kio's schema, but a callback makes the object for each topic, so that ten thousand message objects need not
exist at once, nor at all for known topics. Of a topic's layout only the position of its name is known here.

The versions: 0 cannot request no topics, 4 may create topics, 8 has authorized operations, 9 is flexible, 10 has topic
ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final

from kio.serial._introspect import EntityTupleField, classify_field

from .api import ApiKey, response_class
from .codec import encode_request_header, read_response, unsigned_varint
from .reader import Cursor, FieldReader, entity_reader, entity_reader_with, read_compact_string

__all__ = ["encode_metadata_request", "peek_topic_name", "read_metadata_response"]

FIRST_FLEXIBLE: Final = 9
_FIRST_WITH_AUTO_CREATION: Final = 4
_FIRST_WITH_AUTHORIZED_OPERATIONS: Final = 8
_LAST_WITH_CLUSTER_OPERATIONS: Final = 10
_FIRST_WITH_TOPIC_IDS: Final = 10
_NO_TOPIC_ID: Final = bytes(16)
_SIZE_OF_ERROR_CODE: Final = 2
_LARGEST_SHORT: Final = 0x7E
"""The longest string, in bytes, whose compact length fits into one byte."""


def encode_metadata_request(
    version: int,
    correlation_id: int,
    client_id: str | None,
    topics: Sequence[str] | None,
    allow_auto_topic_creation: bool,
) -> list[bytes]:
    """A whole request frame, in one piece; ``topics`` None requests every topic, an empty one only the brokers."""
    flexible = version >= FIRST_FLEXIBLE
    header = encode_request_header(
        ApiKey.METADATA, version, correlation_id, None if client_id is None else client_id.encode()
    )
    pieces = [b"", header, _count(None if topics is None and version else len(topics or ()), flexible)]
    names = [name.encode() for name in topics or ()]
    if not flexible:
        pieces += [len(name).to_bytes(2, signed=True) + name for name in names]
    else:
        before = _NO_TOPIC_ID if version >= _FIRST_WITH_TOPIC_IDS else b""
        short = [before + bytes((size + 1,)) for size in range(_LARGEST_SHORT + 1)]
        pieces += [
            (short[len(name)] if len(name) <= _LARGEST_SHORT else before + _count(len(name), True)) + name + b"\0"
            for name in names
        ]
    if version >= _FIRST_WITH_AUTO_CREATION:
        pieces.append(b"\1" if allow_auto_topic_creation else b"\0")
    if version >= _FIRST_WITH_AUTHORIZED_OPERATIONS:
        pieces.append(b"\0\0" if version <= _LAST_WITH_CLUSTER_OPERATIONS else b"\0")
    if flexible:
        pieces.append(b"\0")
    pieces[0] = sum(map(len, pieces)).to_bytes(4)
    return [b"".join(pieces)]


def read_metadata_response(version: int, frame: bytes, read_topic: Callable[[FieldReader, Cursor], object]) -> Any:
    """kio's message from a response frame (without its size), with ``topics`` as returned by ``read_topic``.

    ``read_topic`` gets kio's reader of a topic and the cursor, which it must leave after the topic. Raises
    MalformedFrameError.
    """
    response = response_class(ApiKey.METADATA, version)
    read_message = _topic_reader(version)
    read = entity_reader_with(response, "topics", lambda cursor: read_topic(read_message, cursor))
    # Trailing bytes are ignored, as in other clients: librdkafka's mock cluster sends one.
    return read_response(ApiKey.METADATA, version, frame, read, may_be_longer=True)[1]


def peek_topic_name(version: int, cursor: Cursor) -> str | None:
    """The name of the topic that begins at ``cursor``, which does not move; None before version 9."""
    if version < FIRST_FLEXIBLE:
        return None
    start = cursor.position
    cursor.advance(_SIZE_OF_ERROR_CODE)
    name = read_compact_string(cursor)
    cursor.position = start
    return name


@cache
def _topic_reader(version: int) -> FieldReader:
    topics = next(field for field in fields(response_class(ApiKey.METADATA, version)) if field.name == "topics")
    kind = classify_field(topics)
    assert isinstance(kind, EntityTupleField)
    return entity_reader(kind.type_)


def _count(count: int | None, flexible: bool) -> bytes:
    """The length of an array or a compact string; None is a null."""
    if not flexible:
        return (-1 if count is None else count).to_bytes(4, signed=True)
    return unsigned_varint(0 if count is None else count + 1)
