"""The console's decoder: no list of records waits for a registry that is away, or for unknown ids."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import Any

import pytest

import aiokafkapy.integrations.schema_registry as formats
from aiokafkapy.console.registry import COST_OF_MISS, MISSING, MOST_WAITING, PAUSE, RegistryDecoder
from aiokafkapy.integrations.schema_registry import (
    RegistryUnavailableError,
    SchemaNotFoundError,
    SchemaRegistryError,
    SubjectNotFoundError,
)

from ..virtual_time import elapsed, on_virtual_time


class FakeRegistry:
    """Answers after ``takes`` seconds: with the error of an id, or of all, else with a JSON schema."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.asked: list[int | str] = []
        self.errors: dict[int | str, Exception] = {}
        self.error: Exception | None = None
        self.takes = 0.0

    def __call__(self, url: str, **options: Any) -> FakeRegistry:
        self.options = options
        return self

    async def schema_by_id(self, schema_id: int | str) -> Any:
        self.asked.append(schema_id)
        await elapsed(self.takes)
        error = self.error or self.errors.get(schema_id)
        if error is not None:
            raise error
        return SimpleNamespace(schema=SimpleNamespace(type="JSON"))

    schema_by_guid = schema_by_id


class FakeDeserializer:
    """A deserializer of any JSON schema; ``error`` is that of a schema that it refers to."""

    def __init__(self, client: object, **options: object) -> None:
        self.error: Exception | None = None

    async def __call__(self, data: bytes, headers: object) -> object:
        if self.error is not None:
            raise self.error
        return {"size": len(data)}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    registry = FakeRegistry()
    monkeypatch.setattr(formats, "SchemaRegistryClient", registry)
    monkeypatch.setattr(formats, "JsonSchemaDeserializer", FakeDeserializer)
    return registry


def data(schema_id: int) -> bytes:
    return struct.pack(">bI", 0, schema_id) + b"{}"


async def failures(decoder: RegistryDecoder, *schema_ids: int) -> list[str]:
    """The texts of the errors; empty for data that was decoded."""
    found = []
    for schema_id in schema_ids:
        try:
            await decoder(data(schema_id), (), is_key=False)
        except SchemaRegistryError as error:
            found.append(str(error))
        else:
            found.append("")
    return found


@on_virtual_time
async def test_a_registry_that_is_away_is_waited_for_once_and_asked_again_later(registry: FakeRegistry) -> None:
    decoder = RegistryDecoder("http://registry")
    assert await failures(decoder, 1) == [""]
    registry.error = RegistryUnavailableError("away")
    registry.takes = 3.0
    began = asyncio.get_running_loop().time()
    assert await failures(decoder, *range(2, 500)) == ["away"] * 498
    assert asyncio.get_running_loop().time() == began + 3.0
    assert registry.asked == [1, 2]
    registry.error, registry.takes = None, 0.0
    assert await failures(decoder, 1, 2) == ["", "away"]  # one that is known works all the time
    await elapsed(PAUSE)
    assert await failures(decoder, 2, 3) == ["", ""]


def test_options_are_the_users_where_given(registry: FakeRegistry) -> None:
    RegistryDecoder("http://registry", timeout_ms=9_000, http_headers={"a": "b"})
    assert registry.options == {"timeout_ms": 9_000, "request_timeout_ms": 1_500, "http_headers": {"a": "b"}}


@on_virtual_time
async def test_an_id_that_is_not_there_is_asked_for_once_a_minute(registry: FakeRegistry) -> None:
    decoder = RegistryDecoder("http://registry")
    registry.errors = {7: SchemaNotFoundError("there is no schema 7")}
    assert set(await failures(decoder, *[7] * 200)) == {"there is no schema 7"}
    assert registry.asked == [7]
    registry.errors = {}
    await elapsed(MISSING)
    assert await failures(decoder, 7) == [""]


@pytest.mark.slow
@on_virtual_time
async def test_binary_data_that_looks_like_ids_causes_no_flood_of_questions(registry: FakeRegistry) -> None:
    decoder = RegistryDecoder("http://registry")
    assert await failures(decoder, 1) == [""]
    registry.errors = {schema_id: SchemaNotFoundError("not there") for schema_id in range(1_000, 90_000)}
    found = await failures(decoder, *range(1_000, 9_000))
    asked = int(MOST_WAITING / COST_OF_MISS)
    assert len(registry.asked) == pytest.approx(asked, abs=2)
    assert found[-1].startswith("not asked for: ids that are new have")
    assert await failures(decoder, 1) == [""]
    await elapsed(PAUSE)
    await failures(decoder, *range(10_000, 90_000))
    assert len(registry.asked) == pytest.approx(2 * asked, abs=4)
    assert len(decoder._questions._failed) < 10_000


@on_virtual_time
async def test_a_slow_registry_is_asked_for_some_ids_at_a_time(registry: FakeRegistry) -> None:
    decoder = RegistryDecoder("http://registry")
    registry.takes = 1.0
    began = asyncio.get_running_loop().time()
    found = await failures(decoder, *range(1, 100))
    assert asyncio.get_running_loop().time() == began + 2.0
    assert (found[:2], found[2].startswith("not asked for")) == (["", ""], True)
    await elapsed(PAUSE)
    assert (await failures(decoder, *range(1, 100)))[2:4] == ["", ""]


@on_virtual_time
async def test_a_reference_that_is_not_there_is_a_failure_of_the_schema(registry: FakeRegistry) -> None:
    decoder = RegistryDecoder("http://registry")
    assert await failures(decoder, 1) == [""]
    (deserializer,) = decoder._deserializers.values()
    deserializer.error = SubjectNotFoundError("of a reference")  # type: ignore[attr-defined]
    assert await failures(decoder, 1, 1) == ["of a reference"] * 2
    deserializer.error = None  # type: ignore[attr-defined]
    assert await failures(decoder, 1) == ["of a reference"]
    await elapsed(MISSING)
    assert await failures(decoder, 1) == [""]
