"""aiokafkapy.integrations.schema_registry.json_schemas: numbers that JSON lacks, and serializers of a model's own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, field_serializer, model_serializer

from aiokafkapy.errors import SerializationError
from aiokafkapy.integrations.schema_registry import JsonSchemaSerializer, SchemaRules
from tests.unit.integrations.schema_registry.fakes import MINE, Executor, fake_registry
from tests.unit.virtual_time import on_virtual_time


class Point(BaseModel):
    x: float
    note: str | None = None


class Track(BaseModel):
    points: list[Point] = []
    weights: dict[int, float | None] = Field(default={}, serialization_alias="w")


@dataclass
class Reading:
    value: float | None


async def written(data: Any, **options: Any) -> bytes:
    registry, transport = fake_registry()
    transport.seconds = 0.0
    if "rules" in options:
        transport.body["ruleSet"] = MINE
    serializer: JsonSchemaSerializer[Any] = JsonSchemaSerializer(registry, type(data), **options)
    found = serializer("orders", data)
    return (found if isinstance(found, bytes) else await found)[5:]


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (Point(x=math.nan), "$.x"),
        (Track(points=[Point(x=1), Point(x=-math.inf)]), "$.points[1].x"),
        (Track(weights={1: None, 2: math.inf}), "$.w.2"),
        (Reading(math.nan), "$.value"),
    ],
)
@on_virtual_time
async def test_a_number_that_json_lacks_is_refused_with_its_place(data: Any, where: str) -> None:
    for options in ({}, {"validate": False}, {"rules": SchemaRules(executors={"MINE": Executor()})}):
        with pytest.raises(SerializationError) as caught:
            await written(data, **options)
        assert str(caught.value) == f"{where} is NaN or infinite: JSON has no such number"


async def test_a_null_that_is_meant_is_written() -> None:
    track = Track(points=[Point(x=1.5)], weights={1: None})
    assert await written(track) == b'{"points":[{"x":1.5,"note":null}],"w":{"1":null}}'
    assert await written(Reading(None)) == b'{"value":null}'


@pytest.mark.parametrize(("form", "wanted"), [("constants", b"NaN"), ("strings", b'"NaN"'), ("null", b"null")])
async def test_a_model_may_say_how_such_a_number_is_written(form: Any, wanted: bytes) -> None:
    class Odd(Point):
        model_config = ConfigDict(ser_json_inf_nan=form)

    assert await written(Odd(x=math.nan)) == b'{"x":' + wanted + b',"note":null}'


class Loud(BaseModel):
    n: int

    @field_serializer("n")
    def shout(self, n: int):  # type: ignore[no-untyped-def]
        return f"{n}!"


class Hidden(BaseModel):
    n: int

    @model_serializer
    def hide(self):  # type: ignore[no-untyped-def]
        return {"x": self.n}


class Around(BaseModel):
    many: list[Loud] = [Loud(n=1)]


class Doubled(BaseModel):
    n: Annotated[int, PlainSerializer(lambda n: [n, n])] = 1


class Text(BaseModel):
    n: int

    @field_serializer("n")
    def as_text(self, n: int) -> str:
        return str(n)


class Place(BaseModel):
    path: Path = Path("/")
    address: IPv4Address = IPv4Address("127.0.0.1")
    shy: Annotated[int, PlainSerializer(lambda n: -n)] = 1


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (Loud(n=1), r"\$.n breaks type"),
        (Hidden(n=1), r"\$ breaks required"),
        (Around(), r"\$.many\[0\].n breaks type"),
        (Doubled(), r"\$.n breaks type"),
    ],
)
async def test_the_result_of_a_models_serializer_has_to_fit(data: Any, where: str) -> None:
    """Every record was refused by every reader, and nothing was said when they were written."""
    with pytest.raises(SerializationError, match=where):
        await written(data)


async def test_a_serializer_that_declares_its_result_is_trusted() -> None:
    assert await written(Text(n=1)) == b'{"n":"1"}'
    assert await written(Place()) == b'{"path":"/","address":"127.0.0.1","shy":-1}'
