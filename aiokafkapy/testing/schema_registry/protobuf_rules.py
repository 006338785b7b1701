"""Checks whether one Protobuf file can read another's data, by the rules of Confluent's registry.

Its counterpart there is ``SchemaDiff`` of the Protobuf provider. Messages are matched by name, fields by number; a
field may get another name, and a type with the same form on the wire. Pure: it takes file descriptors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from .problems import Problem

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

__all__ = ["protobuf_problems"]

# Numbers of FieldDescriptorProto.Type; within a group a field may change.
_GROUPS: Final = (
    {3, 4, 5, 8, 13, 14},  # int64, uint64, int32, bool, uint32, enum
    {17, 18},  # sint32, sint64
    {9, 12},  # string, bytes
    {7, 15},  # fixed32, sfixed32
    {6, 16},  # fixed64, sfixed64
)
_MESSAGE: Final = 11
_REQUIRED: Final = 2
_REPEATED: Final = 3


def protobuf_problems(reader: FileDescriptorProto, writer: FileDescriptorProto) -> list[Problem]:
    """The reasons why the file ``reader`` cannot read data written with ``writer``."""
    problems = []
    if reader.package != writer.package:
        problems.append(
            _problem("PACKAGE_CHANGED", "#/", f"package is {reader.package!r}, and is {writer.package!r}", "package")
        )
    return [*problems, *_messages(reader.message_type, writer.message_type, "#")]


def _messages(readers: Iterable[DescriptorProto], writers: Iterable[DescriptorProto], path: str) -> Iterator[Problem]:
    taken = {one.name: one for one in readers}
    for message in writers:
        place = f"{path}/{message.name}"
        if message.options.map_entry:
            continue
        found = taken.get(message.name)
        if found is None:
            yield _problem("MESSAGE_REMOVED", place, "message is missing, and is there", message.name)
            continue
        yield from _messages(found.nested_type, message.nested_type, place)
        yield from _fields(found, message, place)


def _fields(reader: DescriptorProto, writer: DescriptorProto, path: str) -> Iterator[Problem]:
    taken = {one.number: one for one in reader.field}
    written = {one.number: one for one in writer.field}
    for number, field in written.items():
        place = f"{path}/{number}"
        found = taken.get(number)
        if found is None:
            if field.label == _REQUIRED:
                yield _problem("REQUIRED_FIELD_REMOVED", place, "required field is missing, and is there", field.name)
            elif _is_in_oneof(field):
                yield _problem("ONEOF_FIELD_REMOVED", place, "field of a oneof is missing, and is there", field.name)
        else:
            yield from _field(found, field, place)
    for number, field in taken.items():
        if number not in written and field.label == _REQUIRED:
            yield _problem(
                "REQUIRED_FIELD_ADDED", f"{path}/{number}", "field is required, and is not there", field.name
            )
    moved = [one for one in reader.field if _is_in_oneof(one) and _was_alone(written.get(one.number))]
    for index in {one.oneof_index for one in moved}:
        if len([one for one in moved if one.oneof_index == index]) > 1:
            name = reader.oneof_decl[index].name
            yield _problem(
                "MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}", "fields are in a oneof, and are not", name
            )


def _field(reader: FieldDescriptorProto, writer: FieldDescriptorProto, place: str) -> Iterator[Problem]:
    if reader.type == writer.type:
        if reader.type_name.lstrip(".") != writer.type_name.lstrip("."):
            yield _problem(
                "FIELD_NAMED_TYPE_CHANGED",
                place,
                f"field {reader.name!r} is a {reader.type_name}, and is a {writer.type_name}",
                reader.name,
            )
    elif _MESSAGE in (reader.type, writer.type):
        yield _problem("FIELD_KIND_CHANGED", place, f"field {reader.name!r} is of another kind than", reader.name)
    elif not any({reader.type, writer.type} <= group for group in _GROUPS):
        yield _problem(
            "FIELD_SCALAR_KIND_CHANGED", place, f"field {reader.name!r} is of another type than", reader.name
        )
    if (reader.label == _REPEATED) != (writer.label == _REPEATED) and reader.type not in (9, 12, _MESSAGE):
        yield _problem(
            "FIELD_NUMERIC_LABEL_CHANGED", place, f"field {reader.name!r} is repeated in one, and not", reader.name
        )


def _is_in_oneof(field: FieldDescriptorProto) -> bool:
    return bool(field.HasField("oneof_index") and not field.proto3_optional)


def _was_alone(field: FieldDescriptorProto | None) -> bool:
    return field is not None and not _is_in_oneof(field)


def _problem(kind: str, path: str, what: str, info: str) -> Problem:
    return Problem(kind, f"The {{reader}} schema's {what} in the {{writer}} schema, at path '{path}'", info)
