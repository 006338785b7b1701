"""An Avro schema for a pydantic model or a dataclass, and the conversion of its values there and back.

Owns the table of types below, and knows no registry. Confluent has no counterpart in Python.

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
a union                                        union; the branch of the default comes first, long before double
=============================================  =====================================================

Rules: a type that is not in the table is a ConfigurationError that names model and field, at once and not with a
record, and so is a model whose data has other parts than its fields; excluded fields are left out, computed ones are
fields; a field's name is its serialization alias, if it has one; a default that Avro can write is the field's default
there; a union whose branches have a value in common, as date and str, is refused, except for models, which their
classes distinguish; a namespace is the class's, or the enclosing one's; an int has 64 bits, and a larger one is the
record's error; a datetime comes back in UTC, to the microsecond.
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
from functools import lru_cache
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import BaseModel, RootModel, TypeAdapter
from pydantic_core import PydanticUndefined

from ...common import JsonObject, JsonValue
from ...errors import ConfigurationError, SerializationError

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
    """The Avro schema of a pydantic model or a dataclass. Raises ConfigurationError for a type that Avro lacks.

    The namespace is the model's class attribute ``__avro_namespace__`` unless one is given.
    """
    return AvroModel(model, namespace=namespace).schema


class AvroModel:
    """A model with its schema: ``to_avro`` turns an instance into data for fastavro, ``from_avro`` the reverse."""

    def __init__(self, model: type, *, namespace: str | None = None) -> None:
        _check_model(model)
        deriver = _Deriver(namespace)
        schema: Any = deriver.record(model)  # written out: it comes first
        self.schema: Final[dict[str, Any]] = schema
        self._model = model
        self._adapter: TypeAdapter[Any] = TypeAdapter(model)
        self._branches = _Branches(deriver.chosen) if deriver.chosen else None

    @property
    def has_choice(self) -> bool:
        """True if a union has several records: ``from_avro`` then needs the name of the record, as (name, data)."""
        return self._branches is not None

    def to_avro(self, instance: object) -> object:
        """The instance as dicts, lists and plain values. ``avro_checks`` refuses a value of another type than its
        field: pydantic's warning would contain it. Raises SerializationError for an instance of another class.
        """
        if not isinstance(instance, self._model):
            raise SerializationError(f"it is a {type(instance).__name__}, not a {self._model.__name__}")
        dumped = self._adapter.dump_python(instance, mode="python", by_alias=True, warnings=False)
        if self._branches is not None:
            dumped = self._branches.named(instance, dumped)
        return _plain(dumped)

    def from_avro(self, data: object) -> Any:
        """An instance, validated. Raises pydantic's ValidationError."""
        if self._branches is not None:
            data = self._branches.instances(data)
        return self._adapter.validate_python(data)


