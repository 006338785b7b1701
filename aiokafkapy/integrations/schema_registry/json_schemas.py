"""JSON Schema: serializer and deserializer, for dicts with a schema, or for pydantic models and dataclasses.

Owns validation and the reading of schemas with their references. A model's schema is pydantic's own, in serialization
mode. Confluent's counterparts are ``KafkaJsonSchemaSerializer`` and ``KafkaJsonSchemaDeserializer``.

Rules: data is validated before it is written, except for an instance of the model from which the schema is derived:
pydantic has validated that, unless a serializer of the model lacks a return type; invalid data is a SerializationError
that names the field and the rule, never the value. So is a number that JSON lacks, unless the model says how it is
written (``ser_json_inf_nan``). A registry more often finds a model's next version compatible if the model is closed
(``extra="forbid"``): see docs/schemas.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack, overload

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from ...common import JsonValue
from ...errors import ConfigurationError, SerializationError
from .client import SchemaRegistryClient
from .deserializer import Decoder, DeserializationError, DeserializerOptions, ReadForm, RegistryDeserializer
from .references import referenced
from .rules.fields import Walk
from .schemas import RegisteredSchema, Schema
from .serializer import Encoder, RegistrySerializer, RuledForm, SerializerOptions

try:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT7
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "JSON Schema needs jsonschema: pip install 'aiokafkapy[schema-registry]'", name=missing.name
    ) from missing

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

__all__ = ["JsonSchemaDeserializer", "JsonSchemaSerializer", "json_schema"]

T = TypeVar("T")

_MAX_PROBLEMS: Final = 10
_SHOWN: Final = 100

_dump = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def json_schema(model: Any) -> dict[str, Any]:
    """The JSON Schema of a serialized pydantic model or dataclass."""
    schema = TypeAdapter(model).json_schema(mode="serialization", by_alias=True)
    return schema if "title" in schema or not isinstance(model, type) else {"title": model.__name__, **schema}


class JsonSchemaSerializer(RegistrySerializer[T]):
    """Writes JSON. ``schema_or_model`` is a JSON Schema (a ``Schema``, its text, or a dict) for values that ``json``
    takes, or a pydantic model or dataclass. None is for ``use_latest_version``.

    ``to_dict`` turns data into values that ``json`` takes. ``validate`` False trusts the data; True checks models too.
    """

    @overload
    def __init__(
        self: JsonSchemaSerializer[T],
        registry: SchemaRegistryClient,
        schema_or_model: type[T],
        *,
        to_dict: Callable[[T], object] | None = None,
        validate: bool | None = None,
        **options: Unpack[SerializerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: JsonSchemaSerializer[Any],
        registry: SchemaRegistryClient,
        schema_or_model: Schema | str | dict[str, Any] | None = None,
        *,
        to_dict: Callable[[Any], object] | None = None,
        validate: bool | None = None,
        **options: Unpack[SerializerOptions],
    ) -> None: ...

    def __init__(
        self,
        registry: SchemaRegistryClient,
        schema_or_model: object = None,
        *,
        to_dict: Callable[[Any], object] | None = None,
        validate: bool | None = None,
        **options: Unpack[SerializerOptions],
    ) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        self._refuses_nan = True
        self._is_trusted = False
        schema = None
        if isinstance(schema_or_model, type):
            self._model = schema_or_model
            self._adapter = TypeAdapter(schema_or_model)
            settings = getattr(schema_or_model, "model_config", None) or getattr(
                schema_or_model, "__pydantic_config__", {}
            )
            self._refuses_nan = "ser_json_inf_nan" not in settings
            schema = Schema(_dump(json_schema(schema_or_model)), "JSON")
            self._is_trusted = to_dict is None and not _has_unknown_result(self._adapter.core_schema)
        elif schema_or_model is not None:
            schema = _schema_of(schema_or_model)
        self._to_dict = to_dict
        self._validates = validate
        super().__init__(registry, schema, **options)

    def _record_name(self) -> str | None:
        return None if self._schema is None else _title_of(self._schema)

    async def _encoder_for(self, schema: Schema, *, is_own: bool) -> Encoder:
        validates = not (self._is_trusted and is_own) if self._validates is None else self._validates
        check = await _checker(self._registry, schema) if validates else None

        def encode(data: object, prefix: bytes) -> bytes:
            written = self._written(data)
            if check is not None:
                check(json.loads(written))
            return prefix + written

        return encode

    async def _ruled_form(self, registered: RegisteredSchema, *, is_own: bool) -> RuledForm:
        # A rule may turn a model's data into a value that the model cannot have: it is checked unless ``validate`` is
        # False.
        check, walk = await _checker_and_walk(self._registry, registered.schema)
        validates = self._validates is not False

        def write(message: object) -> bytes:
            if validates:
                check(message)
            return _dump(message).encode()

        return RuledForm(lambda data: json.loads(self._written(data)), walk, write)

    def _written(self, data: object) -> bytes:
        adapter, to_dict = self._adapter, self._to_dict
        if to_dict is not None:
            return _dump(to_dict(data)).encode()
        if adapter is None:
            return _dump(data).encode()
        if not isinstance(data, self._model):
            raise SerializationError(f"it is a {type(data).__name__}, not a {self._model.__name__}")
        return _dumped(adapter, data, refuses_nan=self._refuses_nan)


class JsonSchemaDeserializer(RegistryDeserializer[T], Generic[T]):
    """Reads JSON: the value from ``json``, or an instance of a pydantic model or dataclass, which validates it.

    Without a model the data is validated by its writer's schema; ``validate=False`` trusts it.
    """

    @overload
    def __init__(
        self: JsonSchemaDeserializer[T],
        registry: SchemaRegistryClient,
        model: type[T],
        *,
        validate: bool | None = None,
        **options: Unpack[DeserializerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: JsonSchemaDeserializer[Any],
        registry: SchemaRegistryClient,
        model: None = None,
        *,
        validate: bool | None = None,
        **options: Unpack[DeserializerOptions],
    ) -> None: ...

    def __init__(
        self,
        registry: SchemaRegistryClient,
        model: type[T] | None = None,
        *,
        validate: bool | None = None,
        **options: Unpack[DeserializerOptions],
    ) -> None:
        super().__init__(registry, **options)
        self._adapter: TypeAdapter[Any] | None = None if model is None else TypeAdapter(model)
        self._validates = model is None if validate is None else validate

    async def _decoder_for(self, registered: RegisteredSchema, path: tuple[int, ...]) -> Decoder:
        _check_type(registered)
        check = await _checker(self._registry, registered.schema) if self._validates else None
        adapter = self._adapter

        def decode(data: bytes) -> Any:
            if check is not None:
                found = json.loads(data)
                check(found)
                return found if adapter is None else adapter.validate_json(data)
            return json.loads(data) if adapter is None else adapter.validate_json(data)

        return decode

    async def _name_in(self, registered: RegisteredSchema, path: tuple[int, ...]) -> str | None:
        return _title_of(registered.schema)

    async def _read_form(self, writer: RegisteredSchema, target: RegisteredSchema, path: tuple[int, ...]) -> ReadForm:
        for one in (writer, target):
            _check_type(one)
        check, walk = await _checker_and_walk(self._registry, target.schema)
        adapter, validates = self._adapter, self._validates

        def finish(message: object) -> object:
            if validates:
                check(message)
            return message if adapter is None else adapter.validate_json(_dump(message))

        return ReadForm(json.loads, json.loads, walk, finish)


def _title_of(schema: Schema) -> str | None:
    content = json.loads(schema.text)
    title = content.get("title") if isinstance(content, dict) else None
    return title if isinstance(title, str) else None


def _check_type(registered: RegisteredSchema) -> None:
    if registered.schema.type != "JSON":
        raise DeserializationError(f"schema {registered.id} is of type {registered.schema.type}, not JSON")


def _has_unknown_result(core_schema: object) -> bool:
    """True if the type of a serializer's result is unknown: pydantic's schema then describes the data before it."""
    if isinstance(core_schema, Mapping):
        one = core_schema.get("serialization")
        if isinstance(one, Mapping) and "function" in one and "return_schema" not in one and not _is_pydantics(one):
            return True
        return any(_has_unknown_result(part) for name, part in core_schema.items() if name != "metadata")
    return isinstance(core_schema, (list, tuple)) and any(map(_has_unknown_result, core_schema))


def _is_pydantics(serialization: Mapping[str, Any]) -> bool:
    return str(getattr(serialization["function"], "__module__", "")).startswith("pydantic")


def _dumped(adapter: TypeAdapter[Any], data: object, *, refuses_nan: bool) -> bytes:
    """An instance as JSON: an instance that was changed after its validation is refused, not only warned about."""
    try:
        written = adapter.dump_json(data, by_alias=True, warnings="error")
        if refuses_nan and b"null" in written:
            meant = adapter.dump_python(data, mode="json", by_alias=True)
            for path in _lost_numbers(json.loads(written), meant, "$"):
                raise SerializationError(f"{path} is NaN or infinite: JSON has no such number")
    except PydanticSerializationError:  # its text contains the value
        raise SerializationError(
            f"a field of the {type(data).__name__} is of another type than the model has"
        ) from None
    return written


def _lost_numbers(written: object, meant: object, path: str) -> Iterator[str]:
    """The places of numbers that pydantic has written as null."""
    if isinstance(written, dict) and isinstance(meant, dict):
        for name, one in written.items():
            yield from _lost_numbers(one, meant.get(name), f"{path}.{name}")
    elif isinstance(written, list) and isinstance(meant, (list, tuple)):
        for place, (one, other) in enumerate(zip(written, meant, strict=False)):
            yield from _lost_numbers(one, other, f"{path}[{place}]")
    elif written is None and isinstance(meant, float):
        yield path


def _schema_of(given: object) -> Schema:
    if isinstance(given, Schema):
        if given.type != "JSON":
            raise ConfigurationError(f"the schema is of type {given.type}, not JSON")
        text = given.text
    else:
        text = given if isinstance(given, str) else _dump(given)
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"a JSON Schema is not JSON: {error}") from error
    if not isinstance(content, (dict, bool)):
        raise ConfigurationError(f"a JSON Schema is an object, not {type(content).__name__}")
    _validator_kind(content)
    return given if isinstance(given, Schema) else Schema(text, "JSON")


def _validator_kind(content: Any) -> type[Validator]:
    """The class of validators for the schema's draft. Raises ConfigurationError for a schema that cannot be used."""
    kind = validator_for(content)
    try:
        kind.check_schema(content)
    except SchemaError as error:
        raise ConfigurationError(f"a JSON Schema cannot be used: {error.json_path}: {error.message[:200]}") from None
    return kind


