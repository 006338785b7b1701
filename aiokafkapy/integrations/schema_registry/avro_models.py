"""An Avro schema for a pydantic model or a dataclass, and the way of its values there and back.

Owns the table of types below and nothing of registries. Confluent has no counterpart in Python.

=============================================  =====================================================
Python                                         Avro
=============================================  =====================================================
bool, int, float, str, bytes, None             boolean, long, double, string, bytes, null
datetime, date, time                           timestamp-micros, date, time-micros
UUID, Decimal with max_digits, decimal_places  uuid, decimal (of bytes)
an Enum of str                                 enum, its symbols the values
Literal of str                                 string
list, set, frozenset, Sequence, tuple[T, ...]  array
dict[str, T], Mapping[str, T]                  map
a model, a dataclass                           record; by its name where it comes again
a union                                        union; the branch of the default comes first
=============================================  =====================================================

Rules: a type that is not in the table is a ConfigurationError that names model and field, at once and not with a
record; a field's name is its serialization alias, if it has one; a default that Avro can write is the field's default
there; an int is 64 bits, and a larger one is the record's error; a datetime comes back in UTC, to the microsecond.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticUndefined

from aiokafkapy.common import JsonObject, JsonValue
from aiokafkapy.errors import ConfigurationError

__all__ = ["AvroModel", "avro_schema"]

_PLAIN: Final[dict[object, JsonValue]] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    None: "null",
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
    datetime.time: {"type": "long", "logicalType": "time-micros"},
    UUID: {"type": "string", "logicalType": "uuid"},
}
_ARRAYS: Final = (list, set, frozenset, Sequence)
_MAPS: Final = (dict, Mapping)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_DEFAULT: Final = object()
_LARGEST: Final = sys.float_info.max


def avro_schema(model: type, *, namespace: str | None = None) -> dict[str, Any]:
    """The Avro schema of a pydantic model or a dataclass. Raises ConfigurationError for a type that Avro has not.

    The namespace is the model's class attribute ``__avro_namespace__`` unless it is given.
    """
    _check_model(model)
    found = namespace if namespace is not None else getattr(model, "__avro_namespace__", None)
    schema: Any = _Deriver(found).record(model)  # written out: it is the first
    derived: dict[str, Any] = schema
    return derived


class AvroModel:
    """A model with its schema: ``to_avro`` turns an instance into data for fastavro, ``from_avro`` the reverse."""

    def __init__(self, model: type, *, namespace: str | None = None) -> None:
        self.schema: Final = avro_schema(model, namespace=namespace)
        self._adapter: TypeAdapter[Any] = TypeAdapter(model)

    def to_avro(self, instance: object) -> object:
        """The instance as dicts, lists and plain values. One that is of another type than its field is fastavro's to
        refuse: pydantic's warning would have the value.
        """
        return _plain(self._adapter.dump_python(instance, mode="python", by_alias=True, warnings=False))

    def from_avro(self, data: object) -> Any:
        """An instance, validated. Raises pydantic's ValidationError."""
        return self._adapter.validate_python(data)


class _Deriver:
    """One schema: a record is written out where it comes first, and named where it comes again."""

    def __init__(self, namespace: str | None) -> None:
        self._namespace = namespace
        self._named: dict[str, type] = {}  # the schemas already written

    def record(self, model: type) -> str | JsonObject:
        name = _checked_name(model.__name__, f"model {model.__qualname__}")
        if self._is_known(name, model):
            return self._full(name)
        schema: JsonObject = {"type": "record", "name": name}
        if self._namespace:
            schema["namespace"] = self._namespace
        schema["fields"] = [self._field(model, *field) for field in _fields(model)]
        return schema

    def _field(self, model: type, name: str, kind: object, metadata: Sequence[object], default: object) -> JsonObject:
        place = f"{model.__name__}.{name}"
        _checked_name(name, place)
        schema = self._type(place, kind, metadata)
        field: JsonObject = {"name": name, "type": schema}
        if default is not _NO_DEFAULT:
            self._give_default(field, default)
        return field

    def _give_default(self, field: JsonObject, default: object) -> None:
        """The field's default, if Avro can write it: of the first branch of a union."""
        schema = field["type"]
        branches = schema if isinstance(schema, list) else [schema]
        for branch in branches:
            written = _default_of(branch, default)
            if written is not _NO_DEFAULT:
                if isinstance(schema, list):
                    field["type"] = [branch, *(one for one in schema if one is not branch)]
                field["default"] = written
                return

    def _type(self, place: str, kind: object, metadata: Sequence[object] = ()) -> JsonValue:
        if get_origin(kind) is typing.Annotated:
            kind, *more = get_args(kind)
            return self._type(place, kind, [*metadata, *more])
        if hasattr(kind, "__value__"):  # of a ``type`` statement
            return self._type(place, kind.__value__, metadata)
        if kind in _PLAIN:
            return _PLAIN[kind]
        if kind is Decimal:
            return _decimal(place, metadata)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return self._union(place, arguments)
        if origin is Literal and all(isinstance(one, str) for one in arguments):
            return "string"
        if (origin in _ARRAYS and arguments) or (origin is tuple and len(arguments) == 2 and arguments[1] is ...):
            return {"type": "array", "items": self._type(f"{place}[]", arguments[0])}
        if origin in _MAPS and arguments and arguments[0] is str:
            return {"type": "map", "values": self._type(f"{place}{{}}", arguments[1])}
        if isinstance(kind, type):
            if issubclass(kind, Enum):
                return self._enum(place, kind)
            if _is_model(kind):
                return self.record(kind)
        raise ConfigurationError(
            f"{place}: Avro has no type for {kind!r}: docs/schemas.md has those that there are; "
            "write the schema by hand, and give the serializer to_dict="
        )

    def _union(self, place: str, kinds: Sequence[object]) -> JsonValue:
        branches: list[JsonValue] = []
        for kind in kinds:
            branch = self._type(place, kind)
            branches += branch if isinstance(branch, list) else [branch]
        distinct = [one for at, one in enumerate(branches) if one not in branches[:at]]
        if len({_branch_name(one) for one in distinct}) != len(distinct):
            raise ConfigurationError(f"{place}: a union in Avro has each kind of type once: {kinds!r}")
        return distinct if len(distinct) > 1 else distinct[0]

    def _enum(self, place: str, kind: type[Enum]) -> JsonValue:
        symbols = [member.value for member in kind]
        if not symbols or not all(isinstance(one, str) and _NAME.fullmatch(one) for one in symbols):
            raise ConfigurationError(
                f"{place}: the values of {kind.__name__} are no symbols of Avro: letters, digits and _"
            )
        if self._is_known(kind.__name__, kind):
            return self._full(kind.__name__)
        schema: JsonObject = {"type": "enum", "name": kind.__name__, "symbols": symbols}
        if self._namespace:
            schema["namespace"] = self._namespace
        return schema

    def _is_known(self, name: str, kind: type) -> bool:
        """Whether the type was written out before. Raises ConfigurationError for another type of the same name."""
        known = self._named.get(name)
        if known is not None and known is not kind:
            raise ConfigurationError(
                f"two types are called {name}: one of {known.__module__}, one of {kind.__module__}"
            )
        self._named[name] = kind
        return known is not None

    def _full(self, name: str) -> str:
        return f"{self._namespace}.{name}" if self._namespace else name


