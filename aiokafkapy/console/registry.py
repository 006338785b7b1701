"""Decodes records with a schema registry, for the console: Avro, Protobuf and JSON Schema, each by its own
deserializer.

Owns the choice of the deserializer by the schema's type, the conversion of its result to JSON, and the time that a
page waits for a registry. ``integrations.schema_registry`` has the registry's client and the formats, and is imported
with a registry.

Rules, because a list of records must not wait for each of them, and any binary data may look like a schema's id:

- failures are cached: a missing id for a minute, a registry that is away as a whole for ``PAUSE``;
- for new ids the registry has ``MOST_WAITING`` seconds of each ``PAUSE``; known ids always work.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..common import Headers, JsonValue
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..integrations.schema_registry.deserializer import RegistryDeserializer

__all__ = ["RegistryDecoder"]

PAUSE: Final = 10.0
"""Seconds without a request to a registry that is away, or has used up its time."""
MOST_WAITING: Final = 2.0
MISSING: Final = 60.0
"""Seconds for which a missing id is cached as missing."""
COST_OF_MISS: Final = 0.05
"""The least seconds that an id counts for: with a registry that answers at once, binary data would cause a flood of
requests.
"""
MOST_FAILED: Final = 10_000
"""The most failed ids that are cached, the latest ones."""
_LIMITS: Final = {"request_timeout_ms": 1_500, "timeout_ms": 3_000}
"""Time-outs of one lookup, shorter than a producer's because a person is waiting."""

SchemaKey: TypeAlias = int | str
"""A schema's id or GUID."""


class RegistryDecoder:
    """A ``Decoder`` over a registry. Rules of data contracts are not run: the record is shown as it was written."""

    def __init__(self, url: str, **options: Any) -> None:
        """``options`` are the registry client's. Raises ConfigurationError if the extra is missing."""
        try:
            from ..integrations.schema_registry import SchemaRegistryClient

            self._client = SchemaRegistryClient(url, **{**_LIMITS, **options})
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"a schema registry needs {error.name}: pip install 'aiokafkapy[schema-registry]'"
            ) from error
        self._deserializers: dict[tuple[str, bool], RegistryDeserializer[object]] = {}
        self._known: set[SchemaKey] = set()
        self._questions = _Questions()

    async def close(self) -> None:
        """Close the registry's connections."""
        await self._client.close()

    async def __call__(self, data: bytes, headers: Headers, *, is_key: bool) -> tuple[str, JsonValue]:
        """The schema's type in lower case, and the data. Raises the errors of deserializers, and SchemaRegistryError
        without a request after a recent failure.
        """
        from ..integrations.schema_registry import SchemaRegistryError
        from ..integrations.schema_registry.wire_format import find_schema_id

        found, _ = find_schema_id(data, headers, is_key=is_key)
        key: SchemaKey = found.id or 0 if found.guid is None else found.guid
        loop = asyncio.get_running_loop()
        began = loop.time()
        if key not in self._known:
            self._questions.check(key, began)
        try:
            kind = await self._kind(key)
            deserializer = self._deserializers.get((kind, is_key))
            if deserializer is None:
                deserializer = self._deserializers[kind, is_key] = self._new(kind, is_key=is_key)
            decoded = await deserializer(data, headers)
        except SchemaRegistryError as error:  # an error of the schema, or of one that it refers to
            self._known.discard(key)
            self._questions.note_failure(key, error, loop.time())
            raise
        finally:
            if key not in self._known:
                self._questions.note_time(loop.time() - began)
        self._known.add(key)
        return kind.lower(), _plain(decoded)

    async def _kind(self, key: SchemaKey) -> str:
        ask = self._client.schema_by_id(key) if isinstance(key, int) else self._client.schema_by_guid(key)
        return (await ask).schema.type

    def _new(self, kind: str, *, is_key: bool) -> RegistryDeserializer[object]:
        from ..integrations import schema_registry as formats

        if kind == "AVRO":
            return formats.AvroDeserializer(self._client, is_key=is_key, ignore_rules=True)
        if kind == "PROTOBUF":
            return formats.ProtobufDeserializer(self._client, is_key=is_key, ignore_rules=True)
        return formats.JsonSchemaDeserializer(self._client, is_key=is_key, ignore_rules=True, validate=False)


class _Questions:
    """Decides which ids may be requested: pure, with ``now`` from its user."""

    def __init__(self) -> None:
        from ..integrations.schema_registry.caching import RecentCache

        # The time until which a failure counts, and its reason: by id, and of the registry as a whole
        self._failed: RecentCache[tuple[float, str]] = RecentCache(MOST_FAILED)
        self._away: tuple[float, str] = (0.0, "")
        self._window_ends = 0.0
        self._waited = 0.0

    def check(self, key: SchemaKey, now: float) -> None:
        """Raise SchemaRegistryError for an id that may not be requested now."""
        from ..integrations.schema_registry import SchemaRegistryError

        if now >= self._window_ends:
            self._window_ends, self._waited = now + PAUSE, 0.0
        for until, reason in (self._failed.get(key) or (0.0, ""), self._away):
            if now < until:
                raise SchemaRegistryError(reason)
        if self._waited >= MOST_WAITING:
            raise SchemaRegistryError(f"not asked for: ids that are new have {MOST_WAITING:g} s of {PAUSE:g} s")

    def note_failure(self, key: SchemaKey, error: Exception, now: float) -> None:
        """The request for this id failed."""
        from ..integrations.schema_registry import RegistryAuthenticationError, RegistryUnavailableError

        if isinstance(error, RegistryUnavailableError | RegistryAuthenticationError):
            self._away = now + PAUSE, str(error)
            return
        self._failed.put(key, (now + MISSING, str(error)))

    def note_time(self, seconds: float) -> None:
        """A new id took so long."""
        self._waited += max(seconds, COST_OF_MISS)


def _plain(value: Any) -> JsonValue:
    """The data as JSON's types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.standard_b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if hasattr(value, "DESCRIPTOR"):
        from google.protobuf.json_format import MessageToDict

        return MessageToDict(value, preserving_proto_field_name=True)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
