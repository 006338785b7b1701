"""Protobuf: serializer and deserializer of generated message classes, or of messages whose schema the registry has.

Owns the path to a message's type in its file, and the files that a file imports, each a subject of its own. Knows no
HTTP. Confluent's counterparts are ``KafkaProtobufSerializer`` and ``KafkaProtobufDeserializer``.

Rules: a schema's text is its file descriptor in Base64, as registries take and, asked for ``format=serialized``, give
it; an imported file is registered, and looked up, under its name, except for common files.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from ...errors import ConfigurationError, SerializationError
from .client import SchemaRegistryClient
from .deserializer import Decoder, DeserializationError, DeserializerOptions, ReadForm, RegistryDeserializer
from .references import referenced
from .schemas import RegisteredSchema, Schema, SchemaReference
from .serializer import Encoder, RegistrySerializer, RuledForm, SerializerOptions
from .wire_format import SchemaId, read_indexes

try:
    # Also the modules of messages that are not named here: an Any may hold them.
    from google.protobuf import (  # noqa: F401
        any_pb2,
        api_pb2,
        descriptor_pb2,
        descriptor_pool,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        json_format,
        message_factory,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
    from google.protobuf.message import DecodeError, Message
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "Protobuf needs its library: pip install 'aiokafkapy[schema-registry]'", name=missing.name
    ) from missing

from .protobuf_files import is_known_to_all, known_file  # after the error for a missing library

if TYPE_CHECKING:
    from .rules.fields import Visit
    from .rules.protobuf_fields import Descriptor

__all__ = ["ProtobufDeserializer", "ProtobufSerializer", "protobuf_schema"]

M = TypeVar("M", bound=Message)


def protobuf_schema(message_type: type[Message], references: Sequence[SchemaReference] = ()) -> Schema:
    """The schema of the file that defines a message class. ``references`` are the registered files that it imports."""
    return _file_schema(message_type.DESCRIPTOR.file, tuple(references))


class ProtobufSerializer(RegistrySerializer[M]):
    """Writes messages of a generated class."""

    def __init__(
        self, registry: SchemaRegistryClient, message_type: type[M], **options: Unpack[SerializerOptions]
    ) -> None:
        if not isinstance(message_type, type) or not issubclass(message_type, Message):
            raise ConfigurationError(f"{message_type!r} is not the class of a Protobuf message")
        self._message_type = message_type
        self._path = _path_of(message_type.DESCRIPTOR)
        super().__init__(registry, protobuf_schema(message_type), **options)

    def _record_name(self) -> str | None:
        return self._message_type.DESCRIPTOR.full_name

    def _indexes(self) -> Sequence[int] | None:
        return self._path

    async def _complete(self, schema: Schema) -> Schema:
        file = self._message_type.DESCRIPTOR.file
        return _file_schema(file, await self._references(file))

    async def _references(self, file: Any) -> tuple[SchemaReference, ...]:
        """The files that a file imports, each registered, or looked up, after those that it imports itself."""
        found = []
        for imported in file.dependencies:
            if is_known_to_all(imported.name):
                continue
            schema = _file_schema(imported, await self._references(imported))
            if self._registers:
                await self._registry.register(imported.name, schema, normalize=self._normalizes)
            registered = await self._registry.lookup(imported.name, schema, normalize=self._normalizes)
            found.append(SchemaReference(imported.name, imported.name, registered.version or 1))
        return tuple(found)

    async def _encoder_for(self, schema: Schema, *, is_own: bool) -> Encoder:
        message_type = self._message_type

        def encode(data: object, prefix: bytes) -> bytes:
            if not isinstance(data, message_type):
                raise self._misfit(data)
            return prefix + data.SerializeToString()

        return encode

    async def _ruled_form(self, registered: RegisteredSchema, *, is_own: bool) -> RuledForm:
        from .rules.protobuf_fields import protobuf_walk

        descriptor: Descriptor = self._message_type.DESCRIPTOR
        if not is_own:
            subject, version = registered.subject or "", registered.version or 0
            serialized = await self._registry.version(subject, version, format="serialized")
            pool, _ = await _pool_of(self._registry, serialized)
            try:
                descriptor = pool.FindMessageTypeByName(descriptor.full_name)
            except KeyError:
                raise SerializationError(
                    f"version {version} of subject {subject!r} has no message {descriptor.full_name}"
                ) from None
        return RuledForm(self._message, protobuf_walk(descriptor), lambda message: message.SerializeToString())

    def _message(self, data: object) -> Message:
        if not isinstance(data, self._message_type):
            raise self._misfit(data)
        return data

    def _misfit(self, data: object) -> SerializationError:
        return SerializationError(
            f"it is a {type(data).__name__}, not a message {self._message_type.DESCRIPTOR.full_name}"
        )


class ProtobufDeserializer(RegistryDeserializer[M], Generic[M]):
    """Reads messages of a generated class; without one, of a class made from the writer's schema.

    Protobuf reads by the numbers of fields, so the reader's own class needs the writer's schema only for its rules:
    with ``ignore_rules`` the registry is not asked.
    """

    _format = "serialized"

    @overload
    def __init__(
        self: ProtobufDeserializer[M],
        registry: SchemaRegistryClient,
        message_type: type[M],
        **options: Unpack[DeserializerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: ProtobufDeserializer[Any],
        registry: SchemaRegistryClient,
        message_type: None = None,
        **options: Unpack[DeserializerOptions],
    ) -> None: ...

    def __init__(
        self,
        registry: SchemaRegistryClient,
        message_type: type[M] | None = None,
        **options: Unpack[DeserializerOptions],
    ) -> None:
        super().__init__(registry, **options)
        self._message_type = message_type

    def _path_and_payload(self, found: SchemaId, rest: memoryview) -> tuple[tuple[int, ...], memoryview]:
        if found.rest is rest:
            return read_indexes(rest)
        path, _ = read_indexes(found.rest)  # of the header
        return path, rest

    async def _decoder_for(self, registered: RegisteredSchema, path: tuple[int, ...]) -> Decoder:
        message_type: type[Message] | None = self._message_type
        if message_type is None:
            message_type = await _message_type_of(self._registry, registered, path)
        new = message_type

        def decode(data: bytes) -> Message:
            message = new()
            message.ParseFromString(data)
            return message

        return decode

    async def _name_in(self, registered: RegisteredSchema, path: tuple[int, ...]) -> str | None:
        found = await _message_type_of(self._registry, registered, path)
        return found.DESCRIPTOR.full_name

    async def _read_form(self, writer: RegisteredSchema, target: RegisteredSchema, path: tuple[int, ...]) -> ReadForm:
        from .rules.protobuf_fields import protobuf_walk

        written = await _message_type_of(self._registry, writer, path)
        described = written
        if target is not writer:
            described = await _message_type_named(self._registry, target, written.DESCRIPTOR.full_name)
        wanted: type[Message] = self._message_type or described

        def read(data: bytes) -> Message:
            message = wanted()
            message.ParseFromString(data)
            return message

        def read_as_written(data: bytes) -> dict[str, object]:
            message = written()
            message.ParseFromString(data)
            return json_format.MessageToDict(message, True)

        def finish(message: object) -> object:
            return json_format.ParseDict(message, wanted()) if isinstance(message, dict) else message

        walk = protobuf_walk(described.DESCRIPTOR)

        def walk_through(message: object, visit: Visit) -> object:
            return walk(finish(message), visit)

        return ReadForm(read, read_as_written, walk_through, finish)

    async def _registered(self, found: SchemaId) -> RegisteredSchema:
        if self._message_type is not None and self._ignores_rules:
            return RegisteredSchema(found.id or 0, Schema("", "PROTOBUF"))  # none of it is read
        return await super()._registered(found)


def _file_schema(file: Any, references: tuple[SchemaReference, ...]) -> Schema:
    return Schema(base64.standard_b64encode(file.serialized_pb).decode("ascii"), "PROTOBUF", references)


def _path_of(descriptor: Descriptor) -> tuple[int, ...]:
    """The indexes of the message's type and of the types around it, from the file inwards."""
    path: list[int] = []
    inner = descriptor
    while (outer := inner.containing_type) is not None:
        path.insert(0, [one.full_name for one in outer.nested_types].index(inner.full_name))
        inner = outer
    names = [one.name for one in _file_proto(descriptor.file.serialized_pb).message_type]
    return (names.index(inner.name), *path)


