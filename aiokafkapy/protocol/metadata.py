"""Encodes the Metadata request without kio, and reads the response topic by topic.

A producer may request ten thousand topics; building kio's objects for that blocks the loop for 30 ms. A callback makes
the object for each topic of a response, so that ten thousand message objects need not exist at once, nor at all for
known topics. Of a topic's layout only the position of its name is known here. Older versions are read by kio's schema.

The versions: 0 cannot request no topics, 4 may create topics, 8 has authorized operations, 9 is flexible, 10 has topic
ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache, partial
from typing import Any, Final, NamedTuple

from .api import ApiKey, response_class
from .codec import Struct, encode_request_header, read_response, unsigned_varint
from .constants import FIRST_METADATA_WITH_TOPIC_IDS
from .cursor import (
    Cursor,
    FieldReader,
    not_null,
    read_compact_array,
    read_compact_string,
    read_int16,
    read_int32,
)

__all__ = ["MetadataBroker", "MetadataResponse", "encode_metadata_request", "peek_topic_name", "read_metadata_response"]

FIRST_FLEXIBLE: Final = 9
_FIRST_WITH_AUTO_CREATION: Final = 4
_FIRST_WITH_AUTHORIZED_OPERATIONS: Final = 8
_LAST_WITH_CLUSTER_OPERATIONS: Final = 10
_FIRST_WITH_ERROR_CODE: Final = 13
_NO_TOPIC_ID: Final = bytes(16)
_SIZE_OF_ERROR_CODE: Final = 2
_LARGEST_SHORT: Final = 0x7E
"""The longest string, in bytes, whose compact length fits into one byte."""


class MetadataBroker(NamedTuple):
    """A broker of a response."""

    node_id: int
    host: str
    port: int
    rack: str | None


class MetadataResponse(NamedTuple):
    """A response of a flexible version; ``topics`` are the objects that the caller has made of them."""

    throttle_time_ms: int
    brokers: tuple[MetadataBroker, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[Any, ...]
    error_code: int


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
        before = _NO_TOPIC_ID if version >= FIRST_METADATA_WITH_TOPIC_IDS else b""
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


def read_metadata_response(
    version: int, frame: bytes, read_topic: Callable[[FieldReader, Cursor], object]
) -> MetadataResponse | Struct:
    """The message of a response frame (without its size), with ``topics`` as returned by ``read_topic``.

    ``read_topic`` gets kio's reader of a topic and the cursor, which it must leave after the topic. The message is a
    ``MetadataResponse``, or kio's before version 9. Raises MalformedFrameError.
    """
    read_message = partial(_read_topic, version)

    def read_each(cursor: Cursor) -> object:
        return read_topic(read_message, cursor)

    read: FieldReader
    if version >= FIRST_FLEXIBLE:
        read = partial(_read_flexible, version, read_each)
    else:
        from .reader import entity_reader_with

        read = entity_reader_with(response_class(ApiKey.METADATA, version), "topics", read_each)
    # Trailing bytes are ignored, as in other clients: librdkafka's mock cluster sends one.
    message: MetadataResponse | Struct = read_response(ApiKey.METADATA, version, frame, read, may_be_longer=True)[1]
    return message


def peek_topic_name(version: int, cursor: Cursor) -> str | None:
    """The name of the topic that begins at ``cursor``, which does not move; None before version 9."""
    if version < FIRST_FLEXIBLE:
        return None
    start = cursor.position
    cursor.advance(_SIZE_OF_ERROR_CODE)
    name = read_compact_string(cursor)
    cursor.position = start
    return name


def _read_flexible(version: int, read_topic: FieldReader, cursor: Cursor) -> MetadataResponse:
    throttle_time_ms = read_int32(cursor)
    brokers = not_null(partial(read_compact_array, _read_broker), cursor)
    cluster_id = read_compact_string(cursor)
    controller_id = read_int32(cursor)
    topics = not_null(partial(read_compact_array, read_topic), cursor)
    if version <= _LAST_WITH_CLUSTER_OPERATIONS:
        read_int32(cursor)
    error_code = read_int16(cursor) if version >= _FIRST_WITH_ERROR_CODE else 0
    cursor.skip_tags()
    return MetadataResponse(throttle_time_ms, brokers, cluster_id, controller_id, topics, error_code)


def _read_broker(cursor: Cursor) -> MetadataBroker:
    node_id = read_int32(cursor)
    host = not_null(read_compact_string, cursor)
    broker = MetadataBroker(node_id, host, read_int32(cursor), read_compact_string(cursor))
    cursor.skip_tags()
    return broker


def _read_topic(version: int, cursor: Cursor) -> object:
    return _topic_reader(version)(cursor)


@cache
def _topic_reader(version: int) -> FieldReader:
    from ._kio import EntityTupleField, classify_field
    from .reader import entity_reader

    topics = next(field for field in fields(response_class(ApiKey.METADATA, version)) if field.name == "topics")
    kind = classify_field(topics)
    assert isinstance(kind, EntityTupleField)
    return entity_reader(kind.type_)


def _count(count: int | None, flexible: bool) -> bytes:
    """The length of an array or a compact string; None is a null."""
    if not flexible:
        return (-1 if count is None else count).to_bytes(4, signed=True)
    return unsigned_varint(0 if count is None else count + 1)
