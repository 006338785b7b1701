"""Migrations: the rules that lead from the writer's version of a message to the reader's.

Owns the list of the versions between. Confluent's counterparts are ``Migration`` and ``getMigrations`` of its
deserializers.

Rules: upwards each version's own ``UPGRADE`` rules are run, in the order of versions; downwards the ``DOWNGRADE``
rules of each version left behind, from the newest; a version without such rules is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....errors import KafkaError
from ..data_contracts import RunMode
from ..errors import SchemaRegistryError
from ..schemas import RegisteredSchema
from .running import RuleRun, SchemaRules

if TYPE_CHECKING:
    from ..client import SchemaRegistryClient

__all__ = ["Migration", "migrations_between"]


@dataclass(frozen=True, slots=True)
class Migration:
    """A step to the next version, or to the one before."""

    version: int
    run: RuleRun


async def migrations_between(
    rules: SchemaRules,
    registry: SchemaRegistryClient,
    subject: str,
    writer: RegisteredSchema,
    target: RegisteredSchema,
) -> tuple[Migration, ...]:
    """The steps from the writer's version of a subject to the target's. Raises SchemaRegistryError."""
    first = await _version_of(registry, subject, writer)
    last = target.version or 0
    if first == last:
        return ()
    mode: RunMode = "UPGRADE" if first < last else "DOWNGRADE"
    # The rules of the versions that are entered, or left.
    numbers = range(first + 1, last + 1) if mode == "UPGRADE" else range(first, last, -1)
    steps = []
    for number in numbers:
        found = await _version(registry, subject, number)
        rule_set = None if found is None else found.schema.rule_set
        chosen = () if rule_set is None else rule_set.migration(mode)
        if found is not None and chosen:
            steps.append(Migration(number, await rules.prepare(chosen, mode, subject, found.schema, registry)))
    return tuple(steps)


async def _version_of(registry: SchemaRegistryClient, subject: str, writer: RegisteredSchema) -> int:
    """The writer's version of the subject: found by the schema's id, for its text may be in another form."""
    for number in await registry.versions(subject, deleted=True):
        found = await _version(registry, subject, number)
        if found is not None and found.id == writer.id:
            return number
    raise SchemaRegistryError(
        f"schema {writer.id} is not a version of subject {subject!r}, so that it cannot be migrated to the newest",
        subject=subject,
        schema_id=writer.id,
    )


async def _version(registry: SchemaRegistryClient, subject: str, number: int) -> RegisteredSchema | None:
    try:
        return await registry.version(subject, number, deleted=True)
    except KafkaError as error:
        if getattr(error, "status", None) == 404:  # deleted for good
            return None
        raise
