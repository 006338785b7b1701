"""The part that the deserializers of all formats share: a record's writer schema.

Owns the way from a record's bytes and headers to its writer's schema, and the cached decoders.
A format adds a ``Decoder``. Confluent's counterpart is ``AbstractKafkaSchemaSerDe``.

Rules: None stays None (a tombstone); the id in a header counts before the id in the first bytes, as in Confluent's;
bytes that cannot be read are a ``DeserializationError`` that shows none of them. The writer's schema's rules for
readers are run, or, with ``use_latest_version``, those of the subject's newest schema after its migrations; a schema
without rules costs nothing extra. An unknown schema is requested once, for all waiting records. While no registry
answers, the last known newest version stays in use.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypedDict, TypeVar, Unpack

from ...common import ConsumedRecord
from ...errors import ConfigurationError, KafkaError, SerializationError
from ...producer.records import ProducerRecord
from .caching import RecentCache, SingleFlight
from .client import SchemaRegistryClient
from .data_contracts import RuleSet
from .errors import RegistryUnavailableError, RuleFailedError
from .rules.fields import Walk
from .rules.migrations import Migration, migrations_between
from .rules.running import KeyNeeded, RuleRun, SchemaRules
from .schemas import RegisteredSchema
from .serializer import checked
from .subjects import SubjectNameStrategy, topic_name_strategy
from .wire_format import SchemaId, find_schema_id

__all__ = ["Decoder", "DeserializationError", "DeserializerOptions", "ReadForm", "RegistryDeserializer"]

T_co = TypeVar("T_co", covariant=True)

Decoder: TypeAlias = Callable[[bytes], Any]

_MAX_DECODERS: Final = 1_000
_MAX_KEYS: Final = 100
"""The most keys that one message may need, each of a separate version."""
_RULE_NAME: Final = "__rule.name"
"""The header of a dead letter that names the refusing rule."""


class DeserializerOptions(TypedDict, total=False):
    """The options of every format's deserializer."""

    is_key: bool
    subject_name_strategy: SubjectNameStrategy
    use_latest_version: bool
    ignore_rules: bool
    rules: SchemaRules


class ReadForm(NamedTuple):
    """A format's reader in steps, between which rules are run."""

    read: Callable[[bytes], object]
    """The message in the form of the schema whose rules are run."""
    read_as_written: Callable[[bytes], object]
    """The message in its writer's form, for migrations."""
    walk: Walk
    finish: Callable[[Any], Any]
    """The data after the rules."""


@dataclass(frozen=True, slots=True)
class _RuledDecoder:
    """Reads bytes in steps. ``expires`` is the time at which it has to be recreated."""

    form: ReadForm
    for_bytes: RuleRun
    migrations: tuple[Migration, ...]
    for_data: RuleRun
    expires: float

    def decode(self, data: bytes, skipped: str | None) -> Any:
        """The data. Raises KeyNeeded."""
        form = self.form
        data = self.for_bytes(data, skipped=skipped)
        if self.migrations:
            message = form.read_as_written(data)
            for migration in self.migrations:
                message = migration.run(message, skipped=skipped)
        else:
            message = form.read(data)
        return form.finish(self.for_data(message, form.walk, skipped=skipped))


class DeserializationError(KafkaError, ValueError):
    """A record's bytes cannot be read with the schema that they name."""


