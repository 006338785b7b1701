"""Avro, over fastavro: serializer and deserializer, for dicts with a schema, or for models from which a schema is
derived.

Owns the reading of schemas with their references, encoding, and resolution of the writer's schema to the reader's.
Knows no HTTP. Confluent's counterparts are ``KafkaAvroSerializer`` and ``KafkaAvroDeserializer``.

Rules: a schema that is ``bytes`` alone is written without Avro's length, as Confluent's serializers do; data that does
not fit its schema, as ``avro_checks`` finds, is a SerializationError that names the field and the types, never the
value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from ...errors import ConfigurationError, SerializationError
from .avro_models import AvroModel
from .client import SchemaRegistryClient
from .deserializer import Decoder, DeserializationError, DeserializerOptions, ReadForm, RegistryDeserializer
from .references import referenced
from .schemas import RegisteredSchema, Schema
from .serializer import Encoder, RegistrySerializer, RuledForm, SerializerOptions

try:
    import fastavro
    from fastavro.validation import ValidationError
    from fastavro.validation import validate as fastavro_validate

    from .avro_checks import Check, Misfit, avro_check, shown
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "Avro needs fastavro: pip install 'aiokafkapy[schema-registry]'", name=missing.name
    ) from missing

if TYPE_CHECKING:
    from fastavro.types import NamedSchemas

    from .rules.avro_fields import AvroSchema

__all__ = ["AvroDeserializer", "AvroSerializer"]

T = TypeVar("T")


class AvroSerializer(RegistrySerializer[T]):
    """Writes Avro. ``schema_or_model`` is a schema (a ``Schema``, its text, or a dict) for dicts, or a pydantic model
    or dataclass, whose schema is derived: see ``avro_schema``. None is for ``use_latest_version``.

    ``to_dict`` turns an object into data of the schema. ``validate=False`` trusts the data: fastavro silently changes
    much data that does not fit.
    """

    @overload
    def __init__(
        self: AvroSerializer[T],
        registry: SchemaRegistryClient,
        schema_or_model: type[T],
        *,
        to_dict: Callable[[T], object] | None = None,
        validate: bool = True,
        **options: Unpack[SerializerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AvroSerializer[Any],
        registry: SchemaRegistryClient,
        schema_or_model: Schema | str | dict[str, Any] | None = None,
        *,
        to_dict: Callable[[Any], object] | None = None,
        validate: bool = True,
        **options: Unpack[SerializerOptions],
    ) -> None: ...

    def __init__(
        self,
        registry: SchemaRegistryClient,
        schema_or_model: object = None,
        *,
        to_dict: Callable[[Any], object] | None = None,
        validate: bool = True,
        **options: Unpack[SerializerOptions],
    ) -> None:
        schema = None
        if isinstance(schema_or_model, type):
            model = AvroModel(schema_or_model)
            schema = Schema(json.dumps(model.schema, separators=(",", ":")))
            to_dict = to_dict or model.to_avro
        elif schema_or_model is not None:
            schema = _schema_of(schema_or_model)
        self._to_dict = to_dict
        self._validates = validate
        self._name = None if schema is None else _name_of(schema)
        super().__init__(registry, schema, **options)

    def _record_name(self) -> str | None:
        return self._name

    async def _ruled_form(self, registered: RegisteredSchema, *, is_own: bool) -> RuledForm:
        from .rules.avro_fields import avro_walk

        parsed, named = await _parsed_with_names(self._registry, registered.schema)
        to_dict = self._to_dict
        write = _writer(parsed, self._check(parsed, named))

        def message(data: object) -> object:
            return data if to_dict is None else to_dict(data)

        return RuledForm(message, avro_walk(parsed, named, fills_defaults=True), lambda one: write(one, b""))

    async def _encoder_for(self, schema: Schema, *, is_own: bool) -> Encoder:
        parsed, named = await _parsed_with_names(self._registry, schema)
        return _writer(parsed, self._check(parsed, named), self._to_dict)

    def _check(self, parsed: AvroSchema, named: NamedSchemas) -> Check | None:
        return avro_check(parsed, named) if self._validates else None


def _writer(parsed: AvroSchema, check: Check | None = None, to_dict: Callable[[Any], object] | None = None) -> Encoder:
    """Writes data of a schema behind a prefix."""
    is_bytes = _is_bytes(parsed)
    write = fastavro.schemaless_writer

    def encode(data: Any, prefix: bytes) -> bytes:
        if to_dict is not None:
            data = to_dict(data)
        try:
            misfit = None if check is None else check(data)
            if misfit is not None:
                raise _error([misfit])
            if is_bytes:
                return prefix + bytes(data)
            out = BytesIO()
            out.write(prefix)
            write(out, parsed, data)
        except SerializationError:
            raise
        except Exception as error:
            raise _misfit(parsed, data, error) from None
        return out.getvalue()

    return encode


class AvroDeserializer(RegistryDeserializer[T], Generic[T]):
    """Reads Avro: dicts as the writer's schema has them, or by a reader's schema, or as a pydantic model or dataclass.

    With a reader's schema or model, the writer's is resolved to it, by Avro's rules: fields that only the writer has
    are skipped, those that only the reader has get their defaults.
    """

    @overload
    def __init__(
        self: AvroDeserializer[T],
        registry: SchemaRegistryClient,
        schema_or_model: type[T],
        **options: Unpack[DeserializerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AvroDeserializer[Any],
        registry: SchemaRegistryClient,
        schema_or_model: Schema | str | dict[str, Any] | None = None,
        **options: Unpack[DeserializerOptions],
    ) -> None: ...

    def __init__(
        self, registry: SchemaRegistryClient, schema_or_model: object = None, **options: Unpack[DeserializerOptions]
    ) -> None:
        super().__init__(registry, **options)
        self._from_avro: Callable[[Any], Any] | None = None
        self._names_records = False  # for unions: a model's branches may be alike
        self._reader: Schema | None = None
        if isinstance(schema_or_model, type):
            model = AvroModel(schema_or_model)
            self._reader = Schema(json.dumps(model.schema))
            self._from_avro = model.from_avro
            self._names_records = model.has_choice
        elif schema_or_model is not None:
            self._reader = _schema_of(schema_or_model)

    async def _decoder_for(self, registered: RegisteredSchema, path: tuple[int, ...]) -> Decoder:
        _check_type(registered)
        writer = await _parsed(self._registry, registered.schema)
        reader = None if self._reader is None else await _parsed(self._registry, self._reader)
        from_avro, is_bytes, read = self._from_avro, _is_bytes(writer), self._read

        def decode(data: bytes) -> Any:
            found = data if is_bytes else read(BytesIO(data), writer, reader)
            return found if from_avro is None else from_avro(found)

        return decode

    async def _name_in(self, registered: RegisteredSchema, path: tuple[int, ...]) -> str | None:
        return _name_of(registered.schema)

    async def _read_form(self, writer: RegisteredSchema, target: RegisteredSchema, path: tuple[int, ...]) -> ReadForm:
        from .rules.avro_fields import avro_walk

        for one in (writer, target):
            _check_type(one)
        written = await _parsed(self._registry, writer.schema)
        parsed, named = await _parsed_with_names(self._registry, target.schema)
        reader = None if self._reader is None else await _parsed(self._registry, self._reader)
        is_bytes, from_avro, write = _is_bytes(written), self._from_avro, _writer(parsed)
        read, names_records = self._read, self._names_records
        resolved = parsed if writer is not target else None

        def finish(message: object) -> object:
            if reader is not None and not is_bytes:
                # Rules belong to their own schema; the reader's schema is another, and is resolved after them.
                message = read(BytesIO(write(message, b"")), parsed, reader)
            return message if from_avro is None else from_avro(message)

        def read_as(data: bytes, schema: AvroSchema | None) -> object:
            found = data if is_bytes else read(BytesIO(data), written, schema)
            return _with_types(found) if names_records else found

        return ReadForm(
            lambda data: read_as(data, resolved), lambda data: read_as(data, None), avro_walk(parsed, named), finish
        )

    def _read(self, data: BytesIO, writer: AvroSchema, reader: AvroSchema | None) -> Any:
        names = self._names_records
        return fastavro.schemaless_reader(
            data, writer, reader, return_record_name=names, return_record_name_override=names
        )


def _with_types(data: object) -> object:
    """The data, with the names of a union's records inside them, so that rules see fields: ``(name, data)`` has
    none.
    """
    if isinstance(data, tuple):
        name, inner = data
        found = _with_types(inner)
        return {**found, "-type": name} if isinstance(found, dict) else found
    if isinstance(data, dict):
        return {name: _with_types(one) for name, one in data.items()}
    return [_with_types(one) for one in data] if isinstance(data, list) else data


def _check_type(registered: RegisteredSchema) -> None:
    if registered.schema.type != "AVRO":
        raise DeserializationError(f"schema {registered.id} is of type {registered.schema.type}, not AVRO")


def _schema_of(given: object) -> Schema:
    """The given schema, checked to be readable. Raises ConfigurationError."""
    if not isinstance(given, (Schema, str, dict, list)):
        raise ConfigurationError(f"{given!r:.100} is neither an Avro schema nor a model")
    if isinstance(given, Schema):
        schema = given
    else:
        text = given if isinstance(given, str) else json.dumps(given)
        try:
            json.loads(text)
        except ValueError:
            text = json.dumps(text)  # a bare name, as "string"
        schema = Schema(text)
    if schema.type != "AVRO":
        raise ConfigurationError(f"the schema is of type {schema.type}, not AVRO")
    if not schema.references:
        _parse(schema, {})
    return schema


def _name_of(schema: Schema) -> str | None:
    """The full name of a record, enum or fixed; the name of a primitive type, as in Confluent's serializers."""
    content = json.loads(schema.text)
    if isinstance(content, str):
        return content
    if not isinstance(content, dict):
        return None  # a union has none
    name, namespace = content.get("name"), content.get("namespace")
    if not isinstance(name, str):
        return str(content.get("type"))
    return name if "." in name or not namespace else f"{namespace}.{name}"


