"""aiokafkapy.integrations.schema_registry.rules.redaction: data without the values of its encrypted fields."""

from __future__ import annotations

from typing import Any

import fastavro
import pytest
from jsonschema import Draft7Validator
from referencing import Registry
from referencing.jsonschema import DRAFT7

from aiokafkapy.integrations.schema_registry.rules.avro_fields import avro_walk
from aiokafkapy.integrations.schema_registry.rules.fields import Field, Walk
from aiokafkapy.integrations.schema_registry.rules.json_fields import json_walk
from aiokafkapy.integrations.schema_registry.rules.redaction import redacted, redaction


def test_redaction_hides_the_values_of_tagged_fields() -> None:
    visit = redaction(frozenset({"PII"}), None)
    assert visit(Field("r.f", "f", "STRING", frozenset({"PII"}), {}), "secret") == "<REDACTED>"
    assert visit(Field("r.f", "f", "BYTES", frozenset({"PII"}), {}), b"x") == b"<REDACTED>"
    assert visit(Field("r.f", "f", "LONG", frozenset({"PII"}), {}), 5) is None
    assert visit(Field("r.f", "f", "STRING", frozenset(), {}), "open") == "open"


PII = frozenset({"PII"})
TAGGED = {"confluent:tags": ["PII"]}


def avro_order() -> Walk:
    named: dict[str, Any] = {}
    point = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "long"}]}
    fields = [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "customer", "type": ["null", "string"], "default": None, **TAGGED},
        {"name": "salary", "type": "long", "default": 0, **TAGGED},
        {"name": "at", "type": ["null", point], "default": None},
    ]
    schema = {"type": "record", "name": "Order", "fields": fields}
    return avro_walk(fastavro.parse_schema(schema, named_schemas=named), named)


def json_order() -> Walk:
    plain: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    properties: dict[str, Any] = {
        "id": {"type": "integer"},
        "note": plain,
        "customer": {"type": "string", **TAGGED},
        "salary": {"type": "integer", **TAGGED},
        "free": TAGGED,
        "kind": {"enum": ["SECRET"], **TAGGED},
        "list": {"type": "array", **TAGGED},
    }
    content = {"type": "object", "properties": properties}
    root = DRAFT7.create_resource(content)
    known: Registry[Any] = Registry()
    return json_walk(content, Draft7Validator(content), known.resolver_with_root(root))


@pytest.mark.parametrize("order", [avro_order, json_order])
@pytest.mark.parametrize(
    "secret",
    [
        {"customer": "SECRET"},
        {"customer": ["SECRET"]},
        {"customer": {"first": "SECRET"}},
        {"customer": 123456789},
        {"salary": 123456789},
        {"salary": "SECRET"},
        {"Customer": "SECRET"},
        {"id": "SECRET"},
        {"note": ["SECRET"]},
        {"note": 123456789},
        {"at": {"wrong": "SECRET"}},
        {"at": {"x": "SECRET"}},
        {"free": "SECRET"},
        {"kind": "SECRET"},
        {"list": ["SECRET"]},
    ],
)
def test_data_of_another_shape_than_its_schema_is_hidden_too(order: Any, secret: dict[str, Any]) -> None:
    found = redacted(order(), {"id": 5, **secret}, PII, None)
    assert isinstance(found, dict)
    assert "SECRET" not in str(list(found.values()))
    assert "123456789" not in str(found)
    if "id" not in secret:
        assert found["id"] == 5, "the value of another field stays"


@pytest.mark.parametrize("order", [avro_order, json_order])
def test_a_message_that_is_not_an_object_is_hidden_as_a_whole(order: Any) -> None:
    assert redacted(order(), "SECRET", PII, None) is None
    assert "SECRET" not in str(redacted(order(), ["SECRET"], PII, None))


def test_a_message_that_fits_keeps_the_fields_that_are_not_encrypted() -> None:
    message = {"id": 5, "note": "tea", "customer": "SECRET", "salary": 1, "at": ("Point", {"x": 1})}
    assert redacted(avro_order(), message, PII, None) == {
        "id": 5,
        "note": "tea",
        "customer": "<REDACTED>",
        "salary": None,
        "at": {"x": 1},
    }
