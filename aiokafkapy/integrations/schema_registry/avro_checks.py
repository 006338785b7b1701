"""``avro_check``: tells whether data fits an Avro schema. fastavro silently writes much data that does not fit as
other data: 1.7 as 1, "false" as True, an int that readers cannot read.

Owns the rules of fitting, compiled into functions once per schema, so that a record costs little. Knows fastavro's
parsed schemas. Confluent's serializers have no such checks in Python; Java's objects have their types.

Rules:

- A refused value would be written as another value, or unreadably. A value that fastavro writes as intended is taken:
  numbers of numpy, a set as an array, a raw int of a date, a user's own type.
- A value that would lose a part is refused: a time of day in a ``date``, a zone in a ``time``.
- A missing field has its default, or null if it may be null; fields that the schema lacks are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from fastavro.write import LOGICAL_WRITERS

if TYPE_CHECKING:
    from .rules.avro_fields import AvroSchema

__all__ = ["Check", "Misfit", "avro_check", "shown"]


class Misfit(NamedTuple):
    """The first place where data does not fit."""

    place: str
    data: Any
    expected: str


Check: TypeAlias = Callable[[Any], Misfit | None]

_BYTES: Final = (bytes, bytearray, memoryview)
_LARGEST_FLOAT: Final = 3.4028234663852886e38
_UUID: Final = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MIDNIGHT: Final = time()


def avro_check(parsed: AvroSchema, named: Mapping[str, AvroSchema]) -> Check:
    """The check of a parsed schema; ``named`` are its named types."""
    return _Checks(named).of(parsed, "the data")


def shown(schema: object) -> str:
    """A word for the schema."""
    if isinstance(schema, dict):
        return str(schema.get("logicalType") or schema.get("name") or schema.get("type"))
    if isinstance(schema, list):
        return " or ".join(shown(one) for one in schema)
    return str(schema)


class _Checks:
    """Makes the checks of one schema: a record's fields are made once, even if it contains itself."""

    def __init__(self, named: Mapping[str, AvroSchema]) -> None:
        self._named = named
        self._fields: dict[str, list[tuple[str, Any, Check]]] = {}

    def of(self, schema: AvroSchema, place: str) -> Check:
        if isinstance(schema, list):
            return self._union(schema, place)
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        kind, logical = schema["type"], schema.get("logicalType")
        if kind in self._named:
            return self.of(kind, place)
        prepare = LOGICAL_WRITERS.get(f"{kind}-{logical}") if logical else None
        if prepare is None:
            return self._plain(kind, schema, place, shown(schema))
        if f"{kind}-{logical}" == "string-uuid":
            return _plain_check(place, "uuid", _is_uuid)
        if logical not in _LOGICAL or not str(prepare.__module__).startswith("fastavro"):  # the user's own type
            check = self._plain(kind, schema, place, shown(schema))
            return lambda data: check(prepare(data, schema))
        accepts, words = _LOGICAL[logical]
        check = self._plain(kind, schema, place, f"{logical}{words}")
        return lambda data: None if accepts(data) else check(data)

    def _plain(self, kind: str, schema: AvroSchema, place: str, expected: str) -> Check:
        """The check without regard to a logical type."""
        if kind in ("record", "error"):
            return self._record(schema, place)
        if kind == "array":
            return _array_check(place, expected, self.of(schema["items"], f"{place}[]"))
        if kind == "map":
            return _map_check(place, expected, self.of(schema["values"], f"{place}{{}}"))
        if kind in ("int", "long"):
            return _integer_check(place, expected, 32 if kind == "int" else 64)
        if kind in ("float", "double"):
            return _real_check(place, expected, is_single=kind == "float")
        if kind == "enum":
            symbols = frozenset(schema["symbols"])
            return _plain_check(place, expected, lambda data: isinstance(data, str) and data in symbols)
        if kind == "fixed":
            size = schema["size"]
            expected = f"{expected} of {size} bytes"
            return _plain_check(place, expected, lambda data: isinstance(data, _BYTES) and len(data) == size)
        return _plain_check(place, expected, _OF_TYPE[kind])

    def _record(self, schema: AvroSchema, place: str) -> Check:
        name = schema["name"]
        fields = self._fields.get(name)
        if fields is None:
            fields = self._fields[name] = []
            for one in schema["fields"]:
                fields.append((one["name"], one.get("default"), self.of(one["type"], f"{name}.{one['name']}")))

        def check(data: object) -> Misfit | None:
            if type(data) is not dict and not isinstance(data, Mapping):
                return Misfit(place, data, name)
            for field, default, check_field in fields:
                value = data.get(field, default)
                misfit = check_field(value)
                # A schema has its own form of defaults, such as bytes as text.
                if misfit is not None and (default is None or value is not default):
                    return misfit
            return None

        return check

    def _union(self, schema: AvroSchema, place: str) -> Check:
        """For data with the name of a branch, ``(name, data)`` or ``-type``, only that branch is checked."""
        checks = [self.of(one, place) for one in schema]
        by_name = dict(zip(map(_name_of, schema), checks, strict=True))
        expected = shown(schema)
        kinds = [one.get("logicalType") if isinstance(one, dict) else None for one in schema]
        at_date = kinds.index("date") if "date" in kinds else len(kinds)
        # fastavro takes the first possible branch, and a datetime is also a date.
        loses_time = any("timestamp" in str(one) for one in kinds[at_date:])

        def check(data: object) -> Misfit | None:
            if isinstance(data, tuple):
                named = by_name.get(data[0]) if len(data) == 2 else None
                return Misfit(place, data, expected) if named is None else named(data[1])
            if isinstance(data, Mapping) and "-type" in data:
                named = by_name.get(data["-type"])
                return Misfit(place, data, expected) if named is None else named(data)
            if loses_time and isinstance(data, datetime):
                return Misfit(place, data, "date, which comes first: give ('long', data)")
            within: Misfit | None = None
            for one in checks:
                misfit = one(data)
                if misfit is None:
                    return None
                if misfit.place is not place:
                    within = misfit
            return within or Misfit(place, data, expected)

        return check


