"""aiokafkapy.typed.json_form: the library that writes and reads a type; neither library writes data that it could not
read.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer
from pydantic_core import PydanticSerializationError

from aiokafkapy.typed.json_form import json_form


class Order(msgspec.Struct, tag=True):
    number: int
    customer: str = "ann"


class Refund(msgspec.Struct, tag=True, rename="camel"):
    order_number: int


class Model(BaseModel):
    number: int = Field(alias="orderNumber")


@dataclass
class Click:
    page: str


@pytest.mark.parametrize(
    ("model", "value", "data"),
    [
        (Order, Order(7), b'{"type":"Order","number":7,"customer":"ann"}'),
        (Order | Refund, Refund(8), b'{"type":"Refund","orderNumber":8}'),
        (list[Order], [Order(7)], b'[{"type":"Order","number":7,"customer":"ann"}]'),
        (dict[str, list[Refund]], {"a": [Refund(8)]}, b'{"a":[{"type":"Refund","orderNumber":8}]}'),
        (Model, Model(orderNumber=7), b'{"orderNumber":7}'),
        (Click, Click("/"), b'{"page":"/"}'),
        (list[Click], [Click("/")], b'[{"page":"/"}]'),
    ],
)
def test_a_value_is_written_and_read_back(model: Any, value: Any, data: bytes) -> None:
    form = json_form(model)
    assert form.write(value) == data
    assert form.read(data) == value


def test_a_struct_with_a_field_of_another_type_is_not_written() -> None:
    wrong: Any = "seven"
    with pytest.raises(msgspec.ValidationError, match=r"Expected `int`, got `str` - at `\$.number`"):
        json_form(Order).write(Order(wrong))
    with pytest.raises(msgspec.ValidationError, match=r"\$\[1\].number"):
        json_form(list[Order]).write([Order(7), Order(wrong)])
    with pytest.raises(PydanticSerializationError):
        json_form(Click).write(Click(7))  # type: ignore[arg-type]


class Measure(BaseModel):
    value: float
    note: str | None = None
    last: float | None = None


class Words(Measure):
    model_config = ConfigDict(ser_json_inf_nan="strings")


class Constants(Measure):
    model_config = ConfigDict(ser_json_inf_nan="constants")


class Handled(BaseModel):
    value: float | None

    @field_serializer("value", when_used="json")
    def _none_for_nan(self, value: float | None) -> float | None:
        return None if value is None or math.isnan(value) else value


class Single(BaseModel):
    values: Iterable[int | None]  # read once


class Sample(msgspec.Struct):
    value: float
    note: str | None = None
    last: float | None = None


class Written(Sample):
    raw: msgspec.Raw = msgspec.Raw(b"[null]")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("model", "make"),
    [
        (float, lambda number: number),
        (list[float | None], lambda number: [None, number]),
        (dict[str, float], lambda number: {"null": number}),
        (Measure, lambda number: Measure(value=number)),
        (Measure, lambda number: Measure(value=1, note="null", last=number)),
        (Sample, lambda number: Sample(number)),
        (Sample, lambda number: Sample(1, "null", number)),
    ],
)
def test_a_number_that_json_has_not_is_not_written_as_null(number: float, model: Any, make: Any) -> None:
    with pytest.raises(
        (ValueError, msgspec.ValidationError), match=r"not numbers in JSON|Expected `float`, got `null`"
    ):
        json_form(model).write(make(number))


@pytest.mark.parametrize(
    ("model", "value", "data"),
    [
        (Measure, Measure(value=1, note="null"), b'{"value":1.0,"note":"null","last":null}'),
        (Words, Words(value=math.nan, last=-math.inf), b'{"value":"NaN","note":null,"last":"-Infinity"}'),
        (Constants, Constants(value=math.nan), b'{"value":NaN,"note":null,"last":null}'),
        (Handled, Handled(value=math.nan), b'{"value":null}'),
        (Sample, Sample(1.5, "null"), b'{"value":1.5,"note":"null","last":null}'),
        (Written, Written(1.5), b'{"value":1.5,"note":null,"last":null,"raw":[null]}'),
        (Single, Single(values=iter([1, None])), b'{"values":[1,null]}'),
    ],
)
def test_null_is_written_where_it_is_meant(model: Any, value: Any, data: bytes) -> None:
    form = json_form(model)
    assert form.write(value) == data
    form.read(data)


def test_data_of_another_type_is_not_read() -> None:
    with pytest.raises(msgspec.ValidationError):
        json_form(Order).read(b'{"type":"Order"}')
    with pytest.raises(msgspec.DecodeError):
        json_form(Order).read(b"{")
    with pytest.raises(ValidationError):
        json_form(Click).read(b"{}")


def test_a_type_that_neither_knows_is_an_error() -> None:
    with pytest.raises(TypeError, match="more than one"):
        json_form(Order | dict[str, int] | Click)
    with pytest.raises(Exception, match="schema"):
        json_form(type("Unknown", (), {}))


def test_msgspec_is_imported_for_structs_alone() -> None:
    program = """
import sys
from dataclasses import dataclass
from aiokafkapy.typed.json_form import json_form

@dataclass
class Click:
    page: str

json_form(list[Click]).write([Click("/")])
print("msgspec" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
