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
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, create_model, model_serializer

from aiokafkapy.errors import ConfigurationError, SerializationError
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
    names = model.has_choice
    read = fastavro.schemaless_reader(out, schema, None, return_record_name=names, return_record_name_override=names)
    return model.from_avro(read)


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


class Cat(BaseModel):
    name: str


class Dog(BaseModel):
    name: str


class Puppy(Dog):
    pass


@dataclass
class Fish:
    name: str


class Owner(BaseModel):
    pet: Dog | Cat | Fish | None = Field(serialization_alias="thePet", validation_alias="thePet")
    pets: list[Cat | Dog] = []
    by_name: dict[str, Cat | Dog] = {}


@pytest.mark.parametrize("pet", [Cat(name="a"), Dog(name="a"), Fish("a"), None])
def test_a_union_of_models_keeps_the_class(pet: Any) -> None:
    pets: list[Cat | Dog] = [Dog(name="a"), Cat(name="b")]
    owner = Owner(thePet=pet, pets=pets, by_name={"d": Dog(name="d"), "c": Cat(name="c")})  # type: ignore[call-arg]
    found = there_and_back(AvroModel(Owner), owner)
    assert found == owner
    assert type(found.pet) is type(pet)


def test_an_instance_of_a_subclass_is_written_as_the_branch_that_it_is_of() -> None:
    found = there_and_back(AvroModel(Owner), Owner(thePet=None, pets=[Puppy(name="rex")]))  # type: ignore[call-arg]
    assert found.pets == [Dog(name="rex")]


class Number(BaseModel):
    either: float | int
    other: float | int = 1.5


@pytest.mark.parametrize("number", [2**53 + 1, 0.5, 1.0, -3])
def test_a_whole_number_keeps_its_digits_beside_a_float(number: float) -> None:
    found = there_and_back(AvroModel(Number), Number(either=number, other=number))
    assert (found.either, found.other) == (number, number)
    assert type(found.either) is type(number)


class Price(BaseModel):
    maybe: Annotated[Decimal, Field(max_digits=6, decimal_places=2)] | None
    outside: Decimal | None = Field(None, max_digits=6, decimal_places=2)
    many: list[Annotated[Decimal, Field(max_digits=6, decimal_places=2)]]
    named: dict[str, Annotated[Decimal, Field(max_digits=6, decimal_places=2)]]


@dataclass
class PriceTag:
    price: Annotated[Decimal, Field(max_digits=6, decimal_places=2)]


def test_a_decimals_digits_are_found_wherever_the_type_stands() -> None:
    one = Decimal("1.50")
    price = Price(maybe=one, outside=one, many=[one], named={"a": one})
    assert there_and_back(AvroModel(Price), price) == price
    assert there_and_back(AvroModel(PriceTag), PriceTag(one)) == PriceTag(one)


class Inner(BaseModel):
    __avro_namespace__ = "com.inner"
    colour: Colour


class Outer(BaseModel):
    __avro_namespace__ = "com.outer"
    first: Inner
    second: Inner
    own: Cat
    colour: Colour


def test_a_nested_models_namespace_is_its_own_or_that_around_it() -> None:
    first, second, own, colour = (one["type"] for one in avro_schema(Outer)["fields"])
    assert (first["namespace"], second, own["namespace"]) == ("com.inner", "com.inner.Inner", "com.outer")
    assert colour == "com.inner.Colour"
    assert avro_schema(Outer, namespace="a")["namespace"] == "a"
    inner = Inner(colour=Colour.RED)
    model = Outer(first=inner, second=inner, own=Cat(name="a"), colour=Colour.BLUE)
    assert there_and_back(AvroModel(Outer), model) == model


def test_an_instance_of_another_model_is_refused() -> None:
    for other in (Cat(name="rex"), {"name": "rex"}, None):
        with pytest.raises(SerializationError, match=f"it is a {type(other).__name__}, not a Dog"):
            AvroModel(Dog).to_avro(other)
    assert AvroModel(Dog).to_avro(Puppy(name="rex")) == {"name": "rex"}


class Shade(Enum):
    RED = "red"


def ambiguous(kind: Any) -> type:
    return create_model("Ambiguous", field=(kind, ...))


@pytest.mark.parametrize(
    "kind",
    [
        datetime.date | datetime.datetime,
        datetime.date | int,
        datetime.date | str | None,
        Colour | str,
        Colour | Shade,
        dict[str, str] | Cat,
    ],
)
def test_a_union_whose_branches_have_a_value_in_common_is_refused(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Ambiguous.field: .* no value may fit two"):
        avro_schema(ambiguous(kind))


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
        (Symbol, "Symbol.spoken: the values of Spoken are not symbols"),
        (int, "neither a pydantic model nor a dataclass"),
    ],
)
def test_a_type_that_avro_lacks_is_refused_at_once(model: type, wanted: str) -> None:
    with pytest.raises(ConfigurationError, match=wanted):
        avro_schema(model)


class Account(BaseModel):
    name: str
    password: str = Field("default", exclude=True)
    limit: int = Field(exclude=True)

    @computed_field(alias="inCents")
    def cents(self) -> list[int]:
        return [self.limit * 100]


def test_excluded_fields_are_left_out_and_computed_ones_are_fields() -> None:
    """The default was written in the place of the excluded field, and one without a default refused each record."""
    assert avro_schema(Account)["fields"] == [
        {"name": "name", "type": "string"},
        {"name": "inCents", "type": {"type": "array", "items": "long"}},
    ]
    data = AvroModel(Account).to_avro(Account(name="ann", password="secret", limit=5))
    assert data == {"name": "ann", "inCents": [500]}


class Listed(RootModel[list[int]]):
    pass


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Own(BaseModel):
    n: int

    @model_serializer
    def own(self) -> dict[str, int]:
        return {"x": self.n}


@pytest.mark.parametrize("model", [Listed, Open, Own])
def test_a_model_whose_data_is_not_its_fields_is_refused(model: type) -> None:
    """Such models were taken, and then every record was refused, or written without a part of it."""
    for one in (model, create_model("Around", field=(list[model], ...))):  # type: ignore[valid-type]
        with pytest.raises(ConfigurationError, match=f"^{model.__name__} is a .*to_dict="):
            avro_schema(one)
