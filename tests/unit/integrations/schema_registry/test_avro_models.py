"""aiokafkapy.integrations.schema_registry.avro_models: schemas of models, and values there and back by fastavro."""

from __future__ import annotations

import datetime
import io
import typing
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import fastavro
import pytest
from pydantic import BaseModel, Field

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.integrations.schema_registry.avro_models import AvroModel, avro_schema

NOON = datetime.datetime(2026, 11, 24, 12, 0, 0, 123456, datetime.UTC)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    name: str
    children: list[Node] = []
    colour: Colour = Colour.RED


class Everything(BaseModel):
    number: int
    share: float
    flag: bool
    text: str = Field(serialization_alias="theText")
    raw: bytes
    at: datetime.datetime
    day: datetime.date
    clock: datetime.time
    uuid: UUID
    price: Annotated[Decimal, Field(max_digits=9, decimal_places=2)]
    colour: Colour
    size: Literal["S", "L"]
    tags: set[str]
    parts: tuple[int, ...]
    counts: Mapping[str, int]
    maybe: Optional[str] = "something"  # noqa: UP045
    none: int | None = None
    tree: Node


@dataclass
class Point:
    x: float
    y: float = 0.0
    names: list[str] = field(default_factory=list)


EVERYTHING: dict[str, Any] = {
    "number": 2**62,
    "share": 0.5,
    "flag": True,
    "text": "ä",
    "raw": b"\x00\xff",
    "at": NOON,
    "day": NOON.date(),
    "clock": datetime.time(1, 2, 3, 4),
    "uuid": UUID(int=7),
    "price": Decimal("3.50"),
    "colour": Colour.BLUE,
    "size": "L",
    "tags": {"a"},
    "parts": (1, 2),
    "counts": {"a": 1},
    "tree": Node(name="root", children=[Node(name="leaf")]),
}


def there_and_back(model: AvroModel, instance: Any) -> Any:
    schema = fastavro.parse_schema(model.schema)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, model.to_avro(instance))
    out.seek(0)
    return model.from_avro(fastavro.schemaless_reader(out, schema, None))


def test_every_type_goes_there_and_back() -> None:
    Everything.model_config["populate_by_name"] = True

    class Aliased(Everything):
        text: str

    instance = Aliased(**EVERYTHING)
    assert there_and_back(AvroModel(Aliased), instance) == instance


def test_a_dataclass_goes_there_and_back() -> None:
    assert there_and_back(AvroModel(Point), Point(1.5, names=["a"])) == Point(1.5, names=["a"])


def test_a_fields_name_is_its_alias() -> None:
    names = [one["name"] for one in avro_schema(Everything)["fields"]]
    assert "theText" in names
    assert "text" not in names


def test_a_type_that_comes_again_is_named() -> None:
    schema = avro_schema(Node, namespace="shop")
    assert schema == {
        "type": "record",
        "name": "Node",
        "namespace": "shop",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "children", "type": {"type": "array", "items": "shop.Node"}, "default": []},
            {
                "name": "colour",
                "type": {"type": "enum", "name": "Colour", "symbols": ["red", "blue"], "namespace": "shop"},
                "default": "red",
            },
        ],
    }


def test_a_defaults_branch_comes_first_in_a_union() -> None:
    fields = {one["name"]: one for one in avro_schema(Everything)["fields"]}
    assert fields["maybe"] == {"name": "maybe", "type": ["string", "null"], "default": "something"}
    assert fields["none"] == {"name": "none", "type": ["null", "long"], "default": None}


class Shapeless(BaseModel):
    anything: Any


class Undigited(BaseModel):
    price: Decimal


class Fixed(BaseModel):
    pair: tuple[int, str]


class Twice(BaseModel):
    either: list[int] | list[str]


class Spoken(Enum):
    HELLO = "hello world"


class Symbol(BaseModel):
    spoken: Spoken


def test_a_default_that_avro_cannot_write_is_none() -> None:
    class Large(BaseModel):
        endless: float = float("inf")
        no_number: float = float("nan")
        huge: float = 10**400
        long: int = 2**63
        fits: int = 2**63 - 1

    assert [one.get("default") for one in avro_schema(Large)["fields"]] == [None, None, None, None, 2**63 - 1]


def test_a_value_of_another_type_is_left_to_avro_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert AvroModel(Amount).to_avro(Amount.model_construct(cents="secret")) == {"cents": "secret"}


class Amount(BaseModel):
    cents: int


class Bare(BaseModel):
    items: typing.Sequence  # type: ignore[type-arg]


class BareMap(BaseModel):
    items: typing.Mapping  # type: ignore[type-arg]


@dataclass
class Undefined:
    item: NotThere  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (Bare, "Bare.items: Avro has no type"),
        (BareMap, "BareMap.items: Avro has no type"),
        (Undefined, "Undefined cannot be read: name 'NotThere' is not defined"),
        (Shapeless, "Shapeless.anything: Avro has no type"),
        (Undigited, "Undigited.price: a Decimal needs its digits"),
        (Fixed, "Fixed.pair"),
        (Twice, "Twice.either: a union in Avro has each kind of type once"),
        (Symbol, "Symbol.spoken: the values of Spoken are no symbols"),
        (int, "neither a pydantic model nor a dataclass"),
    ],
)
def test_a_type_that_avro_lacks_is_refused_at_once(model: type, wanted: str) -> None:
    with pytest.raises(ConfigurationError, match=wanted):
        avro_schema(model)
