"""Checks whether one Avro schema can read another's data, by the rules of Avro's schema resolution.

Avro's counterpart is ``SchemaCompatibility``; the kinds and texts of problems are those of Confluent's registry. Pure:
it takes schemas as JSON and knows no registry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from .problems import Problem

__all__ = ["avro_problems"]

AvroSchema: TypeAlias = Any
"""A valid schema as JSON: the name of a type, an object, or a list for a union."""
_PROMOTIONS: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}
"""Pairs of a written type and a type that may read it."""
_NAMED: Final = ("record", "error", "enum", "fixed")


def avro_problems(
    reader: AvroSchema, writer: AvroSchema, named: Mapping[str, AvroSchema] | None = None
) -> list[Problem]:
    """The reasons why ``reader`` cannot read data of ``writer``. ``named`` are types of references."""
    return list(_Comparison(reader, writer, named or {}).compare(reader, writer, ""))


class _Comparison:
    def __init__(self, reader: AvroSchema, writer: AvroSchema, named: Mapping[str, AvroSchema]) -> None:
        self._reader_types = {**named}
        self._writer_types = {**named}
        _collect(reader, self._reader_types, "")
        _collect(writer, self._writer_types, "")
        self._seen: set[tuple[str, str]] = set()

    def compare(self, reader: AvroSchema, writer: AvroSchema, path: str) -> Iterator[Problem]:
        reader, writer = _resolved(reader, self._reader_types), _resolved(writer, self._writer_types)
        reader_kind, writer_kind = _kind(reader), _kind(writer)
        if writer_kind == "union":
            for at, branch in enumerate(writer):
                problems = list(self.compare(reader, branch, path))
                if reader_kind == "union" and problems:
                    yield _missing_branch(_kind_name(branch), f"{path}/{at}")
                else:
                    yield from problems
        elif reader_kind == "union":
            if all(list(self.compare(branch, writer, path)) for branch in reader):
                yield _missing_branch(_kind_name(writer), path)
        elif reader_kind != writer_kind:
            if (writer_kind, reader_kind) not in _PROMOTIONS:
                yield Problem(
                    "TYPE_MISMATCH",
                    f"The type (path '{path or '/'}') of a field in the {{reader}} schema does not match with the "
                    "{writer} schema",
                    f"reader type: {reader_kind.upper()} not compatible with writer type: {writer_kind.upper()}",
                )
        elif reader_kind == "array":
            yield from self.compare(reader["items"], writer["items"], f"{path}/items")
        elif reader_kind == "map":
            yield from self.compare(reader["values"], writer["values"], f"{path}/values")
        elif reader_kind in _NAMED:
            yield from self._compare_named(reader_kind, reader, writer, path)

    def _compare_named(self, kind: str, reader: AvroSchema, writer: AvroSchema, path: str) -> Iterator[Problem]:
        pair = (_full_name(reader), _full_name(writer))
        if pair in self._seen:
            return  # a type that contains itself
        self._seen.add(pair)
        known = [pair[0].rpartition(".")[2], *(one.rpartition(".")[2] for one in reader.get("aliases", ()))]
        if pair[1].rpartition(".")[2] not in known:
            yield Problem(
                "NAME_MISMATCH",
                f"The name of the schema has changed (path '{path}/name')",
                f"expected: {pair[1]}",
            )
        if kind == "fixed" and reader["size"] != writer["size"]:
            yield Problem(
                "FIXED_SIZE_MISMATCH",
                f"The size of FIXED type field at path '{path}/size' in the {{reader}} schema does not match with the "
                "{writer} schema",
                f"expected: {writer['size']}, found: {reader['size']}",
            )
        elif kind == "enum":
            missing = [one for one in writer["symbols"] if one not in reader["symbols"]]
            if missing and "default" not in reader:
                yield Problem(
                    "MISSING_ENUM_SYMBOLS",
                    f"The {{reader}} schema is missing enum symbols '{missing}' at path '{path}/symbols' in the "
                    "{writer} schema",
                    f"[{', '.join(missing)}]",
                )
        elif kind in ("record", "error"):
            yield from self._compare_fields(reader, writer, path)

    def _compare_fields(self, reader: AvroSchema, writer: AvroSchema, path: str) -> Iterator[Problem]:
        written = {field["name"]: field for field in writer.get("fields", ())}
        for at, field in enumerate(reader.get("fields", ())):
            names = [field["name"], *field.get("aliases", ())]
            match = next((written[name] for name in names if name in written), None)
            if match is not None:
                yield from self.compare(field["type"], match["type"], f"{path}/fields/{at}/type")
            elif "default" not in field:
                yield Problem(
                    "READER_FIELD_MISSING_DEFAULT_VALUE",
                    f"The field '{field['name']}' at path '{path}/fields/{at}' in the {{reader}} schema has no default "
                    "value and is missing in the {writer} schema",
                    field["name"],
                )


def _missing_branch(kind: str, path: str) -> Problem:
    return Problem(
        "MISSING_UNION_BRANCH",
        f"The {{reader}} schema is missing a type inside a union field at path '{path or '/'}' in the "
        "{writer} schema",
        f"reader union lacking writer type: {kind.upper()}",
    )


def _collect(schema: AvroSchema, types: dict[str, AvroSchema], namespace: str) -> None:
    """Every named type of a schema by its full name; the types get their full names in place."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, types, namespace)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if kind in _NAMED:
            name = schema["name"]
            if "." not in name and (space := schema.get("namespace", namespace)):
                name = f"{space}.{name}"
            schema["__full_name"] = name
            types[name] = schema
            namespace = name.rpartition(".")[0]
            for field in schema.get("fields", ()):
                field["type"] = _qualified(field["type"], namespace, types)
                _collect(field["type"], types, namespace)
        elif isinstance(kind, (dict, list)):
            _collect(kind, types, namespace)
        for inner in ("items", "values"):
            if inner in schema:
                schema[inner] = _qualified(schema[inner], namespace, types)
                _collect(schema[inner], types, namespace)


def _qualified(schema: AvroSchema, namespace: str, types: Mapping[str, AvroSchema]) -> AvroSchema:
    """A name of a type in a namespace, in full."""
    if isinstance(schema, list):
        return [_qualified(branch, namespace, types) for branch in schema]
    if isinstance(schema, str) and "." not in schema and f"{namespace}.{schema}" in types:
        return f"{namespace}.{schema}"
    return schema


def _resolved(schema: AvroSchema, types: Mapping[str, AvroSchema]) -> AvroSchema:
    while True:
        if isinstance(schema, str) and schema in types:
            schema = types[schema]
        elif isinstance(schema, dict) and isinstance(schema.get("type"), (dict, list)):
            schema = schema["type"]
        elif isinstance(schema, dict) and schema.get("type") in types:
            schema = types[schema["type"]]
        else:
            return schema


def _kind(schema: AvroSchema) -> str:
    if isinstance(schema, list):
        return "union"
    return str(schema["type"] if isinstance(schema, dict) else schema)


def _kind_name(schema: AvroSchema) -> str:
    kind = _kind(schema)
    return f"{kind} {_full_name(schema)}" if isinstance(schema, dict) and kind in _NAMED else kind


def _full_name(schema: AvroSchema) -> str:
    return str(schema.get("__full_name") or schema["name"])
