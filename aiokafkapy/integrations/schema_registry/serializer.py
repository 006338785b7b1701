"""The part that the serializers of all formats share: a record's schema id, and its place.

Owns the way from topic to schema id: subject, registration or look-up, latest version, cached for each topic. Each
format adds an ``Encoder`` for a schema. Confluent's counterpart is ``AbstractKafkaSchemaSerDe``.

Rules:

- A serializer is given to the producer as ``key_serializer`` or ``value_serializer``. For a topic's first record it is
  asynchronous, for it asks the registry; from then on it is an ordinary function, without task or await.
- It registers schemas only with ``auto_register_schemas=True``. Confluent's default is the opposite; in production a
  deployment registers a schema, and can be refused, not the first record that comes.
- ``rules`` runs the rules of a schema's data contract; a rule without an executor is refused, unless ``ignore_rules``
  is set: a field to be encrypted would go out in plain. A schema without rules costs nothing extra.
- A topic's schema and keys that are due again are requested once, beside the records, which go on as before until the
  answer comes: only a topic's first records wait. While no registry answers, the last known latest version stays in
  use; after any other failure, such as a new version whose rules cannot be run, no record is written with it.
- A failed request is repeated with the next record: failures are not cached.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar, Unpack

from ...errors import ConfigurationError
from ...producer.records import BytesWithHeaders
from .caching import SingleFlight
from .client import SchemaRegistryClient
from .errors import RegistryUnavailableError, SchemaNotFoundError, SchemaRegistryError, SubjectNotFoundError
from .rules.fields import Walk
from .rules.redaction import redacted
from .rules.running import RuleRun, SchemaRules
from .schemas import RegisteredSchema, Schema
from .subjects import SubjectNameStrategy, topic_name_strategy
from .wire_format import KEY_SCHEMA_ID, VALUE_SCHEMA_ID, guid_header, id_prefix

__all__ = ["Encoder", "RegistrySerializer", "RuledForm", "SerializerOptions", "checked"]

T_contra = TypeVar("T_contra", contravariant=True)

Encoder: TypeAlias = Callable[[Any, bytes], bytes]
"""Writes data behind a prefix; returns both."""


class RuledForm(NamedTuple):
    """A format's writer in steps, between which rules are run."""

    message: Callable[[Any], object]
    """The form of data that rules see."""
    walk: Walk
    write: Callable[[Any], bytes]
    """The bytes of the data after the rules."""


_NO_SUBJECT: Final = (SchemaNotFoundError, SubjectNotFoundError)


class SerializerOptions(TypedDict, total=False):
    """The options of every format's serializer."""

    is_key: bool
    subject_name_strategy: SubjectNameStrategy
    auto_register_schemas: bool
    use_latest_version: bool
    normalize_schemas: bool
    schema_id_in: Literal["prefix", "headers"]
    ignore_rules: bool
    rules: SchemaRules


class _TopicWriter(NamedTuple):
    """Writes a topic's records by one schema, whose id goes into their prefix or headers."""

    encode: Encoder
    prefix: bytes
    headers: tuple[tuple[str, bytes], ...]
    registered: RegisteredSchema
    good_until: float
    """The time at which the encoder has to be made again, because its keys expire."""
    expires: float
    """The time at which the registry is asked again."""


