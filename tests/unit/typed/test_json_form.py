"""aiokafkapy.typed.json_form: which library writes and reads a type, and that neither writes data that it could not
read."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, Field, ValidationError
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
