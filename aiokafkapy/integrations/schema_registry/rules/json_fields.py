"""The walk through JSON: properties of objects, with the schema's tags (``confluent:tags``).

Owns the choice among several schemas for data. Knows jsonschema and referencing. Confluent's counterpart is
``transform`` of its ``json_schema`` module.

Rules: a property's full name is its path from ``$``, only names and dots; of ``oneOf`` the first fitting schema
counts, of ``anyOf`` each fitting one, of ``allOf`` all; null is not a value, so no rule sees it; undeclared properties
stay unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from .fields import Field, Visit, Walk

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

__all__ = ["json_walk"]

_TYPES: Final = {
    "string": "STRING",
    "integer": "INT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "array": "ARRAY",
    "null": "NULL",
}
_MAX_DEPTH: Final = 200


class Resolved(Protocol):
    """A schema that a reference names, and the place from which its own references are resolved."""

    @property
    def contents(self) -> object:
        """The schema."""

    @property
    def resolver(self) -> Resolver:
        """The resolver for its own references."""


class Resolver(Protocol):
    """Finds the schemas of references, as a resolver of ``referencing`` does."""

    def lookup(self, ref: str) -> Resolved:
        """The schema of a reference; raises if it does not exist."""


def json_walk(content: object, validator: Validator, resolver: Resolver) -> Walk:
    """The walk of a schema. ``validator`` is one of the whole schema, ``resolver`` finds its references."""

    def walk(message: object, visit: Visit) -> object:
        return _Ways(validator, visit).through(content, message, _Step(resolver))

    return walk


class _Step(NamedTuple):
    """A place on the walk: the resolver of its schema's references, its path, its property, and its depth."""

    resolver: Resolver
    path: str = "$"
    field: Field | None = None
    depth: int = 0

    def deeper(self) -> _Step:
        return self._replace(depth=self.depth + 1)


class _Ways:
    def __init__(self, validator: Validator, visit: Visit) -> None:
        self._validator = validator
        self._visit = visit

    def through(self, schema: object, data: object, step: _Step) -> object:
        if data is None or not isinstance(schema, dict):
            return data
        if step.depth > _MAX_DEPTH:
            raise ValueError(f"data or schema go deeper than {_MAX_DEPTH}")
        if "$ref" in schema:
            found = step.resolver.lookup(schema["$ref"])
            return self.through(found.contents, data, step.deeper()._replace(resolver=found.resolver))
        for part in self._parts(schema, step.resolver, data):
            data = self.through(part, data, step.deeper())
        if isinstance(data, list):
            items = schema.get("items")
            if isinstance(items, dict):
                return [self.through(items, one, step.deeper()) for one in data]
            return data
        if isinstance(data, dict):
            return self._object(schema, data, step)
        kind = _type_of(schema, data)
        if step.field is None or kind is None:
            return data
        step.field.type_name = kind
        return self._visit(step.field, data)

    def _object(self, schema: dict[str, Any], data: dict[str, object], step: _Step) -> object:
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return data
        made = dict(data)
        for name, one in properties.items():
            if not isinstance(one, dict) or made.get(name) is None:
                continue
            tags = frozenset(map(str, one.get("confluent:tags") or ()))
            field = Field(f"{step.path}.{name}", name, "NULL", tags, made)
            made[name] = self.through(one, made[name], _Step(step.resolver, field.full_name, field, step.depth + 1))
        return made

    def _parts(self, schema: dict[str, Any], resolver: Resolver, data: object) -> list[object]:
        """The schemas of ``allOf``, ``oneOf`` and ``anyOf`` that match the data."""
        if "allOf" in schema:
            return list(schema["allOf"])
        if "oneOf" in schema:
            return [one for one in schema["oneOf"] if self._fits(one, resolver, data)][:1]
        return [one for one in schema.get("anyOf") or () if self._fits(one, resolver, data)]

    def _fits(self, schema: Any, resolver: Resolver, data: Any) -> bool:
        return bool(self._validator.evolve(schema=schema, _resolver=resolver).is_valid(data))


def _type_of(schema: dict[str, Any], data: object) -> str | None:
    """The type of a plain value; None if the schema names none, or another schema does."""
    if schema.get("const") is not None or schema.get("enum") is not None:
        return "ENUM"
    kind = schema.get("type")
    if isinstance(kind, list):  # the type that matches the data
        kind = next((one for one in kind if _is_of(one, data)), None)
    return _TYPES.get(kind) if isinstance(kind, str) else None


def _is_of(kind: object, data: object) -> bool:
    if isinstance(data, bool):
        return bool(kind == "boolean")
    kinds: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float)}
    return isinstance(kind, str) and isinstance(data, kinds.get(kind, ()))
