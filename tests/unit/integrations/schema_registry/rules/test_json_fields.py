"""aiokafkapy.integrations.schema_registry.rules.json_fields: the way through JSON."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from aiokafkapy.integrations.schema_registry.rules.fields import Field
from aiokafkapy.integrations.schema_registry.rules.json_fields import json_walk

TEXT = {"type": "string"}


def seen(schema: Any, data: Any) -> tuple[Any, list[tuple[str, str]]]:
    found: list[tuple[str, str]] = []

    def visit(field: Field, value: Any) -> Any:
        found.append((field.full_name, field.type_name))
        return value.upper() if isinstance(value, str) else value

    known: Registry[Any] = Registry()
    resolver = known.resolver_with_root(Resource.from_contents(schema, default_specification=DRAFT7))
    validator = validator_for(schema)(schema, registry=known)
    return json_walk(schema, validator, resolver)(data, visit), found


@pytest.mark.parametrize(
    ("kind", "data", "wanted", "kinds"),
    [
        (TEXT, "a", "A", ["STRING"]),
        ({"type": ["null", "string"]}, "a", "A", ["STRING"]),
        ({"type": ["integer", "string"]}, 3, 3, ["INT"]),
        ({"type": "boolean"}, True, True, ["BOOLEAN"]),
        ({"enum": ["a", "b"]}, "a", "A", ["ENUM"]),
        ({"type": "array", "items": TEXT}, ["a", "b"], ["A", "B"], ["STRING", "STRING"]),
        ({"oneOf": [{"type": "integer"}, TEXT]}, "a", "A", ["STRING"]),
        ({"anyOf": [{"type": "null"}, TEXT]}, "a", "A", ["STRING"]),
        ({"allOf": [TEXT]}, "a", "A", ["STRING"]),
        ({"$ref": "#/definitions/text"}, "a", "A", ["STRING"]),
        ({"oneOf": [{"type": "integer"}, {"$ref": "#/definitions/text"}]}, "a", "A", ["STRING"]),
        (TEXT, None, None, []),
        ({}, "a", "a", []),
    ],
)
def test_a_property_is_visited_with_the_type_of_its_schema(kind: Any, data: Any, wanted: Any, kinds: list[str]) -> None:
    schema = {"type": "object", "properties": {"one": kind}, "definitions": {"text": TEXT}}
    before = {"one": data, "more": "left"}
    made, found = seen(schema, before)
    assert made == {"one": wanted, "more": "left"}
    assert before == {"one": data, "more": "left"}
    assert found == [("$.one", one) for one in kinds]


def test_names_go_inwards_and_a_schema_may_have_itself_in_it() -> None:
    schema = {"type": "object", "properties": {"text": TEXT, "next": {"$ref": "#"}}}
    made, found = seen(schema, {"text": "a", "next": {"text": "b"}})
    assert made == {"text": "A", "next": {"text": "B"}}
    assert found == [("$.text", "STRING"), ("$.next.text", "STRING")]


def test_a_schema_that_refers_to_itself_without_end_is_an_error() -> None:
    with pytest.raises((ValueError, RecursionError)):
        seen({"$ref": "#"}, {"a": 1})
