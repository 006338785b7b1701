"""The walk through Avro's data: its records' fields, with the schema's tags (``confluent:tags``).

Owns the choice of a union's branch for data. Knows fastavro's parsed schemas. Confluent's counterpart is ``transform``
of its ``avro`` module.

Rules: a field's full name is its record's full name and its own name; a union's data belongs to the first branch that
it fits, or to the branch that it names (``(name, data)``, or ``-type``), and keeps the notation while it still fits
there; a missing field has its default, which is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import fastavro
from fastavro.validation import validate

from .fields import Field, Visit, Walk

__all__ = ["AvroSchema", "avro_walk"]

AvroSchema: TypeAlias = Any
"""A schema as fastavro parses it: the name of a type, an object, or a list for a union."""

_TYPES = {
    "string": "STRING",
    "bytes": "BYTES",
    "int": "INT",
    "long": "LONG",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "enum": "ENUM",
    "fixed": "FIXED",
    "record": "RECORD",
    "array": "ARRAY",
    "map": "MAP",
}


def avro_walk(parsed: AvroSchema, named: Mapping[str, AvroSchema], *, fills_defaults: bool = False) -> Walk:
    """The walk of a parsed schema; ``named`` are its named types. ``fills_defaults``: in data that will be written,
    the defaults of missing fields are visited, for they are written too.
    """
    ways = _Ways(named, fills_defaults=fills_defaults)

    def walk(message: object, visit: Visit) -> object:
        return ways.through(parsed, message, None, visit)

    return walk


class _Ways:
    def __init__(self, named: Mapping[str, AvroSchema], *, fills_defaults: bool) -> None:
        self._named = named
        self._fills_defaults = fills_defaults
        # Branches of unions by their identity, each complete in itself, as fastavro's validation needs it.
        self._alone: dict[int, AvroSchema] = {}

    def through(self, schema: AvroSchema, data: object, field: Field | None, visit: Visit) -> object:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return self._union(schema, data, field, visit)
        kind = schema.get("type") if isinstance(schema, dict) else schema
        if isinstance(kind, (dict, list)):
            return self.through(kind, data, field, visit)
        if kind == "array" and isinstance(data, (list, tuple)):
            return [self.through(schema["items"], one, field, visit) for one in data]
        if kind == "map" and isinstance(data, Mapping):
            return {name: self.through(schema["values"], one, field, visit) for name, one in data.items()}
        if kind in ("record", "error"):
            return self._record(schema, data, visit) if isinstance(data, Mapping) else data
        if field is None:
            return data
        field.type_name = _TYPES.get(str(kind), "NULL")
        field.logical_type = str(schema.get("logicalType") or "") if isinstance(schema, dict) else ""
        return visit(field, data)

    def _record(self, schema: AvroSchema, data: Mapping[str, object], visit: Visit) -> object:
        made = dict(data)
        for one in schema["fields"]:
            name = one["name"]
            if name not in made:
                if not self._fills_defaults or "default" not in one:
                    continue
                made[name] = self._default_of(one)
            tags = frozenset(map(str, one.get("confluent:tags") or ()))
            field = Field(f"{schema['name']}.{name}", name, "NULL", tags, made)
            made[name] = self.through(one["type"], made[name], field, visit)
        return made

    def _default_of(self, field: AvroSchema) -> object:
        """The default as data: a schema writes bytes as text."""
        schema, default = field["type"], field["default"]
        while isinstance(schema, (list, dict)) or schema in self._named:
            if isinstance(schema, list):  # a default is of the first branch
                schema = schema[0]
            elif isinstance(schema, dict):
                schema = schema["type"]
            else:
                schema = self._named[schema]
        return default.encode("latin-1") if schema in ("bytes", "fixed") and isinstance(default, str) else default

    def _union(self, branches: list[AvroSchema], data: Any, field: Field | None, visit: Visit) -> object:
        wrapped = isinstance(data, tuple) and len(data) == 2
        named = data[0] if wrapped else data.get("-type") if isinstance(data, Mapping) else None
        payload = data[1] if wrapped else data
        for branch in branches:
            fits = self._is_named(branch, named) if named is not None else self._fits(branch, payload)
            if fits:
                found = self.through(branch, payload, field, visit)
                return (named, found) if wrapped and self._fits(branch, found) else found
        return data

    def _is_named(self, branch: AvroSchema, name: object) -> bool:
        full = branch if isinstance(branch, str) else branch.get("name") or branch.get("type")
        return bool(name == full or str(full).rpartition(".")[2] == name)

    def _fits(self, branch: AvroSchema, data: object) -> bool:
        try:
            return validate(data, self._standing_alone(branch), raise_errors=False)
        except Exception:  # for data that validation cannot describe
            return False

    def _standing_alone(self, branch: AvroSchema) -> AvroSchema:
        found = self._alone.get(id(branch))
        if found is None:
            found = fastavro.parse_schema(self._inlined(branch, set()), named_schemas={})
            self._alone[id(branch)] = found
        return found

    def _inlined(self, schema: AvroSchema, seen: set[str]) -> AvroSchema:
        """The schema with each named type defined at its first use."""
        if isinstance(schema, str):
            if schema not in self._named or schema in seen:
                return schema
            return self._inlined(self._named[schema], seen)
        if isinstance(schema, list):
            return [self._inlined(one, seen) for one in schema]
        made = {name: one for name, one in schema.items() if not name.startswith("__")}
        name = made.get("name")
        if name is not None and made.get("type") in ("record", "error", "enum", "fixed"):
            if name in seen:
                return name
            seen.add(name)
        for part in ("items", "values"):
            if part in made:
                made[part] = self._inlined(made[part], seen)
        if isinstance(made.get("type"), (dict, list)):
            made["type"] = self._inlined(made["type"], seen)
        if "fields" in made:
            made["fields"] = [one | {"type": self._inlined(one["type"], seen)} for one in made["fields"]]
        return made

    def _resolved(self, schema: AvroSchema) -> AvroSchema:
        return self._named.get(schema, schema) if isinstance(schema, str) else schema
