"""The schemas that a schema refers to, for every format.

Owns the order in which they are read, and the limit of their number. Knows no format.

Rule: each reference is read once, after the references of its own schema, so that a format finds all that it needs in
earlier ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import ConfigurationError
from .schemas import RegisteredSchema, Schema, SchemaReference

if TYPE_CHECKING:
    from .client import SchemaRegistryClient

__all__ = ["MAX_REFERENCES", "referenced"]

MAX_REFERENCES: Final = 1_000


async def referenced(
    registry: SchemaRegistryClient,
    schema: Schema,
    *,
    format: str | None = None,  # noqa: A002
) -> list[tuple[SchemaReference, RegisteredSchema]]:
    """All references of a schema, direct or not, with their schemas in the registry's ``format``.

    Raises ConfigurationError for more than ``MAX_REFERENCES``, and SchemaRegistryError.
    """
    seen: set[SchemaReference] = set()
    found: list[tuple[SchemaReference, RegisteredSchema]] = []

    async def read(references: tuple[SchemaReference, ...]) -> None:
        for reference in references:
            if reference in seen:
                continue
            seen.add(reference)
            if len(seen) > MAX_REFERENCES:
                raise ConfigurationError(f"a schema refers to more than {MAX_REFERENCES} others")
            registered = await registry.version(reference.subject, reference.version, format=format)
            await read(registered.schema.references)
            found.append((reference, registered))

    await read(schema.references)
    return found