def _check_model(model: object) -> None:
    if not isinstance(model, type) or not _is_model(model):
        raise ConfigurationError(f"{model!r} is neither a pydantic model nor a dataclass")


def _is_model(kind: type) -> bool:
    return issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind)


def _fields(model: Any) -> list[tuple[str, object, Sequence[object], object]]:
    """Name, type, annotations and default of each field."""
    found: list[tuple[str, object, Sequence[object], object]] = []
    if issubclass(model, BaseModel):
        for name, field in model.model_fields.items():
            default = field.default if field.default is not PydanticUndefined else _NO_DEFAULT
            if field.default_factory in (list, dict, set, frozenset, tuple):
                default = field.default_factory()
            found.append((field.serialization_alias or field.alias or name, field.annotation, field.metadata, default))
        return found
    try:
        hints = get_type_hints(model, include_extras=True)
    except Exception as error:  # of a name that is not defined, say
        raise ConfigurationError(f"the types of {model.__qualname__} cannot be read: {error}") from error
    for one in dataclasses.fields(model):
        default = one.default if one.default is not dataclasses.MISSING else _NO_DEFAULT
        if one.default_factory in (list, dict, set, frozenset, tuple):
            default = one.default_factory()
        found.append((one.name, hints[one.name], (), default))
    return found


def _checked_name(name: str, place: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{place}: {name!r} is no name in Avro: letters, digits and _, not first a digit")
    return name


def _decimal(place: str, metadata: Sequence[object]) -> JsonObject:
    numbers: dict[str, int] = {}
    for one in metadata:
        for name in ("max_digits", "decimal_places"):
            value = getattr(one, name, None)
            if isinstance(value, int):
                numbers[name] = value
    if len(numbers) != 2:
        raise ConfigurationError(
            f"{place}: a Decimal needs its digits in Avro: Annotated[Decimal, Field(max_digits=12, decimal_places=2)]"
        )
    return {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": numbers["max_digits"],
        "scale": numbers["decimal_places"],
    }


def _branch_name(branch: JsonValue) -> str:
    """The identity of a union's branch, which may be in it once: a type, or a named type's name."""
    if isinstance(branch, dict):
        return str(branch.get("name") or branch["type"])
    return str(branch)


def _default_of(branch: JsonValue, default: object) -> Any:
    """The default as JSON, where the branch can have it."""
    plain = _plain(default)
    kind = str(branch["type"] if isinstance(branch, dict) else branch)
    symbols = branch.get("symbols") if isinstance(branch, dict) else None
    if isinstance(branch, dict) and "logicalType" in branch:
        return _NO_DEFAULT
    fits = {
        "null": plain is None,
        "boolean": isinstance(plain, bool),
        "long": isinstance(plain, int) and not isinstance(plain, bool) and -(2**63) <= plain < 2**63,
        # JSON has neither infinity nor NaN
        "double": isinstance(plain, (int, float)) and not isinstance(plain, bool) and abs(plain) <= _LARGEST,
        "string": isinstance(plain, str),
        "enum": isinstance(plain, str) and isinstance(symbols, list) and plain in symbols,
        "array": plain == [],
        "map": plain == {},
    }
    return plain if fits.get(kind, False) else _NO_DEFAULT


def _plain(value: object) -> object:
    """The value as fastavro takes it: enums are their values, all sequences lists."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {_plain(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    return value
