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
from typing import Any, TypeVar, get_origin
from uuid import UUID

from ..common import EPOCH
from ..errors import MalformedFrameError
from ._kio import (
    EntityField,
    EntityTupleField,
    ErrorCode,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    get_tagged_field_default,
    is_optional,
)
from .cursor import (
    Cursor,
    FieldReader,
    not_null,
    read_array,
    read_bytes,
    read_compact_array,
    read_compact_string,
    read_int16,
    read_int32,
    read_int64,
    read_string,
    read_tagged_fields,
)

__all__ = ["entity_reader", "entity_reader_with", "error_code"]

T = TypeVar("T")

_UINT16 = struct.Struct(">H").unpack_from
_UINT32 = struct.Struct(">I").unpack_from
_UINT64 = struct.Struct(">Q").unpack_from
_FLOAT64 = struct.Struct(">d").unpack_from


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
    read = partial(not_null, partial(read_compact_array if entity.__flexible__ else read_array, read_element))
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
        values.update(read_tagged_fields(tagged, entity.__name__, cursor))
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
    read = partial(read_compact_array if flexible else read_array, inner)
    # kio's types: ``tuple[X, ...] | None`` is an array that may be null, ``tuple[X, ...]`` one that may not.
    return partial(not_null, read) if get_origin(field.type) is tuple else read


def _primitive_reader(kafka_type: str, flexible: bool, optional: bool) -> FieldReader:
    if kafka_type == "string":
        read = read_compact_string if flexible else read_string
        return read if optional else partial(not_null, read)
    if kafka_type in ("bytes", "records"):
        read_any = _read_compact_bytes if flexible else read_bytes
        return read_any if optional else partial(not_null, read_any)
    return _FIXED_SIZE_READERS[kafka_type]


# nullables and bytes


def _read_nullable_entity(inner: Callable[[Cursor], T], cursor: Cursor) -> T | None:
    # KIP-893: a nullable struct starts with -1 or 1.
    return None if _read_int8(cursor) < 0 else inner(cursor)


def _read_compact_bytes(cursor: Cursor) -> bytes | None:
    size = cursor.read_unsigned_varint() - 1
    return None if size < 0 else cursor.take(size)


# values of a fixed size


def _read_int8(cursor: Cursor) -> int:
    byte = cursor.data[cursor.advance(1)]
    return byte - 256 if byte > 127 else byte


def _read_uint8(cursor: Cursor) -> int:
    return cursor.data[cursor.advance(1)]


def _read_boolean(cursor: Cursor) -> bool:
    return cursor.data[cursor.advance(1)] != 0


def _read_uint16(cursor: Cursor) -> int:
    return int(_UINT16(cursor.data, cursor.advance(2))[0])


def _read_uint32(cursor: Cursor) -> int:
    return int(_UINT32(cursor.data, cursor.advance(4))[0])


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
    duration_ms = read_int64(cursor)
    try:
        return datetime.timedelta(milliseconds=duration_ms)
    except OverflowError:  # Long.MAX_VALUE is Java's "for ever"
        return datetime.timedelta.max if duration_ms > 0 else datetime.timedelta.min


def _read_datetime_i64(cursor: Cursor) -> datetime.datetime | None:
    timestamp_ms = read_int64(cursor)
    if timestamp_ms < 0:
        return None
    try:
        return EPOCH + datetime.timedelta(milliseconds=timestamp_ms)
    except OverflowError as error:
        raise MalformedFrameError(f"a timestamp is out of range: {error}") from None


_FIXED_SIZE_READERS: dict[str, FieldReader] = {
    "bool": _read_boolean,
    "int8": _read_int8,
    "int16": read_int16,
    "int32": read_int32,
    "int64": read_int64,
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
