"""aiokafkapy.testing.schema_registry.protobuf_rules: fields by number, messages by name."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from aiokafkapy.testing.schema_registry.protobuf_rules import protobuf_problems

INT32, INT64, STRING, BYTES, MESSAGE = 5, 3, 9, 12, 11


def file(*fields: tuple[int, str, int], name: str = "M", oneof: tuple[int, ...] = ()) -> Any:
    found = descriptor_pb2.FileDescriptorProto(package="shop")
    message = found.message_type.add(name=name)
    if oneof:
        message.oneof_decl.add(name="choice")
    for number, label, kind in fields:
        field = message.field.add(name=label, number=number, type=kind, label=1)
        if kind == MESSAGE:
            field.type_name = f".shop.{label}"
        if number in oneof:
            field.oneof_index = 0
    return found


A = (1, "a", INT32)
B = (2, "b", STRING)


@pytest.mark.parametrize(
    ("reader", "writer", "kinds"),
    [
        (file(A, B), file(A), []),
        (file(A), file(A, B), []),
        (file((1, "renamed", INT64)), file(A), []),
        (file((1, "a", STRING)), file(A), ["FIELD_SCALAR_KIND_CHANGED"]),
        (file((2, "b", BYTES)), file(B), []),
        (file((1, "a", MESSAGE)), file(A), ["FIELD_KIND_CHANGED"]),
        (file((1, "a", MESSAGE)), file((1, "b", MESSAGE)), ["FIELD_NAMED_TYPE_CHANGED"]),
        (file(A, name="N"), file(A), ["MESSAGE_REMOVED"]),
        (file(A), file(A, B, oneof=(2,)), ["ONEOF_FIELD_REMOVED"]),
        (file(A, B, oneof=(1, 2)), file(A, B), ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"]),
        (file(A, B, oneof=(2,)), file(A, B), []),
    ],
)
def test_each_incompatibility_is_named(reader: Any, writer: Any, kinds: list[str]) -> None:
    assert [problem.kind for problem in protobuf_problems(reader, writer)] == kinds