async def _checker(registry: SchemaRegistryClient, schema: Schema) -> Callable[[object], None]:
    """A function that raises SerializationError for data that does not fit the schema."""
    return (await _checker_and_walk(registry, schema))[0]


async def _checker_and_walk(registry: SchemaRegistryClient, schema: Schema) -> tuple[Callable[[object], None], Walk]:
    """As ``_checker``, with the walk through its properties."""
    from .rules.json_fields import json_walk

    content = json.loads(schema.text)
    kind = _validator_kind(content)
    resources: dict[str, JsonValue] = {}
    for reference, found in await referenced(registry, schema):
        resources.setdefault(reference.name, json.loads(found.schema.text))
    known: Registry[Any] = Registry().with_resources(
        (name, Resource.from_contents(one, default_specification=DRAFT7)) for name, one in resources.items()
    )
    validator = kind(content, registry=known)

    def check(data: Any) -> None:
        problems = []
        for one in validator.iter_errors(data):
            problems.append(f"{one.json_path} breaks {one.validator}: {_shown(one.validator_value)}")
            if len(problems) == _MAX_PROBLEMS:
                break
        if problems:
            raise SerializationError(f"it does not fit its JSON Schema: {'; '.join(problems)}")

    root = Resource.from_contents(content, default_specification=DRAFT7)
    return check, json_walk(content, validator, known.resolver_with_root(root))


def _shown(rule: object) -> str:
    """The schema's rule as text; it does not contain the data."""
    text = json.dumps(rule, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
