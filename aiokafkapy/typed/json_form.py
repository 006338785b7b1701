"""The JSON form of a typed topic's values: by pydantic, or by msgspec if the type is made of its structs.

Owns the choice of the library for a type. It knows no topic and no record. Kafka has no counterpart.

Rules:

- Written JSON can be read as the type. pydantic refuses a value of another type; msgspec writes any value, so its JSON
  is read once before it is sent. A model's aliases for writing alone are left to its owner.
- NaN and infinity, which both libraries write as null, are refused, because null would be ambiguous. A model may write
  them as text, by pydantic's ``ser_json_inf_nan``.
- msgspec is imported only for a struct, whose owner has imported it before.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, get_args

from pydantic import TypeAdapter
from pydantic_core import to_json

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
        data = adapter.dump_json(value, by_alias=True, warnings="error")
        if b"null" in data:
            _check_nulls(data, adapter.dump_python(value, mode="json", by_alias=True))
        return data

    return JsonForm(write, adapter.validate_json)


def _msgspec_form(model: object) -> JsonForm:
    # Typed as Any: there are no stubs if it is not installed.
    msgspec: Any = importlib.import_module("msgspec")
    encode = msgspec.json.Encoder().encode
    decode = msgspec.json.Decoder(model).decode

    def write(value: object) -> bytes:
        data: bytes = encode(value)
        decode(data)
        if b"null" in data:
            with suppress(TypeError):  # raw JSON in it, ``msgspec.Raw``, has no other form
                _check_nulls(data, msgspec.to_builtins(value))
        return data

    return JsonForm(write, decode)


def _check_nulls(data: bytes, plain: object) -> None:
    """Raise ValueError if the JSON, which was made of ``plain``, has a null for a number that JSON cannot have.

    Written from ``plain``, such a number is a separate word, and everything else is the same.
    """
    written = to_json(plain, inf_nan_mode="constants")
    if data.count(b"null") > written.count(b"null") and (b"NaN" in written or b"Infinity" in written):
        raise ValueError("NaN and infinity are not numbers in JSON: they would be null")