class RegistrySerializer(ABC, Generic[T_contra]):
    """Turns data into bytes that name their schema.

    ``is_key`` is for the producer's ``key_serializer``. ``use_latest_version`` writes by the subject's newest schema
    in place of the serializer's own. ``schema_id_in="headers"`` puts the schema's GUID into a header and leaves the
    data unchanged; the registry must tell GUIDs. ``rules`` runs the rules of data contracts, ``ignore_rules`` ignores
    them.
    """

    wants_topic: bool = True

    def __init__(
        self, registry: SchemaRegistryClient, schema: Schema | None, **options: Unpack[SerializerOptions]
    ) -> None:
        checked(type(self).__name__, options, SerializerOptions)
        self._registry = registry
        self._schema = schema
        self._is_key = options.get("is_key", False)
        self._subject_of = options.get("subject_name_strategy", topic_name_strategy)
        self._registers = options.get("auto_register_schemas", False)
        self._uses_latest = options.get("use_latest_version", False)
        self._normalizes = options.get("normalize_schemas", False)
        self._in_headers = options.get("schema_id_in", "prefix") == "headers"
        self._ignores_rules = options.get("ignore_rules", False)
        self._rules = options.get("rules") or SchemaRules()
        if self._registers and self._uses_latest:
            raise ConfigurationError("auto_register_schemas and use_latest_version exclude each other")
        if schema is None and not self._uses_latest:
            raise ConfigurationError(f"{type(self).__name__} needs a schema, or use_latest_version=True")
        self._writers: dict[str, _TopicWriter] = {}
        self._questions = SingleFlight()  # by topic
        # The function that hides a topic's encrypted data; None without encrypted data
        self._hiding: dict[str, Callable[[Any], object] | None] = {}

    @property
    def is_key(self) -> bool:
        """True if it is for keys."""
        return self._is_key

    @property
    def schema(self) -> Schema | None:
        """The schema that it registers or looks up."""
        return self._schema

    def __call__(self, topic: str, data: T_contra, /) -> bytes | Awaitable[bytes]:
        """The bytes of ``data``; an awaitable of them when the registry has to be asked."""
        writer = self._writers.get(topic)
        if writer is None or writer.expires < math.inf:
            writer = self._usable(topic, writer)
            if writer is None:
                return self._ask_and_encode(topic, data)
        return self._encode(writer, data)

    async def prepare(self, topic: str) -> RegisteredSchema:
        """Ask the registry now, at start-up say, so that ``send_nowait`` works and no record waits; returns the schema.

        Raises SchemaRegistryError.
        """
        return (await self._questions.once(topic, lambda: self._asked_writer(topic))).registered

    def redacted(self, topic: str, data: T_contra) -> object:
        """The data with the encrypted fields of its topic hidden, for a dead letter; None if all of it is
        encrypted.
        """
        if data is None or self._ignores_rules:
            return data
        if topic not in self._hiding:
            # Its schema is not known yet: a serializer with keys may have to encrypt data.
            return None if self._rules.kms else data
        hide = self._hiding[topic]
        return data if hide is None else hide(data)

    # for the formats

    @abstractmethod
    def _record_name(self) -> str | None:
        """The name of the schema's type, for subjects that have it."""

    @abstractmethod
    async def _encoder_for(self, schema: Schema, *, is_own: bool) -> Encoder:
        """The writer of data by this schema. ``is_own`` is False for a version that the registry chose."""

    @abstractmethod
    async def _ruled_form(self, registered: RegisteredSchema, *, is_own: bool) -> RuledForm:
        """As ``_encoder_for``, in steps, for a schema that has rules."""

    def _indexes(self) -> Sequence[int] | None:
        """The path to the message's type, which only Protobuf has."""
        return None

    async def _complete(self, schema: Schema) -> Schema:
        """The schema with its references, which Protobuf finds in its descriptor."""
        return schema

    # internals

    def _usable(self, topic: str, writer: _TopicWriter | None) -> _TopicWriter | None:
        """The topic's entry, or None if a record has to wait. An expired entry is renewed beside the records."""
        # Not the loop's clock: a serializer may be called in a thread.
        if writer is not None and monotonic() < writer.expires:
            return writer
        if self._uses_latest and not self._registry.config.latest_cache_ttl_ms:  # no entry is valid
            return None
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # in a thread: its result is awaited on the loop
            return None
        # At once: after a send_nowait(), which does not wait, the next call finds the answer.
        self._questions.begin(topic, lambda: self._asked_writer(topic))
        return writer

    def _encode(self, writer: _TopicWriter, data: T_contra) -> bytes:
        written = writer.encode(data, writer.prefix)
        return BytesWithHeaders(written, writer.headers) if writer.headers else written

    async def _ask_and_encode(self, topic: str, data: T_contra) -> bytes:
        writer = self._usable(topic, self._writers.get(topic))  # another record may have got the answer since
        if writer is None:
            try:
                writer = await self._questions.once(topic, lambda: self._asked_writer(topic))
            except RegistryUnavailableError:
                writer = self._writers.get(topic)
                if writer is None:
                    raise
        return self._encode(writer, data)

    async def _asked_writer(self, topic: str) -> _TopicWriter:
        """Ask the registry, and recreate the topic's entry if its schema has changed."""
        before = self._writers.get(topic)
        try:
            registered, seconds = await self._registered(topic)
            if before is not None and before.registered == registered and monotonic() < before.good_until:
                writer = before._replace(expires=min(monotonic() + seconds, before.good_until))
            else:
                writer = await self._writer_for(registered, seconds, topic)
        except RegistryUnavailableError:
            if before is not None:
                self._writers[topic] = before._replace(expires=self._next_look())
            raise
        except Exception:
            self._writers.pop(topic, None)
            raise
        self._writers[topic] = writer
        return writer

    def _next_look(self) -> float:
        return monotonic() + self._registry.config.latest_cache_ttl_ms / 1000

    async def _registered(self, topic: str) -> tuple[RegisteredSchema, float]:
        """The topic's schema, and the seconds for which it stays valid."""
        subject = self._subject_of(topic, self._is_key, self._record_name())
        if not isinstance(subject, str) or not subject:
            raise ConfigurationError(f"topic {topic!r}: subject_name_strategy gave {subject!r}, not a subject's name")
        if self._uses_latest or self._schema is None:
            return await self._registry.latest_with_rest(subject)
        schema = await self._complete(self._schema)
        if self._registers:
            return await self._registry.register(subject, schema, normalize=self._normalizes), math.inf
        try:
            return await self._registry.lookup(subject, schema, normalize=self._normalizes), math.inf
        except _NO_SUBJECT as error:
            raise type(error)(
                f"{error}; {_HOW_TO_REGISTER}",
                subject=subject,
                url=error.url,
                status=error.status,
                registry_code=error.registry_code,
                topic=topic,
            ) from None

    async def _writer_for(self, registered: RegisteredSchema, believed: float, topic: str) -> _TopicWriter:
        now = monotonic()  # before the keys: their time runs from there
        encode, seconds = await self._encoder_with_rules(registered, topic)
        good_until = now + seconds
        expires = min(now + believed, good_until)
        indexes = self._indexes()
        if not self._in_headers:
            return _TopicWriter(encode, id_prefix(registered.id, indexes), (), registered, good_until, expires)
        if registered.guid is None:
            raise SchemaRegistryError(
                f"the registry told no GUID for schema {registered.id}, which schema_id_in='headers' needs: "
                "write the id before the data, which is the default, or use a registry that tells them",
                subject=registered.subject,
                schema_id=registered.id,
            )
        name = KEY_SCHEMA_ID if self._is_key else VALUE_SCHEMA_ID
        header = (name, guid_header(registered.guid, indexes))
        return _TopicWriter(encode, b"", (header,), registered, good_until, expires)

    async def _encoder_with_rules(self, registered: RegisteredSchema, topic: str) -> tuple[Encoder, float]:
        """The encoder, and the seconds for which it stays valid."""
        is_own, rule_set = not self._uses_latest, registered.schema.rule_set
        domain = () if rule_set is None or self._ignores_rules else rule_set.domain("WRITE")
        encoding = () if rule_set is None or self._ignores_rules else rule_set.encoding("WRITE")
        if not domain and not encoding:
            self._hiding[topic] = None
            return await self._encoder_for(registered.schema, is_own=is_own), math.inf
        subject, schema = registered.subject or "", registered.schema
        form = await self._ruled_form(registered, is_own=is_own)
        self._hiding[topic] = _hiding(form, schema)  # before a rule or a key can be missing
        self._rules.check((*domain, *encoding), "WRITE", subject)
        for_data = await self._rules.prepare(domain, "WRITE", subject, schema, self._registry)
        for_bytes = await self._rules.prepare(encoding, "WRITE", subject, schema, self._registry)
        return _ruled_encoder(form, for_data, for_bytes), min(for_data.seconds, for_bytes.seconds)


