"""The state of the registry in memory: subjects and their versions, ids, levels of compatibility, modes.

Owns Confluent's rules for all of them, with its codes, and knows no HTTP. Pure. Confluent's counterpart is
``KafkaSchemaRegistry`` with its ``LookupCache``.

Rules: a schema has one id under all its subjects; a deleted version stays until it is deleted for good, and its
number is never given again; the level of a subject is its own, or else the global one, which is BACKWARD at first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...common import JsonObject, JsonValue
from .errors import RegistryRefusal
from .formats import ParsedSchema, parse
from .keys import KeyStore

__all__ = ["SchemaStore", "Version"]

LEVELS: Final = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")


@dataclass
class Version:
    """One version of a subject."""

    subject: str
    number: int
    id: int
    schema: ParsedSchema
    is_deleted: bool = False


@dataclass
class _Subject:
    versions: list[Version] = field(default_factory=list)
    last_number: int = 0
    level: str | None = None
    mode: str | None = None

    def living(self, *, deleted: bool = False) -> list[Version]:
        return [one for one in self.versions if deleted or not one.is_deleted]


class SchemaStore:
    """The subjects of one registry. Every refusal is a ``RegistryRefusal``."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._subjects: dict[str, _Subject] = {}
        self._ids: dict[str, int] = {}
        self._schemas: dict[int, ParsedSchema] = {}
        self.keys = KeyStore(clock)
        self.level = "BACKWARD"
        self.mode = "READWRITE"

    # schemas

    def parse(self, body: JsonValue, *, normalize: bool = False) -> ParsedSchema:
        """The schema of a request's body."""
        text = body.get("schema") if isinstance(body, dict) else None
        if not isinstance(body, dict) or not isinstance(text, str):
            raise RegistryRefusal(42201, "Empty schema")
        references = _references(body.get("references") or [])
        referred = {name: self._referred(subject, version) for name, subject, version in references}
        schema = parse(body.get("schemaType") or "AVRO", text, references, referred, normalize=normalize)
        return schema.with_contract(_object(body, "ruleSet"), _object(body, "metadata"))

    def register(self, subject: str, schema: ParsedSchema, *, id: JsonValue = None) -> Version:  # noqa: A002
        """The version that has this schema: the existing one, or a new one."""
        self._check_writable(subject)
        owner = self._subjects.setdefault(subject, _Subject())
        if owner.living():
            schema = _with_rules_of(owner.living()[-1], schema)
        for version in owner.living():
            if version.schema.identity == schema.identity:
                return version
        self._check_compatible(subject, schema)
        schema_id = self._id_of(schema, id)
        owner.last_number += 1
        version = Version(subject, owner.last_number, schema_id, self._schemas[schema_id])
        owner.versions.append(version)
        return version

    def lookup(self, subject: str, schema: ParsedSchema, *, deleted: bool = False) -> Version:
        """The version that has this schema; its rules count if the request has some."""
        for version in reversed(self.versions(subject, deleted=deleted)):
            if _with_rules_of(version, schema).identity == version.schema.identity:
                return version
        raise RegistryRefusal(40403, "Schema not found")

    def schema(self, schema_id: int) -> ParsedSchema:
        """The schema of an id."""
        try:
            return self._schemas[schema_id]
        except KeyError:
            raise RegistryRefusal(40403, f"Schema {schema_id} not found") from None

    def schema_of_guid(self, guid: str) -> tuple[int, ParsedSchema]:
        """The schema of a GUID, with its id."""
        for schema_id, schema in self._schemas.items():
            if schema.guid == guid:
                return schema_id, schema
        raise RegistryRefusal(40403, f"Schema {guid} not found")

    def uses_of_id(self, schema_id: int) -> list[Version]:
        """The versions that have this id."""
        self.schema(schema_id)
        return [one for owner in self._subjects.values() for one in owner.living() if one.id == schema_id]

    # subjects

    def subjects(self, *, deleted: bool = False, prefix: str = "") -> list[str]:
        """The names of subjects that have versions."""
        names = (name for name, one in self._subjects.items() if one.living(deleted=deleted))
        return sorted(name for name in names if name.startswith(prefix))

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """The versions of a subject, oldest first."""
        found = self._subjects.get(subject, _Subject()).living(deleted=deleted)
        if not found:
            raise RegistryRefusal(40401, f"Subject '{subject}' not found.")
        return found

    def version(self, subject: str, number: str, *, deleted: bool = False) -> Version:
        """One version, by its number, or ``latest`` or -1."""
        wanted = _version_number(number)
        found = self.versions(subject, deleted=deleted)
        if wanted == -1:
            return found[-1]
        for version in found:
            if version.number == wanted:
                return version
        raise RegistryRefusal(40402, f"Version {wanted} not found.")

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions; for good only after they were deleted before."""
        self._check_writable(subject)
        owner = self._subjects.get(subject, _Subject())
        if not owner.versions:
            raise RegistryRefusal(40401, f"Subject '{subject}' not found.")
        living = owner.living()
        if permanent and living:
            raise RegistryRefusal(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")
        if not permanent and not living:
            raise RegistryRefusal(
                40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
            )
        chosen = owner.versions if permanent else living
        for version in chosen:
            self._check_unreferenced(version)
        numbers = [one.number for one in chosen]
        for version in list(chosen):
            self._drop(owner, version, permanent=permanent)
        return numbers

    def delete_version(self, subject: str, number: str, *, permanent: bool = False) -> int:
        """Delete a version; for good only after it was deleted before."""
        self._check_writable(subject)
        version = self.version(subject, number, deleted=permanent)
        if permanent and not version.is_deleted:
            raise RegistryRefusal(
                40407,
                f"Subject '{subject}' Version {version.number} was not deleted first before being permanently deleted",
            )
        self._check_unreferenced(version)
        self._drop(self._subjects[subject], version, permanent=permanent)
        return version.number

    def referenced_by(self, version: Version) -> list[int]:
        """The ids of schemas that refer to a version."""
        wanted = (version.subject, version.number)
        return sorted(
            {
                one.id
                for owner in self._subjects.values()
                for one in owner.living()
                if any(reference[1:] == wanted for reference in one.schema.references)
            }
        )

    # compatibility

    def problems(self, schema: ParsedSchema, against: Sequence[Version], level: str) -> list[str]:
        """The rules that the schema breaks against versions, by a level, in the registry's words; empty if it is
        compatible.
        """
        for version in reversed(against):
            found = []
            if level.startswith(("BACKWARD", "FULL")):
                found += [one.text(is_forward=False) for one in schema.problems_reading(version.schema)]
            if level.startswith(("FORWARD", "FULL")):
                found += [one.text(is_forward=True) for one in version.schema.problems_reading(schema)]
            if found:
                return [
                    *found,
                    f"{{oldSchemaVersion: {version.number}}}",
                    f"{{oldSchema: '{version.schema.text}'}}",
                    f"{{compatibility: '{level}'}}",
                ]
        return []

    def compared(self, subject: str, level: str) -> list[Version]:
        """The versions that a level compares a new schema with."""
        found = self._subjects.get(subject, _Subject()).living()
        return found if level.endswith("_TRANSITIVE") else found[-1:]

    def level_of(self, subject: str) -> str:
        """The level in force."""
        owner = self._subjects.get(subject)
        return owner.level if owner is not None and owner.level else self.level

    def own_level(self, subject: str) -> str:
        """The level that was set for the subject itself."""
        owner = self._subjects.get(subject)
        if owner is None or owner.level is None:
            raise RegistryRefusal(40408, f"Subject '{subject}' does not have subject-level compatibility configured")
        return owner.level

    def set_level(self, level: JsonValue, subject: str | None = None) -> str:
        """Set the level of a subject, or the global one."""
        if not isinstance(level, str) or level not in LEVELS:
            raise RegistryRefusal(
                42203, f"Invalid compatibility level. Valid values are {', '.join(one.lower() for one in LEVELS)}"
            )
        if subject is None:
            self.level = level
        else:
            self._subjects.setdefault(subject, _Subject()).level = level
        return level

    def reset_level(self, subject: str | None = None) -> str:
        """Reset the level of a subject, or the global one; returns the former."""
        if subject is None:
            was, self.level = self.level, "BACKWARD"
        else:
            was = self.own_level(subject)
            self._subjects[subject].level = None
        return was

    # modes

    def mode_of(self, subject: str) -> str:
        """The mode in force."""
        owner = self._subjects.get(subject)
        return owner.mode if owner is not None and owner.mode else self.mode

    def own_mode(self, subject: str) -> str:
        """The mode that was set for the subject itself."""
        owner = self._subjects.get(subject)
        if owner is None or owner.mode is None:
            raise RegistryRefusal(40409, f"Subject '{subject}' does not have subject-level mode configured")
        return owner.mode

    def set_mode(self, mode: JsonValue, subject: str | None = None, *, force: bool = False) -> str:
        """Set the mode of a subject, or the global one. IMPORT is for a subject without schemas, unless forced."""
        if not isinstance(mode, str) or mode not in MODES:
            raise RegistryRefusal(42204, f"Invalid mode. Valid values are {', '.join(one.lower() for one in MODES)}")
        if mode == "IMPORT" and not force and (self.subjects() if subject is None else subject in self.subjects()):
            raise RegistryRefusal(42205, "Cannot import since found existing subjects")
        if subject is None:
            self.mode = mode
        else:
            self._subjects.setdefault(subject, _Subject()).mode = mode
        return mode

    def reset_mode(self, subject: str) -> str:
        """Reset the mode of a subject; returns the former."""
        was = self.own_mode(subject)
        self._subjects[subject].mode = None
        return was

    # internals

    def _referred(self, subject: str, version: int) -> ParsedSchema:
        try:
            return self.version(subject, str(version)).schema
        except RegistryRefusal as error:
            raise RegistryRefusal(42201, f"Invalid schema: no schema reference found: {error.message}") from None

    def _check_writable(self, subject: str) -> None:
        mode = self.mode_of(subject)
        if mode.startswith("READONLY"):
            raise RegistryRefusal(42205, f"Subject {subject} is in read-only mode")

    def _check_compatible(self, subject: str, schema: ParsedSchema) -> None:
        if self.mode_of(subject) == "IMPORT":
            return
        level = self.level_of(subject)
        problems = self.problems(schema, self.compared(subject, level), level)
        if problems:
            raise RegistryRefusal(
                409,
                f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
                f"details: [{', '.join(problems)}]",
            )

    def _check_unreferenced(self, version: Version) -> None:
        if self.referenced_by(version):
            raise RegistryRefusal(
                42206,
                f'One or more references exist to the schema {{subject="{version.subject}",version={version.number}}}',
            )

    def _id_of(self, schema: ParsedSchema, wanted: JsonValue) -> int:
        found = self._ids.get(schema.identity)
        if wanted is not None and type(wanted) is not int:
            raise RegistryRefusal(422, "Unprocessable entity: an id is a number")
        if found is None:
            found = wanted if wanted is not None else max(self._schemas, default=0) + 1
            if found in self._schemas:
                raise RegistryRefusal(42205, f"Overwrite new schema with id {found} is not permitted.")
            self._ids[schema.identity] = found
            self._schemas[found] = schema
        return found

    def _drop(self, owner: _Subject, version: Version, *, permanent: bool) -> None:
        if permanent:
            owner.versions.remove(version)
        else:
            version.is_deleted = True


def _references(given: JsonValue) -> list[tuple[str, str, int]]:
    try:
        if isinstance(given, list):
            return [_reference(one) for one in given]
    except (KeyError, ValueError, OverflowError):
        pass
    raise _no_reference()


def _reference(given: JsonValue) -> tuple[str, str, int]:
    version = given["version"] if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(version, (str, int, float)):
        raise _no_reference()
    return str(given["name"]), str(given["subject"]), int(version)


def _no_reference() -> RegistryRefusal:
    return RegistryRefusal(422, "Unprocessable entity: a reference has a name, a subject and a version")


def _object(body: JsonObject, name: str) -> JsonObject | None:
    found = body.get(name)
    if found is not None and not isinstance(found, dict):
        raise RegistryRefusal(422, f"Unprocessable entity: a {name} is an object")
    return found


def _with_rules_of(version: Version, schema: ParsedSchema) -> ParsedSchema:
    """The schema with a version's data contract, unless it has its own."""
    if schema.rule_set is not None or schema.metadata is not None:
        return schema
    return schema.with_contract(version.schema.rule_set, version.schema.metadata)


def _version_number(number: str) -> int:
    if number in ("latest", "-1"):
        return -1
    if not (number.isascii() and number.isdigit() and 0 < int(number) < 2**31):
        raise RegistryRefusal(
            42202,
            f"The specified version '{number}' is not a valid version id. Allowed values are between [1, 2^31-1] and "
            'the string "latest"',
        )
    return int(number)