class _Deriver:
    """Makes one schema: a record is written out at its first occurrence, and named at later ones."""

    def __init__(self, namespace: str | None) -> None:
        self._given = namespace
        self._namespace = namespace or ""  # of the enclosing record
        self._full_names: dict[type, str] = {}  # of the records already written
        self.chosen: dict[type, str] = {}  # models in a union with others, with their full names

    def record(self, model: type) -> str | JsonObject:
        known = self._full_names.get(model)
        if known is not None:
            return known
        _check_shape(model)
        name = _checked_name(model.__name__, f"model {model.__qualname__}")
        schema: JsonObject = {"type": "record", "name": name}
        around = self._namespace
        self._namespace = self._enter(name, model, schema)
        schema["fields"] = [self._field(model, *field) for field in _fields(model)]
        self._namespace = around
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
            if branch == "double" and "long" in branches:
                continue  # its branch would have to be the first, and get the whole numbers
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
            return self._union(place, arguments, metadata)
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

    def _union(self, place: str, kinds: Sequence[object], metadata: Sequence[object]) -> JsonValue:
        branches: list[JsonValue] = []
        for kind in kinds:
            branch = self._type(place, kind, metadata)
            branches += branch if isinstance(branch, list) else [branch]
        distinct = [one for at, one in enumerate(branches) if one not in branches[:at]]
        if len({_branch_name(one) for one in distinct}) != len(distinct) or self._is_ambiguous(distinct):
            raise ConfigurationError(
                f"{place}: a union in Avro has each kind of type once, and no value may fit two of them: {kinds!r}"
            )
        self._note_records(distinct)
        # A whole number that may be a long is not a double, which lacks some of its digits.
        distinct.sort(key=lambda one: one == "double")
        return distinct if len(distinct) > 1 else distinct[0]

    def _is_ambiguous(self, branches: Sequence[JsonValue]) -> bool:
        """True if a value of one branch may be taken for another's: Avro's data does not name the branch."""
        found: set[str] = set()
        symbols: list[object] = []
        types_of = {name: kind for kind, name in self._full_names.items()}
        for branch in branches:
            kind = types_of.get(_full_name(branch))
            if branch == _PLAIN[datetime.date]:
                found.add("date")
            elif kind is None:
                found.add(_branch_name(branch))
            elif issubclass(kind, Enum):
                found.add("enum")
                symbols += [one.value for one in kind]
            else:
                found.add("record")
        return (
            len(set(symbols)) < len(symbols)
            or ("date" in found and not found.isdisjoint({"long", "string", "enum"}))
            or {"enum", "string"} <= found
            or {"map", "record"} <= found
        )

    def _note_records(self, branches: Sequence[JsonValue]) -> None:
        names = {_full_name(one) for one in branches}
        found = {kind: name for kind, name in self._full_names.items() if name in names and not issubclass(kind, Enum)}
        if len(found) > 1:
            self.chosen.update(found)

    def _enum(self, place: str, kind: type[Enum]) -> JsonValue:
        symbols = [member.value for member in kind]
        if not symbols or not all(isinstance(one, str) and _NAME.fullmatch(one) for one in symbols):
            raise ConfigurationError(
                f"{place}: the values of {kind.__name__} are not symbols of Avro: letters, digits and _"
            )
        known = self._full_names.get(kind)
        if known is not None:
            return known
        schema: JsonObject = {"type": "enum", "name": kind.__name__, "symbols": symbols}
        self._enter(kind.__name__, kind, schema)
        return schema

    def _enter(self, name: str, kind: type, schema: JsonObject) -> str:
        """Note a type that is written out, and return its namespace. Raises ConfigurationError for another type of the
        same name.
        """
        is_root = not self._full_names
        own = None if is_root and self._given is not None else getattr(kind, "__avro_namespace__", None)
        namespace: str = self._namespace if own is None else own
        full = f"{namespace}.{name}" if namespace else name
        for known, its_name in self._full_names.items():
            if its_name == full:
                raise ConfigurationError(
                    f"two types are called {name}: one of {known.__module__}, one of {kind.__module__}"
                )
        self._full_names[kind] = full
        if namespace:
            schema["namespace"] = namespace
        return namespace


class _Branches:
    """Tells fastavro which record of a union a model's instance is, and pydantic which model a record is.

    Both would guess by the fields, which two models may share.
    """

    def __init__(self, chosen: Mapping[type, str]) -> None:
        self._names = dict(chosen)
        self._adapters: dict[str, TypeAdapter[Any]] = {name: TypeAdapter(kind) for kind, name in chosen.items()}

    def named(self, instance: object, dumped: object) -> object:
        """The dumped instance, with the names of its records as ``-type``."""
        if isinstance(dumped, dict):
            if isinstance(instance, Mapping):
                return {name: self.named(instance.get(name), one) for name, one in dumped.items()}
            model: Any = type(instance)
            attributes = _attributes(model)
            made = {
                name: self.named(getattr(instance, attributes.get(name, name), None), one)
                for name, one in dumped.items()
            }
            kind = next((one for one in model.__mro__ if one in self._names), None)
            return made if kind is None else {**made, "-type": self._names[kind]}
        if isinstance(dumped, (list, tuple)) and isinstance(instance, (list, tuple)) and len(dumped) == len(instance):
            return [self.named(one, other) for one, other in zip(instance, dumped, strict=True)]
        return dumped

    def instances(self, data: object) -> object:
        """The data, with instances for the named records."""
        if isinstance(data, tuple):
            name, inner = data[0], self.instances(data[1])
            return self._adapters[name].validate_python(inner) if name in self._adapters else inner
        if isinstance(data, dict):
            return {name: self.instances(one) for name, one in data.items()}
        return [self.instances(one) for one in data] if isinstance(data, list) else data