def _ruled_encoder(form: RuledForm, for_data: RuleRun, for_bytes: RuleRun) -> Encoder:
    to_message, walk, write = form

    def encode(data: object, prefix: bytes) -> bytes:
        written: bytes = for_bytes(write(for_data(to_message(data), walk)))
        return prefix + written

    return encode


def _hiding(form: RuledForm, schema: Schema) -> Callable[[Any], object] | None:
    """A function that hides the fields that the schema's rules encrypt, in any mode, disabled rules included."""
    rule_set = schema.rule_set
    if rule_set is None:
        return None
    if any(rule.type.upper() == "ENCRYPT_PAYLOAD" for rule in rule_set.encoding_rules):
        return lambda data: None
    encrypted = [rule.tags for rule in rule_set.domain_rules if rule.type.upper() == "ENCRYPT"]
    if not encrypted:
        return None
    tags: frozenset[str] = frozenset().union(*encrypted) if all(encrypted) else frozenset()

    def hide(data: object) -> object:
        try:
            return redacted(form.walk, form.message(data), tags, schema.metadata)
        except Exception:  # data that does not fit its schema cannot be traversed
            return None

    return hide


_HOW_TO_REGISTER: Final = (
    "register it when you deploy (SchemaRegistryClient.register), or give the serializer auto_register_schemas=True"
)


def checked(user: str, options: Mapping[str, object], known: type) -> None:
    """Raise ConfigurationError for an unknown option, or an invalid value."""
    names = known.__annotations__
    for name, value in options.items():
        if name not in names:
            raise ConfigurationError(f"{user} has no option {name!r}: it has {', '.join(sorted(names))}")
        if name == "schema_id_in" and value not in ("prefix", "headers"):
            raise ConfigurationError(f"schema_id_in={value!r}: write 'prefix' or 'headers'")
        if name == "subject_name_strategy" and not callable(value):
            raise ConfigurationError(f"subject_name_strategy is a {type(value).__name__}, not a function")
        if name == "rules" and not isinstance(value, SchemaRules):
            raise ConfigurationError(f"rules is a {type(value).__name__}, not SchemaRules")
        if name not in ("schema_id_in", "subject_name_strategy", "rules") and not isinstance(value, bool):
            raise ConfigurationError(f"{name}={value!r}: write True or False")
