"""The walk through Protobuf's messages: their fields, with the tags of Confluent's option ``(confluent.field_meta)``.

Owns the conversion of messages to plain values and back. Confluent's counterparts are ``transform`` of its
``protobuf`` module, and ``meta.proto``.

Rules: a field is found in the schema by its number, for its name may differ there; an unset field is not visited; a
changed message is a copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from .fields import Field, Visit, Walk

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["Descriptor", "FieldDescriptor", "message_of", "plain_message", "protobuf_walk"]

# Protobuf's own names. Each of its implementations has separate classes; checkers know only the pure Python ones.
Descriptor: TypeAlias = Any
FieldDescriptor: TypeAlias = Any

_MESSAGE: Final = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_ENUM: Final = descriptor_pb2.FieldDescriptorProto.TYPE_ENUM
_FIELD_META: Final = 1088
"""The number of ``confluent.field_meta``, in ``google.protobuf.FieldOptions``."""
_TAGS: Final = 3
"""The number of ``tags`` in ``confluent.Meta``."""

_TYPES: Final = {
    **dict.fromkeys((5, 7, 13, 15, 17), "INT"),
    **dict.fromkeys((3, 4, 6, 16, 18), "LONG"),
    1: "DOUBLE",
    2: "FLOAT",
    8: "BOOLEAN",
    9: "STRING",
    12: "BYTES",
    14: "ENUM",
}


def protobuf_walk(descriptor: Descriptor) -> Walk:
    """The walk of a message's type in the schema."""

    def walk(message: Message, visit: Visit) -> Message:
        made = type(message)()
        made.CopyFrom(message)
        _visit_fields(descriptor, made, visit)
        return made

    return walk


def plain_message(message: Any) -> dict[str, object]:
    """A message as plain values, by its fields' names; unset fields have their defaults."""
    made: dict[str, object] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            made[field.name] = {name: _plain(one) for name, one in value.items()}
        elif _is_repeated(field):
            made[field.name] = [_plain(one) for one in value]
        else:
            made[field.name] = _plain(value)
    return made


def message_of(message_type: type[Any], values: object) -> Any:
    """A message of plain values. Raises TypeError, ValueError."""
    if not isinstance(values, Mapping):
        raise TypeError(f"a {type(values).__name__} is not a message")
    made = message_type()
    fields = made.DESCRIPTOR.fields_by_name
    for name, value in values.items():
        if name not in fields:
            raise ValueError(f"the message has no field {name!r}")
        if value is not None:
            _set(made, fields[name], value)
    return made


# internals


def _visit_fields(descriptor: Descriptor, message: Message, visit: Visit) -> None:
    for own in message.DESCRIPTOR.fields:
        field = descriptor.fields_by_number.get(own.number)
        if field is None or (own.has_presence and not message.HasField(own.name)):
            continue
        value = getattr(message, own.name)
        seen = Field(field.full_name, field.name, _TYPES.get(own.type, "RECORD"), _tags_of(field), message, own)
        if _is_map(own):
            _visit_map(field, own, value, seen, visit)
        elif own.type == _MESSAGE:
            for one in value if _is_repeated(own) else [value]:
                _visit_fields(field.message_type, one, visit)
        elif _is_repeated(own):
            visited = [visit(seen, one) for one in value]
            message.ClearField(own.name)
            getattr(message, own.name).extend(one for one in visited if one is not None)
        else:
            found = visit(seen, value)
            if found is None:
                message.ClearField(own.name)
            elif found is not value:
                setattr(message, own.name, found)


def _visit_map(field: FieldDescriptor, own: FieldDescriptor, value: Any, seen: Field, visit: Visit) -> None:
    kind = own.message_type.fields_by_name["value"]
    if kind.type == _MESSAGE:
        inner = field.message_type.fields_by_name["value"].message_type
        for one in value.values():
            _visit_fields(inner, one, visit)
        return
    seen.type_name = _TYPES.get(kind.type, "RECORD")
    for name in list(value):
        found = visit(seen, value[name])
        if found is None:
            del value[name]
        else:
            value[name] = found


def _plain(value: object) -> object:
    return plain_message(value) if hasattr(value, "DESCRIPTOR") else value


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:
    inside = getattr(message, field.name)
    if _is_map(field):
        kind = field.message_type.fields_by_name["value"]
        for name, one in value.items():
            if kind.type == _MESSAGE:
                inside[name].CopyFrom(message_of(message_factory.GetMessageClass(kind.message_type), one))
            else:
                inside[name] = one
    elif _is_repeated(field):
        inside.extend(_value_for(field, one) for one in value)
    elif field.type == _MESSAGE:
        inside.CopyFrom(_value_for(field, value))
    else:
        setattr(message, field.name, _value_for(field, value))


def _value_for(field: FieldDescriptor, value: object) -> object:
    if field.type == _MESSAGE and not hasattr(value, "DESCRIPTOR"):
        return message_of(message_factory.GetMessageClass(field.message_type), value)
    if field.type == _ENUM and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    return value


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.type == _MESSAGE and field.message_type.GetOptions().map_entry)


def _is_repeated(field: FieldDescriptor) -> bool:
    found = getattr(field, "is_repeated", None)  # ``label`` is deprecated in versions that have this
    return bool(field.label == field.LABEL_REPEATED if found is None else found)


@lru_cache(maxsize=10_000)
def _tags_of(field: FieldDescriptor) -> frozenset[str]:
    """The tags of a field's option. A class built with ``meta.proto`` knows the option, any other keeps its bytes."""
    content = field.GetOptions().SerializeToString()
    return frozenset(_options_type().FromString(content).meta.tags) if content else frozenset()


@cache
def _options_type() -> Any:
    """The part of ``FieldOptions`` that tags need, in a separate pool."""
    file = descriptor_pb2.FileDescriptorProto(name="field_meta.proto", package="aiokafkapy", syntax="proto2")
    meta = file.message_type.add(name="Meta")
    meta.field.add(name="tags", number=_TAGS, type=9, label=3)
    options = file.message_type.add(name="Options")
    options.field.add(name="meta", number=_FIELD_META, type=11, label=1, type_name=".aiokafkapy.Meta")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("aiokafkapy.Options"))
