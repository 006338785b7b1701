"""Writes messages from plain values, without an object of kio's for each level.

``PlainMessage`` is a response as a handler has it, dicts and lists; ``fields_writer`` gives the encoder of one kio
class. The layout is kio's: its classes name the fields and their types, and a test compares the bytes of both for every
response. kio's own writer takes ten times as long, and needs the objects to be built before.

Rules:

- values, fields and defaults are those of ``entities.build``: a field that only other versions have is left out, a
  field that is not given takes the default, an unknown field raises TypeError;
- an element of an array of structs may be ``bytes``: it is encoded already, and taken as it is;
- ``records`` may be a list of buffers;
- a writer is a function made from source text, once per class: all fields of fixed size that follow each other are
  packed in one call.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from struct import Struct, pack
from typing import Any, Final, TypeAlias
from uuid import UUID

from ..common import MAX_STRING_SIZE, Buffer, milliseconds
from ._kio import (
    EntityField,
    EntityTupleField,
    classify_field,
    entity_writer,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)
from .api import response_class
from .codec import unsigned_varint
from .entities import check_names, default_of

__all__ = ["PlainMessage", "encode_element", "error_codes", "fields_writer"]

Append: TypeAlias = Callable[[Buffer], object]
Writer: TypeAlias = Callable[[Append, Any], None]
"""Gives the bytes of a value of the field's type to its first argument."""
FieldsWriter: TypeAlias = Callable[[Append, Mapping[str, object]], None]

_CODES: Final[Mapping[str, str]] = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float64": "d",
    "uuid": "16s",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
"""Types of a fixed size, as ``struct`` has them."""
_CONVERSIONS: Final[Mapping[str, str]] = {
    "uuid": "uuid_bytes",
    "timedelta_i32": "as_ms",
    "timedelta_i64": "as_ms",
    "datetime_i64": "as_ms",
}
_NO_UUID: Final = bytes(16)


class PlainMessage:
    """A response of one API and version, as plain values by the names of kio's fields."""

    __slots__ = ("__api_key__", "__version__", "fields")

    def __init__(self, api_key: int, version: int, fields: dict[str, Any]) -> None:
        """Raises TypeError for a field that no version has."""
        self.__api_key__ = api_key
        self.__version__ = version
        self.fields = fields
        entity = response_class(api_key, version)
        if not fields.keys() <= entity.__dataclass_fields__.keys():
            check_names(entity, fields)

    def throttled(self, throttle_time_ms: int) -> PlainMessage:
        """The message with the time for which the client is held back, if this version has a field for it."""
        if "throttle_time" not in response_class(self.__api_key__, self.__version__).__dataclass_fields__:
            return self
        return PlainMessage(self.__api_key__, self.__version__, {**self.fields, "throttle_time": throttle_time_ms})

    def append_to(self, append: Append) -> None:
        """Give its bytes, in pieces and in order, to ``append``."""
        entity: Any = response_class(self.__api_key__, self.__version__)
        fields_writer(entity)(append, self.fields)


def error_codes(answer: object, most: int | None = None) -> Iterator[int]:
    """The error codes of a ``PlainMessage`` that are not 0, the outermost first; of anything else none.

    ``most`` bounds the number of structs that are looked at.
    """
    waiting: deque[object] = deque([answer.fields] if isinstance(answer, PlainMessage) else ())
    looked_at = 0
    while waiting and looked_at != most:
        struct = waiting.popleft()
        if not isinstance(struct, dict):  # a value, or a struct that is encoded already
            continue
        looked_at += 1
        if code := struct.get("error_code"):
            yield int(code)
        for name, inner in struct.items():
            if isinstance(inner, list | tuple) and name != "node_endpoints":
                waiting.extend(islice(inner, most))


def encode_element(api_key: int, version: int, array: str, fields: dict[str, object]) -> bytes:
    """An element of an array of a response as it is on the wire, for a ``PlainMessage`` to take as it is.

    Raises TypeError for a field that no version has.
    """
    pieces: list[Buffer] = []
    fields_writer(_element_class(api_key, version, array))(pieces.append, fields)
    return b"".join(pieces)


@cache
def _element_class(api_key: int, version: int, array: str) -> Any:
    kind = classify_field(response_class(api_key, version).__dataclass_fields__[array])
    assert isinstance(kind, EntityTupleField)
    return kind.type_


