"""aiokafkapy.integrations.schema_registry.rules.avro_fields: the way through Avro's data."""

from __future__ import annotations

from typing import Any

import fastavro
import pytest

from aiokafkapy.integrations.schema_registry.rules.avro_fields import avro_walk
from aiokafkapy.integrations.schema_registry.rules.fields import Field

POINT: dict[str, Any] = {"type": "record", "name": "Point", "fields": [{"name": "label", "type": "string"}]}
CIRCLE: dict[str, Any] = {
    "type": "record",
    "name": "Circle",
    "fields": [{"name": "label", "type": "string"}, {"name": "radius", "type": "double"}],
}

DISK: dict[str, Any] = {"label": "x", "radius": 1.0}


def seen(schema: Any, data: Any, *, fills_defaults: bool = True) -> tuple[Any, list[tuple[str, str, Any]]]:
    """The result of a walk that upper-cases texts, and the visited fields."""
    named: dict[str, Any] = {}
    found: list[tuple[str, str, Any]] = []

    def visit(field: Field, value: Any) -> Any:
        found.append((field.full_name, field.type_name, value))
        return value.upper() if isinstance(value, str) else value

    walk = avro_walk(fastavro.parse_schema(schema, named_schemas=named), named, fills_defaults=fills_defaults)
    return walk(data, visit), found


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "namespace": "a.b", "fields": list(fields)}


def test_fields_of_records_in_arrays_and_maps_are_visited_and_the_data_is_left_alone() -> None:
    schema = record(
        {"name": "points", "type": {"type": "array", "items": POINT}},
        {"name": "by_name", "type": {"type": "map", "values": "Point"}},
    )
    data = {"points": [{"label": "x"}], "by_name": {"k": {"label": "y"}}}
    made, found = seen(schema, data)
    assert made == {"points": [{"label": "X"}], "by_name": {"k": {"label": "Y"}}}
    assert data == {"points": [{"label": "x"}], "by_name": {"k": {"label": "y"}}}
    assert found == [("a.b.Point.label", "STRING", "x"), ("a.b.Point.label", "STRING", "y")]


@pytest.mark.parametrize(
    ("value", "wanted", "kinds"),
    [
        (None, None, ["NULL"]),
        ("x", "X", ["STRING"]),
        ({"label": "x"}, {"label": "X"}, ["STRING"]),
        ({"label": "x", "radius": 1.0}, {"label": "X", "radius": 1.0}, ["STRING", "DOUBLE"]),
        (("a.b.Circle", DISK), ("a.b.Circle", DISK | {"label": "X"}), ["STRING", "DOUBLE"]),
        (3.5, 3.5, []),  # of no branch: the serializer says so
    ],
)
def test_the_branch_of_a_union_that_fits_is_walked(value: Any, wanted: Any, kinds: list[str]) -> None:
    schema = record({"name": "one", "type": ["null", "string", CIRCLE, POINT]})
    made, found = seen(schema, {"one": value})
    assert made == {"one": wanted}
    assert [kind for _, kind, _ in found] == kinds


def test_a_record_may_have_itself_in_it() -> None:
    schema = record({"name": "text", "type": "string"}, {"name": "next", "type": ["null", "R"]})
    made, _ = seen(schema, {"text": "a", "next": {"text": "b", "next": None}})
    assert made == {"text": "A", "next": {"text": "B", "next": None}}


@pytest.mark.parametrize(
    ("kind", "default", "made"),
    [
        ("string", "none", "NONE"),
        (["string", "null"], "none", "NONE"),
        (["null", "string"], None, None),
        ("bytes", "\u00ff", b"\xff"),
        (["bytes", "null"], "\u00ff", b"\xff"),
        (POINT, {"label": "x"}, {"label": "X"}),
        ({"type": "array", "items": "string"}, ["x"], ["X"]),
    ],
)
def test_a_missing_fields_default_is_visited_as_it_is_written(kind: Any, default: Any, made: Any) -> None:
    schema = record({"name": "a", "type": kind, "default": default}, {"name": "b", "type": "string"})
    assert seen(schema, {})[0] == {"a": made}


def test_data_without_a_record_has_no_field() -> None:
    assert seen("string", "a") == ("a", [])


def test_a_reader_is_given_no_default_for_it_was_not_encrypted() -> None:
    schema = record({"name": "a", "type": "string"}, {"name": "b", "type": "string", "default": "none"})
    assert seen(schema, {"a": "x"}, fills_defaults=False) == ({"a": "X"}, [("a.b.R.a", "STRING", "x")])
