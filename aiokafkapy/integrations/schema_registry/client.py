"""``SchemaRegistryClient``: schemas by id and subject, cached, each requested once.

Owns the calls of the REST API that producers and readers need, and the caches: however many records wait for a schema,
there is one request for it. Knows no format of data. Confluent's counterpart has the same name.

Rules:

- Immutable answers are cached for good (a schema of an id, the id of a schema under a subject); the latest version
  of a subject for ``latest_cache_ttl_ms``; a failure not at all. Caches are bounded.
- A cancelled caller does not cancel other callers' answer; ``close()`` ends the requests without callers.
- It may be made anywhere, and belongs to the event loop of its first question.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self, Unpack
from urllib.parse import quote

from ...common import JsonObject, JsonValue
from .caching import RecentCache, SingleFlight
from .config import RegistryConfig, RegistryOptions, make_config
from .errors import IncompatibleSchemaError, SchemaRegistryError
from .schemas import RegisteredSchema, Schema
from .transport import About, Question, RegistryTransport

__all__ = ["Compatibility", "CompatibilityLevel", "SchemaRegistryClient"]

CompatibilityLevel = Literal[
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"
]


@dataclass(frozen=True, slots=True)
class Compatibility:
    """The result of a compatibility check, and the registry's reasons against it, which name the fields."""

    is_compatible: bool
    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.is_compatible


