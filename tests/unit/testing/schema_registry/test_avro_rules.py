"""aiokafkapy.testing.schema_registry.avro_rules: the data that a reader can read, compared with fastavro."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from aiokafkapy.testing.schema_registry.avro_rules import avro_problems


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any = "int", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


A, B = field("a"), field("b")
TREE = record(field("next", ["null", "Tree"]), name="Tree")


@pytest.mark.parametrize(
    ("reader", "writer", "kinds"),
    [
        ("long", "int", []),
        ("int", "long", ["TYPE_MISMATCH"]),
        ("string", "bytes", []),
        ({"type": "long", "logicalType": "timestamp-micros"}, "long", []),
        (record(A), record(A, B), []),
        (record(A, B), record(A), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
        (record(A, field("b", default=1)), record(A), []),
        (record(field("c", aliases=["a"])), record(A), []),
        (record(field("a", "string")), record(A), ["TYPE_MISMATCH"]),
        (record(A, name="S"), record(A), ["NAME_MISMATCH"]),
        (record(A, name="S", aliases=["R"]), record(A), []),
        (["null", "int"], "int", []),
        ("int", ["null", "int"], ["TYPE_MISMATCH"]),
        (["int", "string"], ["int", "boolean"], ["MISSING_UNION_BRANCH"]),
        (["null", "long"], ["null", "int"], []),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, ["TYPE_MISMATCH"]),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}, []),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            ["MISSING_ENUM_SYMBOLS"],
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            [],
        ),
        (
            {"type": "fixed", "name": "F", "size": 3},
            {"type": "fixed", "name": "F", "size": 4},
            ["FIXED_SIZE_MISMATCH"],
        ),
        (TREE, TREE, []),
    ],
)
def test_each_incompatibility_is_named(reader: Any, writer: Any, kinds: list[str]) -> None:
    found = avro_problems(copy.deepcopy(reader), copy.deepcopy(writer))
    assert [problem.kind for problem in found] == kinds


def test_a_problem_names_the_field_and_its_path() -> None:
    (problem,) = avro_problems(record(A, B), record(A))
    assert "'b' at path '/fields/1' in the new schema" in problem.text(is_forward=False)
    assert "in the old schema has no default" in problem.text(is_forward=True)
