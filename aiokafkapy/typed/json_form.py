"""How a typed topic's values are JSON: by pydantic, or by msgspec where the type is made of its structs.

Owns which of the two writes and reads a type. It knows no topic and no record. Kafka has no counterpart.

Rules:

- Written JSON can be read as the type. pydantic refuses a value of another one; msgspec writes any, so its JSON is read
  once before it is sent.
- msgspec is imported for a struct only, which its owner has imported before.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

from pydantic import TypeAdapter

__all__ = ["JsonForm", "json_form"]


class JsonForm(NamedTuple):
    """Two functions of one type: a value to JSON, and JSON to a value. Both raise for a value that is not of the
    type.
    """

    write: Callable[[object], bytes]
    read: Callable[[bytes], Any]


def json_form(model: object) -> JsonForm:
    """The form of a type. Raises the error of pydantic or msgspec for a type that it does not know.

    ``write`` and ``read`` raise pydantic's errors, or msgspec's ``ValidationError`` and ``DecodeError``.
    """
    return _msgspec_form(model) if _has_struct(model) else _pydantic_form(model)


# internals


def _has_struct(model: object) -> bool:
    """True for a struct of msgspec, and for a type with one in its brackets: ``list[Order]``, ``Order | Refund``."""
    if isinstance(model, type) and hasattr(model, "__struct_fields__"):
        return True
    return any(_has_struct(argument) for argument in get_args(model))


def _pydantic_form(model: Any) -> JsonForm:
    adapter: TypeAdapter[Any] = TypeAdapter(model)

    def write(value: object) -> bytes:
        # By default pydantic warns of a value of another type, and writes it.
        return adapter.dump_json(value, by_alias=True, warnings="error")

    return JsonForm(write, adapter.validate_json)


def _msgspec_form(model: object) -> JsonForm:
    # Of any: without stubs where it is not installed.
    msgspec_json: Any = importlib.import_module("msgspec.json")
    encode = msgspec_json.Encoder().encode
    decode = msgspec_json.Decoder(model).decode

    def write(value: object) -> bytes:
        data: bytes = encode(value)
        decode(data)
        return data

    return JsonForm(write, decode)