@cache
def fields_writer(entity: Any) -> FieldsWriter:
    """A function that gives the bytes of a struct's fields, in pieces, to its first argument."""
    return _Source(entity).compiled()


class _Source:
    """The source text of one class's writer, and the names that it uses."""

    def __init__(self, entity: Any) -> None:
        self._entity = entity
        self._is_flexible = bool(entity.__flexible__)
        self._names: dict[str, Any] = {
            "as_ms": _as_ms,
            "check_names": check_names,
            "entity": entity,
            "known": entity.__dataclass_fields__.keys(),
            "uuid_bytes": _uuid_bytes,
            "write_other": _write_other,
        }
        self._lines = [
            "def write(append, fields):",
            "    if not fields.keys() <= known:",
            "        check_names(entity, fields)",
            "    get = fields.get",
        ]
        self._run: list[tuple[str, str]] = []  # (code of struct, expression) of neighbours of fixed size

    def compiled(self) -> FieldsWriter:
        """The writer, as a function."""
        tagged = []
        for field in dataclasses.fields(self._entity):
            tag = get_field_tag(field)
            if tag is None:
                self._add(field)
            else:
                tagged.append((int(tag), field.name, self._named("tagged", _tagged_writer(field))))
        self._flush()
        if tagged:
            self._line("tags = []")
            for number, name, writer in sorted(tagged):
                self._line(f"if {name!r} in fields:")
                self._line(f"    {writer}(tags, {number}, fields[{name!r}])")
            self._line("append(varint(len(tags)))")
            self._line("for tag in tags: append(tag)")
            self._names["varint"] = unsigned_varint
        elif self._is_flexible:
            self._line("append(b'\\0')")
        # As ``dataclasses`` makes its methods: the text has nothing but names of kio's fields.
        exec("\n".join(self._lines), self._names)
        written: FieldsWriter = self._names["write"]
        return written

    # internals

    def _add(self, field: dataclasses.Field[Any]) -> None:
        kind, default = classify_field(field), self._named("default", default_of(field))
        value = f"get({field.name!r}, {default})"
        if kind.is_array or isinstance(kind, EntityField):
            self._flush()
            writer = _array_writer(field, self._is_flexible) if kind.is_array else _struct_writer(field)
            self._line(f"{self._named('write', writer)}(append, {value})")
            return
        kafka_type = get_schema_field_type(field)
        if kafka_type in _CODES:
            convert = _CONVERSIONS.get(kafka_type)
            self._run.append((_CODES[kafka_type], value if convert is None else f"{convert}({value})"))
            return
        self._flush()
        writer = _sized_writer(kafka_type, self._is_flexible, is_optional(field))
        self._line(f"{self._named('write', writer)}(append, {value})")

    def _flush(self) -> None:
        """Write the fields of fixed size that came so far."""
        if self._run:
            pack_all = self._named("pack", Struct(">" + "".join(code for code, _ in self._run)).pack)
            self._line(f"append({pack_all}({', '.join(expression for _, expression in self._run)}))")
            self._run = []

    def _line(self, text: str) -> None:
        self._lines.append("    " + text)

    def _named(self, prefix: str, value: object) -> str:
        name = f"{prefix}_{len(self._names)}"
        self._names[name] = value
        return name


# the parts of a writer


def _array_writer(field: dataclasses.Field[Any], is_flexible: bool) -> Writer:
    kind = classify_field(field)
    write_each: Writer
    if isinstance(kind, EntityTupleField):
        write_each = _element_writer(kind.type_)
    else:
        kafka_type = get_schema_field_type(field)
        code = _CODES.get(kafka_type, "")
        if len(code) == 1 and kafka_type not in _CONVERSIONS:
            return _numbers_writer(code, is_flexible)
        write_each = _primitive_writer(kafka_type, is_flexible)

    def write(append: Append, values: Sequence[object] | None) -> None:
        append(_count(values, is_flexible))
        for each in values or ():
            write_each(append, each)

    return write


def _numbers_writer(code: str, is_flexible: bool) -> Writer:
    def write(append: Append, values: Sequence[object] | None) -> None:
        append(_count(values, is_flexible))
        if values:
            append(pack(f">{len(values)}{code}", *values))

    return write


