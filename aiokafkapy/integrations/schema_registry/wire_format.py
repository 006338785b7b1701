"""The place of the id of a record's schema: Confluent's wire format, before the data or in a header.

Owns the bytes: before the data, a magic 0 and the id in four bytes, big-endian; in a header, a magic 1 and the schema's
GUID in sixteen. With Protobuf the path to the message's type in its file follows: a count and that many numbers, as
zigzag varints; the first type of a file, the usual one, is a single 0. Knows neither schemas nor records' formats.

The headers are ``__key_schema_id`` and ``__value_schema_id``, as Confluent's clients have them since 2.10 and 8.0. Of
several headers the last counts, as in Java.

Rules: received bytes are never trusted; a wrong magic, a short prefix, or a path of more than
``MAX_INDEXES`` numbers is a ``WireFormatError`` that says so.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ...errors import KafkaError

__all__ = [
    "KEY_SCHEMA_ID",
    "VALUE_SCHEMA_ID",
    "SchemaId",
    "WireFormatError",
    "find_schema_id",
    "guid_header",
    "id_prefix",
    "read_indexes",
    "write_indexes",
]

KEY_SCHEMA_ID: Final = "__key_schema_id"
VALUE_SCHEMA_ID: Final = "__value_schema_id"

MAX_INDEXES: Final = 1_000
"""The most numbers in the path to a message's type: types nest a few levels deep."""

_MAGIC_ID: Final = 0
_MAGIC_GUID: Final = 1
_MAX_ID: Final = 2**32 - 1


class WireFormatError(KafkaError, ValueError):
    """A record's bytes do not begin with Confluent's wire format."""


@dataclass(frozen=True, slots=True)
class SchemaId:
    """The schema that a record names: an id, or a GUID in a header. ``rest`` are the bytes after it."""

    id: int | None
    guid: str | None
    rest: memoryview

    @property
    def name(self) -> int | str:
        """The id or the GUID."""
        return self.guid or self.id or 0


def id_prefix(schema_id: int, indexes: Sequence[int] | None = None) -> bytes:
    """The prefix of the data: the id, and with Protobuf the path to the message's type."""
    if not 0 <= schema_id <= _MAX_ID:
        raise WireFormatError(f"the id of a schema is {schema_id}: it has 32 bits")
    prefix = bytes((_MAGIC_ID,)) + schema_id.to_bytes(4, "big")
    return prefix if indexes is None else prefix + write_indexes(indexes)


def guid_header(guid: str, indexes: Sequence[int] | None = None) -> bytes:
    """The value of the header that names a schema by its GUID."""
    value = bytes((_MAGIC_GUID,)) + uuid.UUID(guid).bytes
    return value if indexes is None else value + write_indexes(indexes)


def find_schema_id(
    data: bytes, headers: Iterable[tuple[str, bytes | None]] = (), *, is_key: bool = False
) -> tuple[SchemaId, memoryview]:
    """The schema's id, from the header or else from the first bytes, and the data after it.

    The path of Protobuf, if any, is ``rest`` of an id in a header, and at the front of the data otherwise.
    """
    wanted = KEY_SCHEMA_ID if is_key else VALUE_SCHEMA_ID
    # The last: the headers of a record that was read, and passed on with new data, come before the writer's own.
    given = [value for name, value in headers if name == wanted and value is not None]
    if given:
        return _read_id(given[-1], f"the header {wanted}"), memoryview(data)
    found = _read_id(data, "the key" if is_key else "the value")
    return found, found.rest


def write_indexes(indexes: Sequence[int]) -> bytes:
    """The path to a message's type."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(_zigzag(number) for number in (len(indexes), *indexes))


def read_indexes(data: memoryview) -> tuple[tuple[int, ...], memoryview]:
    """A path to a message's type, and the bytes after it."""
    count, at = _read_zigzag(data, 0)
    if not 0 <= count <= MAX_INDEXES:
        raise WireFormatError(f"the path to a Protobuf message has {count} numbers, at most {MAX_INDEXES} are taken")
    if not count:
        return (0,), data[at:]
    numbers = []
    for _ in range(count):
        number, at = _read_zigzag(data, at)
        if number < 0:
            raise WireFormatError(f"the path to a Protobuf message has the number {number}: they begin with 0")
        numbers.append(number)
    return tuple(numbers), data[at:]


# internals


def _read_id(data: bytes, where: str) -> SchemaId:
    view = memoryview(data)
    magic = view[0] if len(view) else -1
    if magic == _MAGIC_ID and len(view) >= 5:
        return SchemaId(int.from_bytes(view[1:5], "big"), None, view[5:])
    if magic == _MAGIC_GUID and len(view) >= 17:
        return SchemaId(None, str(uuid.UUID(bytes=bytes(view[1:17]))), view[17:])
    if magic in (_MAGIC_ID, _MAGIC_GUID):
        raise WireFormatError(f"{where} has {len(view)} bytes, too few for the id of a schema")
    raise WireFormatError(f"{where} begins with no id of a schema: it was written without a registry's serializer")


def _zigzag(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def _read_zigzag(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise WireFormatError("the path to a Protobuf message is cut off, or one of its numbers is too long")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