class RegistryDeserializer(ABC, Generic[T_co]):
    """Turns bytes that name their schema into data.

    ``await deserializer(data, headers)``, or ``await deserializer.of(record)``. ``is_key`` for the keys of records.
    ``use_latest_version`` migrates data of older and newer versions to the subject's newest, by its migration rules.
    ``rules`` runs the rules of data contracts; ``ignore_rules`` runs none.
    """

    wants_topic: bool = True

    def __init__(self, registry: SchemaRegistryClient, **options: Unpack[DeserializerOptions]) -> None:
        checked(type(self).__name__, options, DeserializerOptions)
        self._registry = registry
        self._is_key = options.get("is_key", False)
        self._subject_of = options.get("subject_name_strategy", topic_name_strategy)
        self._uses_latest = options.get("use_latest_version", False)
        self._ignores_rules = options.get("ignore_rules", False)
        self._rules = options.get("rules") or SchemaRules()
        # By schema; if rules are run, also by topic
        self._decoders: RecentCache[Decoder | _RuledDecoder] = RecentCache(_MAX_DECODERS)
        self._names: RecentCache[tuple[str | None]] = RecentCache(_MAX_DECODERS)
        # The newest version of a subject, and the time until which it is valid
        self._latest: dict[str, tuple[float, RegisteredSchema]] = {}
        self._questions = SingleFlight()

    async def __call__(
        self,
        data: bytes | None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        *,
        topic: str | None = None,
    ) -> T_co | None:
        """The data of a key or value; None for None. ``topic`` is needed if the schema has rules for readers.

        Raises WireFormatError, SchemaRegistryError, DeserializationError.
        """
        if data is None:
            return None
        headers = tuple(headers)
        found, rest = find_schema_id(data, headers, is_key=self._is_key)
        path, payload = self._path_and_payload(found, rest)
        decode = await self._decoder(found, path, topic)
        try:
            decoded: T_co
            if isinstance(decode, _RuledDecoder):
                decoded = await self._decoded(decode, bytes(payload), headers)
            else:
                decoded = decode(bytes(payload))
        except RuleFailedError as error:
            self._refuse(topic, data, headers, error)
            raise DeserializationError(self._about(found, str(error))) from error
        except SerializationError as error:  # from the check against the writer's schema: it names field and rule
            raise DeserializationError(self._about(found, str(error))) from None
        except KafkaError:
            raise
        except Exception as error:
            # The cause's own text may contain the data.
            raise DeserializationError(self._about(found, type(error).__name__)) from error
        return decoded

    async def of(self, record: ConsumedRecord) -> T_co | None:
        """The data of a record that was read: its key with ``is_key``, else its value."""
        return await self(record.key if self._is_key else record.value, record.headers, topic=record.topic)

    # for the formats

    @abstractmethod
    async def _decoder_for(self, registered: RegisteredSchema, path: tuple[int, ...]) -> Decoder:
        """The reader of data of this writer's schema. Raises DeserializationError for a schema of another format."""

    @abstractmethod
    async def _read_form(self, writer: RegisteredSchema, target: RegisteredSchema, path: tuple[int, ...]) -> ReadForm:
        """As ``_decoder_for``, in steps. ``target`` has the rules: the writer's schema, or the subject's newest."""

    @abstractmethod
    async def _name_in(self, registered: RegisteredSchema, path: tuple[int, ...]) -> str | None:
        """The name of the schema's type, for subjects that have it."""

    def _path_and_payload(self, found: SchemaId, rest: memoryview) -> tuple[tuple[int, ...], memoryview]:
        """The path to the message's type, which only Protobuf has, and the data."""
        return (), rest

    _format: str | None = None
    """The form of a schema that is requested from the registry."""

    # internals

    def _about(self, found: SchemaId, problem: str) -> str:
        return f"a {'key' if self._is_key else 'value'} written with schema {found.name} cannot be read: {problem}"

    async def _registered(self, found: SchemaId) -> RegisteredSchema:
        if found.guid is not None:
            return await self._registry.schema_by_guid(found.guid, format=self._format)
        return await self._registry.schema_by_id(found.id or 0, format=self._format)

    async def _decoder(self, found: SchemaId, path: tuple[int, ...], topic: str | None) -> Decoder | _RuledDecoder:
        latest = await self._newest(found, path, topic) if self._uses_latest else None
        one = (found.name, path, None if latest is None else latest.id)
        for key in (one, (*one, topic)):
            decode = self._decoders.get(key)
            if decode is not None and not (isinstance(decode, _RuledDecoder) and _is_over(decode)):
                return decode

        async def make() -> Decoder | _RuledDecoder:
            writer = await self._registered(found)
            ruled = await self._ruled_decoder(found, writer, latest, path, topic)
            if ruled is not None:
                self._decoders.put((*one, topic), ruled)
                return ruled
            decode = self._decoders.get(one)  # another topic's record may have got it
            if decode is None:
                decode = await self._decoder_for(writer, path)
                self._decoders.put(one, decode)
            return decode

        return await self._questions.once((*one, topic), make)

    async def _newest(self, found: SchemaId, path: tuple[int, ...], topic: str | None) -> RegisteredSchema:
        if topic is None:
            raise ConfigurationError("use_latest_version needs the record's topic: call of(record), or give topic=")
        subject = await self._subject(topic, found, await self._registered(found), path)
        expires, newest = self._latest.get(subject, (-math.inf, None))
        if newest is not None and asyncio.get_running_loop().time() < expires:
            return newest
        return await self._questions.once(subject, lambda: self._asked_newest(subject))

    async def _asked_newest(self, subject: str) -> RegisteredSchema:
        now = asyncio.get_running_loop().time
        try:
            newest, seconds = await self._registry.latest_with_rest(subject)
            expires = now() + seconds
            if self._format is not None:
                newest = await self._registry.version(subject, newest.version or 0, format=self._format)
        except RegistryUnavailableError:
            if subject not in self._latest:
                raise
            newest = self._latest[subject][1]
            expires = now() + self._registry.config.latest_cache_ttl_ms / 1000
        self._latest[subject] = (expires, newest)
        return newest

    async def _subject(self, topic: str, found: SchemaId, writer: RegisteredSchema, path: tuple[int, ...]) -> str:
        name = None
        if self._subject_of is not topic_name_strategy:  # other records can use it
            known = self._names.get((found.name, path))
            if known is None:
                known = (await self._name_in(writer, path),)
                self._names.put((found.name, path), known)
            (name,) = known
        subject = self._subject_of(topic, self._is_key, name)
        if not isinstance(subject, str) or not subject:
            raise ConfigurationError(f"topic {topic!r}: subject_name_strategy gave {subject!r}, not a subject's name")
        return subject

    async def _ruled_decoder(
        self,
        found: SchemaId,
        writer: RegisteredSchema,
        latest: RegisteredSchema | None,
        path: tuple[int, ...],
        topic: str | None,
    ) -> _RuledDecoder | None:
        """A decoder that runs rules; None without rules to run."""
        target = writer if latest is None or latest.id == writer.id else latest
        encoding = self._rule_set(writer).encoding("READ")
        domain = self._rule_set(target).domain("READ")
        if target is writer and not encoding and not domain:
            return None
        if topic is None:
            raise ConfigurationError(
                f"schema {writer.id} has rules for readers, which need the record's topic: call of(record), give "
                "topic=, or say ignore_rules=True"
            )
        subject = await self._subject(topic, found, writer, path)
        migrations: tuple[Migration, ...] = ()
        if target is not writer and not self._ignores_rules:
            migrations = await migrations_between(self._rules, self._registry, subject, writer, target)
        for_bytes = await self._rules.prepare(encoding, "READ", subject, writer.schema, self._registry)
        for_data = await self._rules.prepare(domain, "READ", subject, target.schema, self._registry)
        form = await self._read_form(writer, target, path)
        seconds = min(for_bytes.seconds, for_data.seconds, *(one.run.seconds for one in migrations))
        expires = math.inf if seconds is math.inf else asyncio.get_running_loop().time() + seconds
        return _RuledDecoder(form, for_bytes, migrations, for_data, expires)

    def _rule_set(self, registered: RegisteredSchema) -> RuleSet:
        return RuleSet() if self._ignores_rules else registered.schema.rule_set or RuleSet()

    async def _decoded(
        self, decoder: _RuledDecoder, payload: bytes, headers: tuple[tuple[str, bytes | None], ...]
    ) -> Any:
        names = [value for name, value in headers if name == _RULE_NAME and value is not None]
        skipped = names[-1].decode(errors="replace") if names else None
        for _ in range(_MAX_KEYS):
            try:
                return decoder.decode(payload, skipped)
            except KeyNeeded as needed:
                await needed.fetch()
        raise DeserializationError(f"the message needs more than {_MAX_KEYS} keys")

    def _refuse(
        self, topic: str | None, data: bytes, headers: tuple[tuple[str, bytes | None], ...], error: RuleFailedError
    ) -> None:
        """A dead letter for a record that a rule refused, with the received bytes."""
        sink = self._rules.dead_letters
        if sink is None or not error.is_dead_letter or topic is None:
            return
        key, value = (data, None) if self._is_key else (None, data)
        sink.refuse(ProducerRecord(topic, value, key, headers=headers), error)


def _is_over(decoder: _RuledDecoder) -> bool:
    return decoder.expires is not math.inf and asyncio.get_running_loop().time() >= decoder.expires
