"""kio's dataclasses from plain values, for ``messages`` and ``writer``."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, TypeAlias

from ..common import EPOCH
from ._kio import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_schema_field_type,
    is_optional,
    schema_name_map,
)
from .reader import error_code

__all__ = ["build", "check_names", "default_of"]

_Convert: TypeAlias = Callable[[Any], object]
"""Converts a plain value to kio's type."""

_ZEROS: Final[Mapping[str, object]] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "float64": 0.0,
    "uuid": None,
    "error_code": error_code(0),
    "timedelta_i32": datetime.timedelta(),
    "timedelta_i64": datetime.timedelta(),
    "datetime_i64": None,
}


def build(entity: Any, fields: Mapping[str, object]) -> Any:
    """An instance of one of kio's dataclasses from plain values.

    A field that only other versions have is dropped; an unknown field raises TypeError.
    """
    values = {}
    for name, convert, default in _plan(entity):
        values[name] = convert(fields[name]) if name in fields else default()
    check_names(entity, fields)
    return entity(**values)


def check_names(entity: Any, fields: Iterable[str]) -> None:
    """Raise TypeError for a field that no version of the dataclass has."""
    for name in fields:
        if name not in entity.__dataclass_fields__ and not _is_in_some_version(entity, name):
            raise TypeError(f"{entity.__name__} has no field {name!r} in any version")


def default_of(field: dataclasses.Field[Any]) -> object:
    """The value of a field that is not given: the schema's default, or the zero of its type."""
    if field.default is not dataclasses.MISSING:
        return field.default
    kind = classify_field(field)
    if kind.is_array:
        return ()
    if is_optional(field):
        return None
    if isinstance(kind, EntityField):
        return build(kind.type_, {})
    return _ZEROS.get(get_schema_field_type(field), 0)


@cache
def _is_in_some_version(entity: Any, name: str) -> bool:
    *_, schema, _, kind = entity.__module__.split(".")  # kio.schema.metadata.v13.request
    for version in schema_name_map[schema]:
        module = import_module(f"kio.schema.{schema}.v{version}.{kind}")
        twin = getattr(module, entity.__name__, None)
        if twin is not None and name in twin.__dataclass_fields__:
            return True
    return False


@cache
def _plan(entity: Any) -> list[tuple[str, _Convert, Callable[[], object]]]:
    return [(field.name, _converter(field), partial(default_of, field)) for field in dataclasses.fields(entity)]


def _converter(field: dataclasses.Field[Any]) -> _Convert:
    kind = classify_field(field)
    if isinstance(kind, EntityField | EntityTupleField):
        inner: _Convert = partial(_as_entity, kind.type_)
    else:
        inner = _CONVERTERS.get(get_schema_field_type(field), _unchanged)
    return partial(_as_tuple, inner) if kind.is_array else inner


def _as_tuple(convert: _Convert, values: Iterable[object] | None) -> tuple[object, ...] | None:
    return None if values is None else tuple([convert(value) for value in values])


def _as_entity(entity: object, value: object) -> object:
    return build(entity, value) if isinstance(value, Mapping) else value


def _unchanged(value: object) -> object:
    return value


def _as_duration(value: object) -> object:
    return datetime.timedelta(milliseconds=value) if isinstance(value, int) else value


def _as_time(value: object) -> object:
    if not isinstance(value, int):
        return value
    return None if value < 0 else EPOCH + datetime.timedelta(milliseconds=value)


_CONVERTERS: Final[Mapping[str, _Convert]] = {
    "error_code": error_code,
    "timedelta_i32": _as_duration,
    "timedelta_i64": _as_duration,
    "datetime_i64": _as_time,
}