async def _parsed(registry: SchemaRegistryClient, schema: Schema) -> AvroSchema:
    """The schema as fastavro reads it, with all its references, direct and indirect."""
    return (await _parsed_with_names(registry, schema))[0]


async def _parsed_with_names(registry: SchemaRegistryClient, schema: Schema) -> tuple[AvroSchema, NamedSchemas]:
    """As ``_parsed``, with the named types."""
    named: NamedSchemas = {}
    known: set[tuple[str, int]] = set()
    for reference, found in await referenced(registry, schema):
        place = (reference.subject, reference.version)
        if place not in known:  # by another name
            known.add(place)
            _parse(found.schema, named)
    return _parse(schema, named), named


def _parse(schema: Schema, named: NamedSchemas) -> AvroSchema:
    try:
        return fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    except Exception as error:  # an error of fastavro, or of a schema that is not JSON
        raise ConfigurationError(f"an Avro schema cannot be read: {type(error).__name__}: {error}") from error


def _is_bytes(parsed: object) -> bool:
    return parsed == "bytes" or (
        isinstance(parsed, dict) and parsed.get("type") == "bytes" and "logicalType" not in parsed
    )


def _misfit(parsed: AvroSchema, data: object, error: Exception) -> SerializationError:
    """The error for a field that fastavro could not write, in types only: its own text has the value."""
    try:
        fastavro_validate(data, parsed, raise_errors=True)
    except ValidationError as found:
        return _error([Misfit(one.field or "the data", one.datum, shown(one.schema)) for one in found.errors])
    except Exception:  # validation has no words for it either
        pass
    return SerializationError(f"it does not fit its Avro schema: {type(error).__name__}")


def _error(misfits: Sequence[Misfit]) -> SerializationError:
    problems = [f"{place} is a {type(data).__name__}, not {expected}" for place, data, expected in misfits[:10]]
    return SerializationError(f"it does not fit its Avro schema: {'; '.join(problems)}")