def _file_proto(content: bytes) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto()
    file.ParseFromString(content)
    return file


async def _message_type_of(
    registry: SchemaRegistryClient, registered: RegisteredSchema, path: tuple[int, ...]
) -> type[Message]:
    """A class for the messages of a schema."""
    if registered.schema.type != "PROTOBUF":
        raise DeserializationError(f"schema {registered.id} is of type {registered.schema.type}, not PROTOBUF")
    pool, file = await _pool_of(registry, registered)
    try:
        found = pool.FindFileByName(file.name)
        names = [one.name for one in file.message_type]
        descriptor = found.message_types_by_name[names[path[0]]]
        for place in path[1:]:
            descriptor = descriptor.nested_types[place]
    except (TypeError, KeyError, IndexError) as error:
        raise DeserializationError(f"schema {registered.id} cannot be used: {type(error).__name__}: {error}") from error
    return message_factory.GetMessageClass(descriptor)


async def _message_type_named(registry: SchemaRegistryClient, registered: RegisteredSchema, name: str) -> type[Message]:
    """A class for the messages of this name."""
    pool, _ = await _pool_of(registry, registered)
    try:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError:
        raise DeserializationError(f"schema {registered.id} has no message {name}") from None


async def _pool_of(
    registry: SchemaRegistryClient, registered: RegisteredSchema
) -> tuple[descriptor_pool.DescriptorPool, descriptor_pb2.FileDescriptorProto]:
    """A schema's file, in a pool with all its imports."""
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()
    for reference, found in await referenced(registry, registered.schema, format="serialized"):
        if reference.name not in added:
            imported = _decoded_file(found)
            imported.name = reference.name
            _add(pool, imported, added)
    file = _decoded_file(registered)
    if file.name in added or not file.name:
        file.name = f"schema-{registered.guid or registered.id}.proto"
    try:
        _add(pool, file, added)
    except TypeError as error:
        raise DeserializationError(f"schema {registered.id} cannot be used: {type(error).__name__}: {error}") from error
    return pool, file


def _add(pool: descriptor_pool.DescriptorPool, file: descriptor_pb2.FileDescriptorProto, added: set[str]) -> None:
    for name in file.dependency:
        known = None if name in added else known_file(name)
        if known is not None:
            _add(pool, known, added)
    pool.Add(file)
    added.add(file.name)


def _decoded_file(registered: RegisteredSchema) -> descriptor_pb2.FileDescriptorProto:
    try:
        return _file_proto(base64.standard_b64decode(registered.schema.text.encode("ascii")))
    except (ValueError, DecodeError) as error:
        raise DeserializationError(
            f"schema {registered.id} is not a file descriptor: the registry does not know format=serialized; "
            "give the deserializer a message class"
        ) from error