class SchemaRegistryClient:
    """Asks a schema registry, over HTTP.

    ``SchemaRegistryClient("https://host:8081", basic_auth_user_info="user:password")`` takes the options of
    ``RegistryConfig``, or a ready ``config``. Use it in ``async with``, or call ``close()``.
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        config: RegistryConfig | None = None,
        **options: Unpack[RegistryOptions],
    ) -> None:
        self.config: Final = make_config(url, config, options)
        self._transport = RegistryTransport(self.config)
        self._flights = SingleFlight()
        limit = self.config.max_cached_schemas
        self._by_id: RecentCache[RegisteredSchema] = RecentCache(limit)
        self._ids: RecentCache[RegisteredSchema] = RecentCache(limit)
        self._versions: RecentCache[RegisteredSchema] = RecentCache(limit)
        self._latest: RecentCache[tuple[float, RegisteredSchema]] = RecentCache(limit)

    @property
    def requests(self) -> int:
        """HTTP requests so far, all attempts included."""
        return self._transport.requests

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the requests under way, whose callers get an IllegalStateError, and close the connections. Idempotent."""
        await self._flights.close()
        await self._transport.close()

    # schemas

    async def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Register a schema under a subject; a registered one keeps its id.

        Raises IncompatibleSchemaError with the fields that break the subject's compatibility, and InvalidSchemaError.
        """
        return await self._identified("register", subject, schema, normalize=normalize)

    async def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """The id and version of a registered schema. Raises SubjectNotFoundError, SchemaNotFoundError."""
        return await self._identified("lookup", subject, schema, normalize=normalize)

    async def schema_by_id(self, schema_id: int, *, format: str | None = None) -> RegisteredSchema:  # noqa: A002
        """The schema of an id. ``format="serialized"`` gives Protobuf's as a file descriptor. Raises
        SchemaNotFoundError.
        """
        path = f"schemas/ids/{schema_id}"
        return await self._by_number(path, schema_id, format)

    async def schema_by_guid(self, guid: str, *, format: str | None = None) -> RegisteredSchema:  # noqa: A002
        """The schema of a GUID, as a record's header has it. Raises SchemaNotFoundError."""
        return await self._by_number(f"schemas/guids/{quote(guid, safe='')}", guid, format)

    async def latest(self, subject: str) -> RegisteredSchema:
        """The subject's newest version, at most ``latest_cache_ttl_ms`` old. Raises SubjectNotFoundError."""
        return (await self.latest_with_rest(subject))[0]

    async def latest_with_rest(self, subject: str) -> tuple[RegisteredSchema, float]:
        """As ``latest``, with the seconds for which it stays valid."""
        loop = asyncio.get_running_loop()
        known = self._latest.get(subject)
        if known is None or loop.time() >= known[0]:

            async def ask() -> tuple[float, RegisteredSchema]:
                found = await self._version(subject, "latest")
                answer = (loop.time() + self.config.latest_cache_ttl_ms / 1000, found)
                self._latest.put(subject, answer)
                return answer

            known = await self._flights.once(("latest", subject), ask)
        return known[1], max(known[0] - loop.time(), 0.0)

    async def version(
        self,
        subject: str,
        version: int,
        *,
        format: str | None = None,  # noqa: A002
        deleted: bool = False,
    ) -> RegisteredSchema:
        """A version of a subject, with ``deleted`` also a deleted one. Raises SubjectNotFoundError,
        VersionNotFoundError.
        """
        key = ("version", subject, version, format, deleted)
        known = self._versions.get(key)
        if known is not None:
            return known

        async def ask() -> RegisteredSchema:
            found = await self._version(subject, version, format, deleted=deleted)
            self._versions.put(key, found)
            return found

        return await self._flights.once(key, ask)

    # subjects

    async def subjects(self) -> list[str]:
        """The names of all subjects."""
        return _strings(await self.ask("GET", "subjects", "listing the subjects"))

    async def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The numbers of a subject's versions, with ``deleted`` also of deleted ones. Raises SubjectNotFoundError."""
        doing = f"listing the versions of subject {subject!r}"
        query = {"deleted": "true"} if deleted else None
        return _numbers(await self.ask("GET", f"{_path(subject)}/versions", doing, query=query, subject=subject))

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete a subject; returns its versions. ``permanent`` is for a subject that was deleted before."""
        doing = f"deleting subject {subject!r}"
        query = {"permanent": "true"} if permanent else None
        self._forget(subject)
        return _numbers(await self.ask("DELETE", _path(subject), doing, query=query, subject=subject))

    # compatibility

    async def compatibility(self, subject: str | None = None) -> CompatibilityLevel:
        """The level in force for a subject, or the global one."""
        path, about = _config_path(subject)
        query = None if subject is None else {"defaultToGlobal": "true"}
        found: Any = _field(
            await self.ask("GET", path, f"reading the compatibility of {about}", query=query, subject=subject),
            "compatibilityLevel",
        )
        level: CompatibilityLevel = found
        return level

    async def set_compatibility(self, level: CompatibilityLevel, subject: str | None = None) -> None:
        """Set the level of a subject, or the global one."""
        path, about = _config_path(subject)
        doing = f"setting the compatibility of {about}"
        await self.ask("PUT", path, doing, body={"compatibility": level}, subject=subject)

    async def check_compatibility(
        self, subject: str, schema: Schema, *, version: int | Literal["latest", "all"] = "all"
    ) -> Compatibility:
        """Check whether a schema could be registered: against the versions that the subject's level asks for,
        or one.
        """
        path = f"compatibility/{_path(subject)}/versions" + ("" if version == "all" else f"/{version}")
        doing = f"checking a schema's compatibility with subject {subject!r}"
        body = schema.to_json()
        told = await self.ask("POST", path, doing, query={"verbose": "true"}, body=body, subject=subject)
        problems = told.get("messages") if isinstance(told, dict) else None
        return Compatibility(bool(_field(told, "is_compatible")), tuple(_strings(problems or [])))

    # for the rules, whose keys are in the same service

    async def ask(self, method: str, path: str, doing: str, **about: Unpack[About]) -> JsonValue:
        """The JSON of an answer to any question of the REST API; ``doing`` describes it in words. The answer is not
        cached.

        Each call makes a separate request, which ``close()`` ends too. Raises SchemaRegistryError.
        """
        return await self._flights.once(object(), lambda: self._ask(method, path, doing, **about))

    # internals

    async def _identified(self, kind: str, subject: str, schema: Schema, *, normalize: bool) -> RegisteredSchema:
        key = (subject, schema, normalize)
        known = self._ids.get(key)
        if known is not None and (kind == "register" or known.version is not None):
            return known

        async def ask() -> RegisteredSchema:
            found = await self._ask_for_id(kind, subject, schema, normalize=normalize)
            self._ids.put(key, found)
            return found

        return await self._flights.once((kind, *key), ask)

    async def _ask_for_id(self, kind: str, subject: str, schema: Schema, *, normalize: bool) -> RegisteredSchema:
        is_new = kind == "register"
        path = f"{_path(subject)}/versions" if is_new else _path(subject)
        doing = f"{'registering' if is_new else 'looking up'} a schema under subject {subject!r}"
        query = {"normalize": "true"} if normalize else None
        try:
            told = _object(await self._ask("POST", path, doing, query=query, body=schema.to_json(), subject=subject))
        except IncompatibleSchemaError as error:
            raise await self._with_reasons(error, subject, schema) from None
        contracted = _with_contract_of(schema, told)
        return RegisteredSchema(_number(told, "id"), contracted, subject, *_version_and_guid(told))

    async def _with_reasons(self, error: IncompatibleSchemaError, subject: str, schema: Schema) -> SchemaRegistryError:
        """The refusal, with the registry's reasons for fields, if it gives any."""
        try:
            found = await self.check_compatibility(subject, schema)
        except SchemaRegistryError:
            return error
        if not found.problems:
            return error
        better = IncompatibleSchemaError(
            f"registering a schema under subject {subject!r}: the registry {error.url} answered {error.status}, it is "
            f"not compatible: {'; '.join(found.problems)[:4_000]}",
            subject=subject,
            url=error.url,
            status=error.status,
            registry_code=error.registry_code,
        )
        better.problems = found.problems
        return better

    async def _by_number(self, path: str, number: int | str, format: str | None) -> RegisteredSchema:  # noqa: A002
        key = (number, format)
        known = self._by_id.get(key)
        if known is not None:
            return known

        async def ask() -> RegisteredSchema:
            name = "id" if isinstance(number, int) else "GUID"
            query = {"format": format} if format else None
            doing = f"reading the schema of {name} {number}"
            told = _object(await self._ask("GET", path, doing, query=query, schema_id=number))
            schema = _schema_of(told)
            schema_id = number if isinstance(number, int) else _number({"id": 0, **told}, "id")
            found = RegisteredSchema(schema_id, schema, guid=_version_and_guid(told)[1])
            self._by_id.put(key, found)
            return found

        return await self._flights.once(("id", *key), ask)

    async def _version(
        self,
        subject: str,
        version: int | str,
        format: str | None = None,  # noqa: A002
        *,
        deleted: bool = False,
    ) -> RegisteredSchema:
        doing = f"reading version {version} of subject {subject!r}"
        query = ({"format": format} if format else {}) | ({"deleted": "true"} if deleted else {}) or None
        path = f"{_path(subject)}/versions/{version}"
        told = _object(await self._ask("GET", path, doing, query=query, subject=subject))
        schema = _schema_of(told)
        return RegisteredSchema(_number(told, "id"), schema, subject, *_version_and_guid(told))

    async def _ask(self, method: str, path: str, doing: str, **about: Unpack[About]) -> JsonValue:
        return await self._transport.ask(Question(method, path, doing, **about))

    def _forget(self, subject: str) -> None:
        self._latest.drop(lambda key: key == subject)
        self._ids.drop(lambda key: isinstance(key, tuple) and key[0] == subject)
        self._versions.drop(lambda key: isinstance(key, tuple) and key[1] == subject)


