"""Reads kio's message classes from untrusted bytes.

The classes and the writers are kio's. Its native reader is not safe for bytes from a socket: it reserves memory for any
array length in them, which ends the process for a hostile one, and it raises on error codes and tagged fields that are
newer than itself. Here

- every length is checked against the remaining bytes before it is used;
- an unknown error code becomes a pseudo member of kio's ``ErrorCode`` that keeps the number;
- an unknown tagged field is skipped (KIP-482);
- any other invalid bytes raise MalformedFrameError, and nothing else.

A reader is built once per class from the fields' metadata, then cached.
"""

from __future__ import annotations

import dataclasses
import datetime
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Any, ClassVar, TypeAlias, TypeVar, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)

from ..errors import MalformedFrameError

__all__ = [
    "Cursor",
    "FieldReader",
    "RequestCursor",
    "entity_reader",
    "entity_reader_with",
    "error_code",
    "read_bytes",
    "read_compact_string",
    "read_int16",
    "read_int32",
    "read_string",
]

T = TypeVar("T")

FieldReader: TypeAlias = Callable[["Cursor"], Any]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_INT16 = struct.Struct(">h").unpack_from
_UINT16 = struct.Struct(">H").unpack_from
_INT32 = struct.Struct(">i").unpack_from
_UINT32 = struct.Struct(">I").unpack_from
_INT64 = struct.Struct(">q").unpack_from
_UINT64 = struct.Struct(">Q").unpack_from
_FLOAT64 = struct.Struct(">d").unpack_from


class Cursor:
    """A position in a frame. Each ``read_*`` returns one value and moves on; raises MalformedFrameError
    past the end.
    """

    __slots__ = ("data", "end", "position")

    max_string_size: ClassVar[int] = 2**31 - 1

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position
        self.end = len(data)

    def advance(self, size: int) -> int:
        """Skip ``size`` bytes and return their position."""
        start = self.position
        if size < 0 or size > self.end - start:
            raise MalformedFrameError(f"{size} bytes claimed at offset {start}, {self.end - start} left in the frame")
        self.position = start + size
        return start

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        start = self.advance(size)
        return self.data[start : start + size]

    def read_unsigned_varint(self) -> int:
        """An unsigned varint of at most five bytes."""
        result = 0
        for shift in (0, 7, 14, 21, 28):
            byte = self.data[self.advance(1)]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
        raise MalformedFrameError(f"varint of more than five bytes at offset {self.position}")

    def skip_tags(self) -> None:
        """Skip the tagged fields that follow (KIP-482)."""
        for _ in range(self.read_count(self.read_unsigned_varint())):
            self.read_unsigned_varint()
            self.advance(self.read_unsigned_varint())

    def read_count(self, count: int) -> int:
        """Check an array's length: each element takes at least one byte."""
        if count > self.end - self.position:
            raise MalformedFrameError(
                f"array of {count} claimed at offset {self.position}, {self.end - self.position} bytes are left"
            )
        return count


class RequestCursor(Cursor):
    """A position in a request's frame. As in Kafka's brokers, no string may be longer than an int16 can say, not even
    in the flexible versions.
    """

    __slots__ = ()

    max_string_size: ClassVar[int] = 0x7FFF


def error_code(code: int) -> ErrorCode:
    """kio's ErrorCode of a number; for one that kio does not know, a pseudo member which keeps the number."""
    try:
        return ErrorCode(code)
    except ValueError:
        return _unknown_error_code(code)


@cache
def _unknown_error_code(code: int) -> ErrorCode:
    member = int.__new__(ErrorCode, code)
    member._value_ = code
    member._name_ = f"unknown_error_code_{code}"
    member.retriable = False
    return member


