"""Protobuf messages that are made at run time."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

__all__ = ["file_of", "message_of", "message_types"]


def file_of(name: str, package: str, *messages: descriptor_pb2.DescriptorProto, uses: str = "") -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3", message_type=messages)
    if uses:
        file.dependency.append(uses)
    return file


def message_of(name: str, /, **fields: Any) -> descriptor_pb2.DescriptorProto:
    message = descriptor_pb2.DescriptorProto(name=name)
    for number, (field, kind) in enumerate(fields.items(), 1):
        if isinstance(kind, str):
            message.field.add(name=field, number=number, type=11, type_name=kind, label=1)
        else:
            message.field.add(name=field, number=number, type=kind, label=1)
    return message


def message_types() -> tuple[type[Message], type[Message]]:
    """An order, with its customer in a file of its own, and a message inside another, second in its file."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file_of("customer.proto", "shop", message_of("Customer", name=9)))
    outer = message_of("Parcel", weight=3)
    outer.nested_type.append(message_of("Empty"))
    outer.nested_type.append(message_of("Label", text=9))
    order = message_of("Order", id=3, customer=".shop.Customer")
    pool.Add(file_of("order.proto", "shop", order, outer, uses="customer.proto"))
    found: Any = pool.FindFileByName("order.proto")
    parcel = found.message_types_by_name["Parcel"]
    return (
        message_factory.GetMessageClass(found.message_types_by_name["Order"]),
        message_factory.GetMessageClass(parcel.nested_types_by_name["Label"]),
    )
