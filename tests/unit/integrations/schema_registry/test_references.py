"""The schemas that a schema refers to: their order, and the number that may be read."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.integrations.schema_registry import RegisteredSchema, Schema, SchemaReference
from aiokafkapy.integrations.schema_registry import references as module
from aiokafkapy.integrations.schema_registry.references import referenced


class Versions:
    """A registry in which each subject has one version, which refers to others."""

    def __init__(self, uses: dict[str, str]) -> None:
        self._uses = uses
        self.asked: list[tuple[str, str | None]] = []

    async def version(self, subject: str, version: int, *, format: str | None = None) -> RegisteredSchema:  # noqa: A002
        self.asked.append((subject, format))
        return RegisteredSchema(1, using(self._uses.get(subject, "")), subject, version)


def using(subjects: str) -> Schema:
    return Schema("{}", references=tuple(SchemaReference(f"{one}.file", one, 1) for one in subjects))


async def names(registry: Any, subjects: str, **options: Any) -> str:
    return "".join(one.subject for one, _ in await referenced(registry, using(subjects), **options))


async def test_references_come_after_those_of_their_own_schemas_and_once() -> None:
    registry = Versions({"a": "bc", "b": "d", "c": "d"})
    assert await names(registry, "ad", format="serialized") == "dbca"
    assert sorted(registry.asked) == [(one, "serialized") for one in "abcd"]


async def test_a_schema_under_two_names_is_there_by_both() -> None:
    schema = Schema("{}", references=(SchemaReference("one", "a", 1), SchemaReference("two", "a", 1)))
    registry: Any = Versions({})
    assert [one.name for one, _ in await referenced(registry, schema)] == ["one", "two"]


async def test_references_in_a_circle_end() -> None:
    assert await names(Versions({"a": "b", "b": "a"}), "a") == "ba"


async def test_too_many_references_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REFERENCES", 3)
    assert await names(Versions({"a": "bc"}), "a") == "bca"
    with pytest.raises(ConfigurationError, match="more than 3 others"):
        await names(Versions({"a": "bcd"}), "a")