def _name_of(branch: AvroSchema) -> str:
    return str(branch if isinstance(branch, str) else branch.get("name") or branch["type"])


def _plain_check(place: str, expected: str, fits: Callable[[Any], bool]) -> Check:
    return lambda data: None if fits(data) else Misfit(place, data, expected)


def _integer_check(place: str, expected: str, bits: int) -> Check:
    limit = 1 << (bits - 1)

    def check(data: Any) -> Misfit | None:
        if type(data) is int or _is_number(data, Integral):
            return None if -limit <= data < limit else Misfit(place, data, f"{expected}, which has {bits} bits")
        return Misfit(place, data, expected)

    return check


def _real_check(place: str, expected: str, *, is_single: bool) -> Check:
    def check(data: Any) -> Misfit | None:
        if type(data) is not float and not _is_number(data, Real):
            return Misfit(place, data, expected)
        if is_single and not -_LARGEST_FLOAT <= data <= _LARGEST_FLOAT and isfinite(data):
            return Misfit(place, data, f"{expected}, which has 32 bits")
        return None

    return check


def _array_check(place: str, expected: str, check_item: Check) -> Check:
    def check(data: object) -> Misfit | None:
        if type(data) is not list and (not isinstance(data, Collection) or isinstance(data, (str, Mapping))):
            return Misfit(place, data, expected)
        for one in data:
            misfit = check_item(one)
            if misfit is not None:
                return misfit
        return None

    return check


def _map_check(place: str, expected: str, check_value: Check) -> Check:
    def check(data: object) -> Misfit | None:
        if not isinstance(data, Mapping):
            return Misfit(place, data, expected)
        for name, one in data.items():
            misfit = check_value(one) if isinstance(name, str) else Misfit(f"a key of {place}", name, "string")
            if misfit is not None:
                return misfit
        return None

    return check


def _is_number(data: object, kind: type) -> bool:
    return isinstance(data, kind) and not isinstance(data, bool)


def _is_uuid(data: object) -> bool:
    return isinstance(data, UUID) or (isinstance(data, str) and _UUID.fullmatch(data) is not None)


def _is_date(data: object) -> bool:
    if isinstance(data, str):  # fastavro reads it
        try:
            date.fromisoformat(data)
        except ValueError:
            return False
        return True
    return isinstance(data, date) and not (isinstance(data, datetime) and data.time() != _MIDNIGHT)


def _is_moment(data: object) -> bool:
    return isinstance(data, datetime)


def _is_local_moment(data: object) -> bool:
    return isinstance(data, datetime) and data.tzinfo is None


def _is_local_time(data: object) -> bool:
    return isinstance(data, time) and data.tzinfo is None


def _is_decimal(data: object) -> bool:
    return isinstance(data, Decimal)


_OF_TYPE: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda data: data is None,
    "boolean": lambda data: isinstance(data, bool),
    "string": lambda data: isinstance(data, str),
    "bytes": lambda data: isinstance(data, _BYTES),
}
_NO_ZONE: Final = " without a time zone"
_LOGICAL: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "date": (_is_date, " without a time of day"),
    "time-millis": (_is_local_time, _NO_ZONE),
    "time-micros": (_is_local_time, _NO_ZONE),
    "timestamp-millis": (_is_moment, ""),
    "timestamp-micros": (_is_moment, ""),
    "local-timestamp-millis": (_is_local_moment, _NO_ZONE),
    "local-timestamp-micros": (_is_local_moment, _NO_ZONE),
    "decimal": (_is_decimal, ""),
}
"""The types that fastavro takes besides the written one."""
