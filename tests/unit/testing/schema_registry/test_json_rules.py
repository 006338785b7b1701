"""aiokafkapy.testing.schema_registry.json_rules: content models, types and limits."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.testing.schema_registry.json_rules import json_problems

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def of(required: tuple[str, ...] = (), closed: bool = False, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema


@pytest.mark.parametrize(
    ("reader", "writer", "kinds"),
    [
        (NUMBER, {"type": "integer"}, []),
        ({"type": "integer"}, NUMBER, ["TYPE_NARROWED"]),
        (TEXT, NUMBER, ["TYPE_CHANGED"]),
        ({"type": ["string", "null"]}, TEXT, []),
        (TEXT, {"type": ["string", "null"]}, ["SUM_TYPE_NARROWED"]),
        (True, TEXT, []),
        (of(a=TEXT), of(), ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
        (of(closed=True, a=TEXT), of(closed=True), []),
        (of(("a",), closed=True, a=TEXT), of(closed=True), ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"]),
        (of(("a",), closed=True, a={"type": "string", "default": ""}), of(closed=True), []),
        (of(closed=True), of(closed=True, a=TEXT), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
        (of(), of(a=TEXT), []),
        (of(closed=True), of(), ["ADDITIONAL_PROPERTIES_REMOVED"]),
        (of(("a",), a=TEXT), of(a=TEXT), ["REQUIRED_ATTRIBUTE_ADDED"]),
        (of(("a",), a={"$ref": "#/$defs/any"}) | {"$defs": {"any": True}}, of(a=TEXT), ["REQUIRED_ATTRIBUTE_ADDED"]),
        (of(("a",)), of(("a",), a=TEXT), []),
        (of(a=TEXT), of(("a",), a=TEXT), []),
        (of(a=TEXT), of(a=NUMBER), ["TYPE_CHANGED"]),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_NARROWED"]),
        ({"enum": ["a", "b"]}, {"const": "a"}, []),
        ({"type": "string", "maxLength": 5}, TEXT, ["MAX_LENGTH_ADDED"]),
        ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 4}, []),
        ({"type": "number", "minimum": 5}, {"type": "number", "minimum": 4}, ["MINIMUM_INCREASED"]),
        ({"type": "string", "pattern": "a"}, TEXT, ["PATTERN_ADDED"]),
        ({"type": "array", "items": TEXT}, {"type": "array", "items": NUMBER}, ["TYPE_CHANGED"]),
        (
            {"$ref": "#/$defs/T", "$defs": {"T": of(a={"$ref": "#/$defs/T"})}},
            {"$ref": "#/$defs/T", "$defs": {"T": of(a={"$ref": "#/$defs/T"})}},
            [],
        ),
    ],
)
def test_options_that_a_reader_does_not_take(reader: Any, writer: Any, kinds: list[str]) -> None:
    assert [problem.kind for problem in json_problems(reader, writer)] == kinds


def test_a_problem_names_the_property() -> None:
    (problem,) = json_problems(of(a=TEXT), of(a=NUMBER))
    assert "'#/properties/a'" in problem.text(is_forward=False)