def _element_writer(entity: Any) -> Writer:
    write_fields = fields_writer(entity)

    def write(append: Append, value: Any) -> None:
        if value.__class__ is dict:
            write_fields(append, value)
        elif value.__class__ is bytes:
            append(value)
        else:
            _write_other(append, value)

    return write


def _struct_writer(field: dataclasses.Field[Any]) -> Writer:
    kind = classify_field(field)
    write_element = _element_writer(kind.type_)
    if not is_optional(field) or get_field_tag(field) is not None:
        return write_element

    def write(append: Append, value: Any) -> None:
        # KIP-893: a nullable struct starts with -1 or 1.
        append(b"\xff" if value is None else b"\1")
        if value is not None:
            write_element(append, value)

    return write


def _primitive_writer(kafka_type: str, is_flexible: bool) -> Writer:
    if kafka_type not in _CODES:
        return _sized_writer(kafka_type, is_flexible, is_nullable=False)
    packed = Struct(">" + _CODES[kafka_type]).pack
    convert: Callable[[Any], Any] = _uuid_bytes if kafka_type == "uuid" else _as_ms
    needs_it = kafka_type in _CONVERSIONS

    def write(append: Append, value: Any) -> None:
        append(packed(convert(value) if needs_it else value))

    return write


def _sized_writer(kafka_type: str, is_flexible: bool, is_nullable: bool) -> Writer:
    """The bytes of a string or of bytes, with the size before them."""
    is_string = kafka_type == "string"

    def write(append: Append, value: Any) -> None:
        if value is None:
            if not is_nullable:
                raise TypeError(f"null in place of {kafka_type}, where the schema has none")
            append(b"\0" if is_flexible else (b"\xff\xff" if is_string else b"\xff\xff\xff\xff"))
            return
        pieces: Sequence[Buffer] = value if value.__class__ is list else (value.encode() if is_string else value,)
        size = sum(map(len, pieces))
        if is_flexible:
            append(unsigned_varint(size + 1))
        elif not is_string:
            append(size.to_bytes(4))
        elif size <= MAX_STRING_SIZE:
            append(size.to_bytes(2))
        else:
            raise ValueError(f"a string of {size} bytes; the limit of this version is {MAX_STRING_SIZE}")
        for piece in pieces:
            append(piece)

    return write


def _tagged_writer(field: dataclasses.Field[Any]) -> Callable[[list[Buffer], int, Any], None]:
    """Adds a tagged field, unless it has its default, which is not written (KIP-482)."""
    kind = classify_field(field)
    write: Writer
    if kind.is_array:
        write = _array_writer(field, True)
    elif isinstance(kind, EntityField):
        write = _struct_writer(field)
    else:
        write = _primitive_writer(get_schema_field_type(field), True)

    def encoded(value: Any) -> bytes:
        pieces: list[Buffer] = []
        write(pieces.append, value)
        return b"".join(pieces)

    default = default_of(field)
    unwritten = None if default is None else encoded(default)

    def write_tagged(tags: list[Buffer], tag: int, value: Any) -> None:
        if value is None and unwritten is None:
            return
        data = encoded(value)
        if data != unwritten:
            tags.append(unsigned_varint(tag) + unsigned_varint(len(data)) + data)

    return write_tagged


def _write_other(append: Append, value: Any) -> None:
    """The bytes of one of kio's own objects."""
    with io.BytesIO() as buffer:
        entity_writer(type(value))(buffer, value)
        append(buffer.getvalue())


def _count(values: Sequence[object] | None, is_flexible: bool) -> bytes:
    """The length of an array; None is a null."""
    if is_flexible:
        return unsigned_varint(0 if values is None else len(values) + 1)
    return (-1 if values is None else len(values)).to_bytes(4, signed=True)


def _as_ms(value: Any) -> int:
    """A duration or a timestamp in milliseconds; None, and a timestamp before 1970, are -1."""
    if value.__class__ is int:
        return value
    return milliseconds(value) if value is None or isinstance(value, datetime.timedelta | datetime.datetime) else value


def _uuid_bytes(value: UUID | None) -> bytes:
    return _NO_UUID if value is None else value.bytes