def _check_model(model: object) -> None:
    if not isinstance(model, type) or not _is_model(model):
        raise ConfigurationError(f"{model!r} is neither a pydantic model nor a dataclass")


def _check_shape(model: type) -> None:
    """Raise ConfigurationError for a model whose data has other parts than its fields."""
    decorators = getattr(model, "__pydantic_decorators__", None)
    if issubclass(model, RootModel):
        shape = "a RootModel, which has one value and no fields"
    elif decorators is not None and decorators.model_serializers:
        shape = "a model with a @model_serializer, whose fields are not known"
    elif issubclass(model, BaseModel) and model.model_config.get("extra") == "allow":
        shape = "a model with extra='allow', whose further fields are not known: say extra='ignore'"
    else:
        return
    raise ConfigurationError(
        f"{model.__qualname__} is {shape}: write the schema by hand, and give the serializer to_dict="
    )


def _is_model(kind: type) -> bool:
    return issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind)


def _fields(model: Any) -> list[tuple[str, object, Sequence[object], object]]:
    """Name, type, annotations and default of each field."""
    found: list[tuple[str, object, Sequence[object], object]] = []
    if issubclass(model, BaseModel):
        for name, field in model.model_fields.items():
            if field.exclude:
                continue
            default = field.default if field.default is not PydanticUndefined else _NO_DEFAULT
            if field.default_factory in (list, dict, set, frozenset, tuple):
                default = field.default_factory()
            found.append((field.serialization_alias or field.alias or name, field.annotation, field.metadata, default))
        for name, one in model.model_computed_fields.items():
            found.append((one.alias or name, one.return_type, (), _NO_DEFAULT))
        return found
    try:
        hints = get_type_hints(model, include_extras=True)
    except Exception as error:  # an undefined name, say
        raise ConfigurationError(f"the types of {model.__qualname__} cannot be read: {error}") from error
    for one in dataclasses.fields(model):
        default = one.default if one.default is not dataclasses.MISSING else _NO_DEFAULT
        if one.default_factory in (list, dict, set, frozenset, tuple):
            default = one.default_factory()
        found.append((one.name, hints[one.name], (), default))
    return found


@lru_cache(maxsize=1_000)
def _attributes(model: Any) -> Mapping[str, str]:
    """The attributes of a model's fields, by their names in Avro."""
    if not issubclass(model, BaseModel):
        return {}
    fields = {field.serialization_alias or field.alias or name: name for name, field in model.model_fields.items()}
    return fields | {field.alias or name: name for name, field in model.model_computed_fields.items()}


def _checked_name(name: str, place: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{place}: {name!r} is not a name in Avro: letters, digits and _, not first a digit")
    return name


def _decimal(place: str, metadata: Sequence[object]) -> JsonObject:
    numbers: dict[str, int] = {}
    for one in (part for whole in metadata for part in getattr(whole, "metadata", [whole])):  # a Field has its own
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
    """The identity of a union's branch, which may occur once: a type, or a named type's name."""
    if isinstance(branch, dict):
        return _full_name(branch) or str(branch["type"])
    return str(branch)


def _full_name(branch: JsonValue) -> str:
    if isinstance(branch, dict):
        return ".".join(str(branch[one]) for one in ("namespace", "name") if branch.get(one))
    return str(branch)


def _default_of(branch: JsonValue, default: object) -> Any:
    """The default as JSON, if the branch can have it."""
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
    """The value as fastavro takes it: enums as their values, all sequences as lists."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {_plain(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    return value