@cache
def entity_reader(entity: type[Any]) -> FieldReader:
    """A function that reads one ``entity`` from a Cursor."""
    flexible = bool(entity.__flexible__)
    names: list[str] = []
    readers: list[FieldReader] = []
    tagged: dict[int, tuple[str, FieldReader]] = {}
    defaults: dict[str, object] = {}
    for field in dataclasses.fields(entity):
        tag = get_field_tag(field)
        optional = is_optional(field)
        reader = _field_reader(
            field, flexible and not _is_legacy_client_id(entity, field.name), optional and tag is None
        )
        if tag is None:
            names.append(field.name)
            readers.append(reader)
        else:
            tagged[int(tag)] = (field.name, reader)
            defaults[field.name] = get_tagged_field_default(field)
    return partial(_read_entity, entity, list(zip(names, readers, strict=True)), tagged, defaults, flexible)


def entity_reader_with(entity: Any, array: str, read_element: FieldReader) -> FieldReader:
    """As ``entity_reader``, but each element of the untagged field ``array`` is the result of ``read_element``."""
    own_reader: Any = entity_reader(entity)
    _, fields, *rest = own_reader.args
    read = partial(_not_null, partial(_read_compact_array if entity.__flexible__ else _read_array, read_element))
    return partial(_read_entity, entity, [(name, read if name == array else own) for name, own in fields], *rest)


def _read_entity(
    entity: type[Any],
    fields: list[tuple[str, FieldReader]],
    tagged: dict[int, tuple[str, FieldReader]],
    defaults: dict[str, object],
    flexible: bool,
    cursor: Cursor,
) -> Any:
    values = {name: reader(cursor) for name, reader in fields}
    if flexible:
        values.update(defaults)
        for _ in range(cursor.read_unsigned_varint()):
            tag = cursor.read_unsigned_varint()
            size = cursor.read_unsigned_varint()
            after = cursor.advance(size) + size
            if tag in tagged:
                name, reader = tagged[tag]
                cursor.position = after - size
                values[name] = reader(cursor)
                if cursor.position != after:
                    raise MalformedFrameError(f"tagged field {tag} of {entity.__name__} is not {size} bytes long")
    return entity(**values)


def _is_legacy_client_id(entity: type[Any], name: str) -> bool:
    # RequestHeader.json: the client id keeps its old form so that a broker can read it before it knows the version.
    return name == "client_id" and entity.__name__ == "RequestHeader"


def _field_reader(field: dataclasses.Field[Any], flexible: bool, optional: bool) -> FieldReader:
    kind = classify_field(field)
    if isinstance(kind, EntityField | EntityTupleField):
        inner = entity_reader(kind.type_)
        if isinstance(kind, EntityField):
            return partial(_read_nullable_entity, inner) if optional else inner
    else:
        inner = _primitive_reader(get_schema_field_type(field), flexible, optional and not kind.is_array)
    if not kind.is_array:
        return inner
    read = partial(_read_compact_array if flexible else _read_array, inner)
    # kio's types: ``tuple[X, ...] | None`` is an array that may be null, ``tuple[X, ...]`` one that may not.
    return partial(_not_null, read) if get_origin(field.type) is tuple else read


def _primitive_reader(kafka_type: str, flexible: bool, optional: bool) -> FieldReader:
    if kafka_type == "string":
        read = read_compact_string if flexible else read_string
        return read if optional else partial(_not_null, read)
    if kafka_type in ("bytes", "records"):
        read_any = _read_compact_bytes if flexible else read_bytes
        return read_any if optional else partial(_not_null, read_any)
    return _FIXED_SIZE_READERS[kafka_type]


# Arrays and nullables


def _read_array(inner: Callable[[Cursor], T], cursor: Cursor) -> tuple[T, ...] | None:
    count = cursor.read_count(read_int32(cursor))
    return None if count < 0 else tuple([inner(cursor) for _ in range(count)])


def _read_compact_array(inner: Callable[[Cursor], T], cursor: Cursor) -> tuple[T, ...] | None:
    count = cursor.read_count(cursor.read_unsigned_varint() - 1)
    return None if count < 0 else tuple([inner(cursor) for _ in range(count)])


def _read_nullable_entity(inner: Callable[[Cursor], T], cursor: Cursor) -> T | None:
    # KIP-893: a nullable struct starts with -1 or 1.
    return None if _read_int8(cursor) < 0 else inner(cursor)


def _not_null(read: Callable[[Cursor], T | None], cursor: Cursor) -> T:
    value = read(cursor)
    if value is None:
        raise MalformedFrameError(f"null at offset {cursor.position}, where the schema has none")
    return value


