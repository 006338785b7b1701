"""aiokafkapy.integrations.schema_registry.rules.protobuf_fields: the way through messages, and plain values of them."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from aiokafkapy.integrations.schema_registry.rules.fields import Field
from aiokafkapy.integrations.schema_registry.rules.protobuf_fields import message_of, plain_message, protobuf_walk


def message_type() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="p", syntax="proto3")
    color = file.enum_type.add(name="Color")
    color.value.add(name="RED", number=0)
    color.value.add(name="BLUE", number=1)
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="text", number=1, type=9, label=1)
    outer = file.message_type.add(name="Outer")
    outer.field.add(name="id", number=1, type=3, label=1)
    outer.field.add(name="inner", number=2, type=11, label=1, type_name=".p.Inner")
    outer.field.add(name="inners", number=3, type=11, label=3, type_name=".p.Inner")
    outer.field.add(name="texts", number=4, type=9, label=3)
    outer.field.add(name="color", number=5, type=14, label=1, type_name=".p.Color")
    for number, (name, kind) in enumerate((("labels", None), ("places", ".p.Inner")), 6):
        entry = outer.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=9, label=1)
        entry.field.add(name="value", number=2, type=11 if kind else 9, label=1, type_name=kind)
        outer.field.add(name=name, number=number, type=11, label=3, type_name=f".p.Outer.{entry.name}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Outer"))


Outer = message_type()
VALUES: dict[str, Any] = {
    "id": 2**60,
    "inner": {"text": "a"},
    "inners": [{"text": "b"}],
    "texts": ["c", "d"],
    "color": 1,
    "labels": {"k": "e"},
    "places": {"k": {"text": "f"}},
}


def test_plain_values_are_a_message_and_a_message_plain_values() -> None:
    message = message_of(Outer, VALUES)
    assert plain_message(message) == VALUES
    assert message_of(Outer, VALUES | {"color": "BLUE"}) == message
    assert plain_message(Outer())["texts"] == []
    assert "inner" not in plain_message(Outer())
    for wrong in (["no map"], {"more": 1}, {"id": "text"}):
        with pytest.raises((TypeError, ValueError)):
            message_of(Outer, wrong)


def test_each_field_that_is_set_is_visited_and_the_message_is_left_alone() -> None:
    message = message_of(Outer, VALUES)
    found: list[tuple[str, str]] = []

    def visit(field: Field, value: Any) -> Any:
        found.append((field.full_name, field.type_name))
        return value.upper() if isinstance(value, str) else value

    made = protobuf_walk(Outer.DESCRIPTOR)(message, visit)
    assert plain_message(message) == VALUES
    assert plain_message(made) == {
        "id": 2**60,
        "inner": {"text": "A"},
        "inners": [{"text": "B"}],
        "texts": ["C", "D"],
        "color": 1,
        "labels": {"k": "E"},
        "places": {"k": {"text": "F"}},
    }
    assert ("p.Outer.color", "ENUM") in found
    assert found.count(("p.Inner.text", "STRING")) == 3


def test_values_that_a_visit_leaves_out_of_lists_and_maps_are_gone() -> None:
    """A dead letter leaves numbers out in this way."""
    message = message_of(Outer, VALUES)
    made = plain_message(protobuf_walk(Outer.DESCRIPTOR)(message, lambda field, value: None))
    assert (made["texts"], made["labels"], made["places"]) == ([], {}, {"k": {"text": ""}})
