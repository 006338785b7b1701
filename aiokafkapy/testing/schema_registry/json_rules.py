"""Checks whether one JSON Schema accepts another's data, by the rules of Confluent's registry.

Its counterpart there is ``SchemaDiff`` of the JSON provider. A content model is open if additional properties are
allowed, which is JSON Schema's default, closed if they are ``false``, partly open if they have a schema. Pure.

Kept: types, enum and const, required and properties by content model, items, limits of numbers, strings, arrays and
objects, pattern, uniqueItems, anyOf and oneOf, allOf, ``$ref`` within the document and to references. Dropped:
``dependencies``, ``patternProperties``, ``not``, ``if``, and tuples in ``items``, whose changes it does not look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from .problems import Problem

__all__ = ["json_problems"]

JsonSchema: TypeAlias = dict[str, Any] | bool
"""A schema; True takes every value, False none."""
_LOWER: Final = ("minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum")
_UPPER: Final = ("maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum")
_DEEPEST: Final = 100


def json_problems(
    reader: JsonSchema, writer: JsonSchema, references: Mapping[str, object] | None = None
) -> list[Problem]:
    """The data that ``writer`` takes and ``reader`` does not."""
    return list(_Comparison(reader, writer, references or {}).compare(reader, writer, "#", 0))


class _Comparison:
    def __init__(self, reader: JsonSchema, writer: JsonSchema, references: Mapping[str, object]) -> None:
        self._reader = reader
        self._writer = writer
        self._references = references
        self._seen: set[tuple[str, str]] = set()

    def compare(self, reader: JsonSchema, writer: JsonSchema, path: str, depth: int) -> Iterator[Problem]:
        pair = (_ref(reader), _ref(writer))
        if all(pair):
            if pair in self._seen:
                return  # a type that contains itself
            self._seen.add(pair)
        reader, writer = self._resolved(reader, self._reader), self._resolved(writer, self._writer)
        if reader is True or reader == {} or writer is False or depth > _DEEPEST:
            return
        if reader is False:
            yield _problem("TYPE_NARROWED", path, "is false")
            return
        writer = {} if writer is True else writer
        if _branches(reader) is not None or _branches(writer) is not None:
            yield from self._compare_unions(reader, writer, path, depth)
            return
        for at, part in enumerate(reader.get("allOf", ())):
            yield from self.compare(part, writer, f"{path}/allOf/{at}", depth + 1)
        yield from _type_problems(reader, writer, path)
        yield from _value_problems(reader, writer, path)
        yield from _limit_problems(reader, writer, path)
        if "properties" in reader or "properties" in writer or "required" in reader:
            yield from self._compare_objects(reader, writer, path, depth)
        if isinstance(reader.get("items"), (dict, bool)):
            items = writer.get("items", True)
            if isinstance(items, (dict, bool)):
                yield from self.compare(reader["items"], items, f"{path}/items", depth + 1)

    def _compare_unions(
        self, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int
    ) -> Iterator[Problem]:
        """Each earlier branch must be taken by one of the present ones."""
        taken, name = _branches(reader) or [reader], "anyOf" if "anyOf" in reader else "oneOf"
        written = _branches(writer) or [writer]
        for at, branch in enumerate(written):
            seen = set(self._seen)
            if all(list(self.compare(one, branch, path, depth + 1)) for one in taken):
                yield _problem("SUM_TYPE_NARROWED", f"{path}/{name}/{at}", "has a type less than before")
            self._seen = seen

    def _compare_objects(
        self, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int
    ) -> Iterator[Problem]:
        taken, written = reader.get("properties", {}), writer.get("properties", {})
        reader_open, writer_open = reader.get("additionalProperties", True), writer.get("additionalProperties", True)
        for name, schema in taken.items():
            place = f"{path}/properties/{name}"
            if name in written:
                yield from self.compare(schema, written[name], place, depth + 1)
            elif writer_open is True:
                if schema is not True and schema != {}:
                    yield _problem(
                        "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", place, "is new, and could be anything before"
                    )
            elif writer_open is not False:
                yield from self.compare(schema, writer_open, place, depth + 1)
        for name, schema in written.items():
            place = f"{path}/properties/{name}"
            if name in taken or reader_open is True or schema is False:
                continue
            if reader_open is False:
                yield _problem("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", place, "is not taken any more")
            else:
                yield from self.compare(reader_open, schema, place, depth + 1)
        if reader_open is False and writer_open is not False:
            yield _problem("ADDITIONAL_PROPERTIES_REMOVED", f"{path}/additionalProperties", "are not taken any more")
        was_required = set(writer.get("required", ()))
        for name in reader.get("required", ()):
            schema = self._resolved(taken.get(name, True), self._reader)
            has_default = isinstance(schema, dict) and "default" in schema
            if name not in was_required and not has_default:
                is_new = name not in written
                kind = "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL" if is_new else "REQUIRED_ATTRIBUTE_ADDED"
                yield _problem(kind, f"{path}/required/{name}", "is required, and was not before")

    def _resolved(self, schema: JsonSchema, document: object) -> Any:
        for _ in range(_DEEPEST):
            name = _ref(schema)
            if not name:
                return schema
            base, _, pointer = name.partition("#")
            document = self._references.get(base, {}) if base else document
            schema = _at(document, pointer)
        return schema


def _ref(schema: JsonSchema) -> str:
    return str(schema.get("$ref") or "") if isinstance(schema, dict) else ""


def _at(document: object, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        document = document.get(name, {}) if isinstance(document, dict) else {}
    return document


def _branches(schema: dict[str, Any]) -> list[Any] | None:
    """The alternatives: of anyOf, of oneOf, or of several types."""
    for name in ("anyOf", "oneOf"):
        if isinstance(schema.get(name), list):
            return list(schema[name])
    kinds = schema.get("type")
    if isinstance(kinds, list):
        rest = {name: value for name, value in schema.items() if name != "type"}
        return [{**rest, "type": kind} for kind in kinds]
    return None


def _type_problems(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Problem]:
    kind, was = reader.get("type"), writer.get("type")
    if kind is None or kind == was or (kind, was) == ("number", "integer"):
        return
    narrowed = was is None or (was, kind) == ("number", "integer")
    yield _problem("TYPE_NARROWED" if narrowed else "TYPE_CHANGED", path, f"is {kind}, and was {was or 'anything'}")


def _value_problems(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Problem]:
    if "enum" in reader or "const" in reader:
        allowed = reader.get("enum", [reader.get("const")])
        was = writer.get("enum", [writer["const"]] if "const" in writer else None)
        if was is None:
            yield _problem("ENUM_ARRAY_ADDED", f"{path}/enum", "allows few values, and allowed any before")
        elif any(one not in allowed for one in was):
            gone = [one for one in was if one not in allowed]
            yield _problem("ENUM_ARRAY_NARROWED", f"{path}/enum", f"does not allow {gone} any more")
    if reader.get("pattern") is not None and reader["pattern"] != writer.get("pattern"):
        kind = "PATTERN_ADDED" if "pattern" not in writer else "PATTERN_CHANGED"
        yield _problem(kind, f"{path}/pattern", "is another")
    if reader.get("uniqueItems") and not writer.get("uniqueItems"):
        yield _problem("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", "must be unique now")


def _limit_problems(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Problem]:
    for name in (*_LOWER, *_UPPER):
        limit, was = reader.get(name), writer.get(name)
        if limit is None or isinstance(limit, bool) or isinstance(was, bool):
            continue
        is_lower = name in _LOWER
        word = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name)
        if was is None:
            if not (is_lower and limit == 0 and not name.endswith("imum")):
                yield _problem(f"{word}_ADDED", f"{path}/{name}", f"is {limit}, and there was none")
        elif limit > was if is_lower else limit < was:
            change = "INCREASED" if is_lower else "DECREASED"
            yield _problem(f"{word}_{change}", f"{path}/{name}", f"is {limit}, and was {was}")


def _problem(kind: str, path: str, what: str) -> Problem:
    return Problem(
        kind, f"The {{reader}} schema at path '{path}' {what} in the {{writer}} schema", path.rpartition("/")[2]
    )