def _path(subject: str) -> str:
    return f"subjects/{quote(subject, safe='')}"


def _config_path(subject: str | None) -> tuple[str, str]:
    if subject is None:
        return "config", "all subjects"
    return f"config/{quote(subject, safe='')}", f"subject {subject!r}"


def _object(told: JsonValue) -> JsonObject:
    if not isinstance(told, dict):
        raise SchemaRegistryError("the registry's answer is not an object: is it a schema registry?")
    return told


def _field(told: JsonValue, name: str) -> JsonValue:
    if not isinstance(told, dict) or name not in told:
        raise SchemaRegistryError(f"the registry's answer has no {name!r}: is it a schema registry?")
    return told[name]


def _number(told: JsonValue, name: str) -> int:
    return _numbers([_field(told, name)])[0]


def _numbers(told: JsonValue) -> list[int]:
    numbers = [one for one in told if type(one) is int] if isinstance(told, list) else []
    if numbers != told:
        raise SchemaRegistryError("the registry's answer has no number where one is needed: is it a schema registry?")
    return numbers


def _strings(told: JsonValue) -> list[str]:
    if not isinstance(told, list):
        raise SchemaRegistryError("the registry's answer is not a list: is it a schema registry?")
    return [str(one) for one in told]


def _version_and_guid(told: JsonObject) -> tuple[int | None, str | None]:
    """A field that a registry may leave out; an invalid GUID is left out too."""
    version, guid = told.get("version"), told.get("guid")
    return version if type(version) is int else None, guid if isinstance(guid, str) and _is_guid(guid) else None


def _is_guid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _schema_of(told: JsonObject) -> Schema:
    try:
        return Schema.from_json(told)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SchemaRegistryError(f"the registry's answer is not a schema: {type(error).__name__}: {error}") from error


def _with_contract_of(schema: Schema, told: JsonObject) -> Schema:
    try:
        return schema.with_contract_of(told)
    except (TypeError, ValueError, AttributeError) as error:
        raise SchemaRegistryError(f"the registry's answer has no rules that can be read: {error}") from error