# Strings and bytes


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedFrameError(f"a string is not UTF-8: {error}") from None


def read_string(cursor: Cursor) -> str | None:
    """A string of a version that is not flexible, or None."""
    size = read_int16(cursor)
    return None if size < 0 else _decode(cursor.take(size))


def read_compact_string(cursor: Cursor) -> str | None:
    """A string of a flexible version, or None."""
    size = cursor.read_unsigned_varint() - 1
    if size > cursor.max_string_size:
        raise MalformedFrameError(
            f"string of {size} bytes at offset {cursor.position}, the limit is {cursor.max_string_size}"
        )
    return None if size < 0 else _decode(cursor.take(size))


def read_bytes(cursor: Cursor) -> bytes | None:
    """Bytes of a version that is not flexible, or None."""
    size = read_int32(cursor)
    return None if size < 0 else cursor.take(size)


def _read_compact_bytes(cursor: Cursor) -> bytes | None:
    size = cursor.read_unsigned_varint() - 1
    return None if size < 0 else cursor.take(size)


# Values of a fixed size


def _read_int8(cursor: Cursor) -> int:
    byte = cursor.data[cursor.advance(1)]
    return byte - 256 if byte > 127 else byte


def _read_uint8(cursor: Cursor) -> int:
    return cursor.data[cursor.advance(1)]


def _read_boolean(cursor: Cursor) -> bool:
    return cursor.data[cursor.advance(1)] != 0


def read_int16(cursor: Cursor) -> int:
    """A signed integer of two bytes."""
    return int(_INT16(cursor.data, cursor.advance(2))[0])


def _read_uint16(cursor: Cursor) -> int:
    return int(_UINT16(cursor.data, cursor.advance(2))[0])


def read_int32(cursor: Cursor) -> int:
    """A signed integer of four bytes."""
    return int(_INT32(cursor.data, cursor.advance(4))[0])


def _read_uint32(cursor: Cursor) -> int:
    return int(_UINT32(cursor.data, cursor.advance(4))[0])


def _read_int64(cursor: Cursor) -> int:
    return int(_INT64(cursor.data, cursor.advance(8))[0])


def _read_uint64(cursor: Cursor) -> int:
    return int(_UINT64(cursor.data, cursor.advance(8))[0])


def _read_float64(cursor: Cursor) -> float:
    return float(_FLOAT64(cursor.data, cursor.advance(8))[0])


def _read_uuid(cursor: Cursor) -> UUID | None:
    raw = cursor.take(16)
    return UUID(bytes=raw) if any(raw) else None


def _read_error_code(cursor: Cursor) -> ErrorCode:
    return error_code(read_int16(cursor))


def _read_timedelta_i32(cursor: Cursor) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=read_int32(cursor))


def _read_timedelta_i64(cursor: Cursor) -> datetime.timedelta:
    try:
        return datetime.timedelta(milliseconds=_read_int64(cursor))
    except OverflowError as error:
        raise MalformedFrameError(f"a duration is out of range: {error}") from None


def _read_datetime_i64(cursor: Cursor) -> datetime.datetime | None:
    timestamp_ms = _read_int64(cursor)
    if timestamp_ms < 0:
        return None
    try:
        return _EPOCH + datetime.timedelta(milliseconds=timestamp_ms)
    except OverflowError as error:
        raise MalformedFrameError(f"a time stamp is out of range: {error}") from None


_FIXED_SIZE_READERS: dict[str, FieldReader] = {
    "bool": _read_boolean,
    "int8": _read_int8,
    "int16": read_int16,
    "int32": read_int32,
    "int64": _read_int64,
    "uint8": _read_uint8,
    "uint16": _read_uint16,
    "uint32": _read_uint32,
    "uint64": _read_uint64,
    "float64": _read_float64,
    "uuid": _read_uuid,
    "error_code": _read_error_code,
    "timedelta_i32": _read_timedelta_i32,
    "timedelta_i64": _read_timedelta_i64,
    "datetime_i64": _read_datetime_i64,
}
