"""Everything that this package uses of kio, which is imported with this module and nowhere else.

Kafka's messages that every producer exchanges are written and read by hand, so a process that only sends records never
imports this: kio takes 40 ms and 2 MB. Java has no counterpart.

Two things of other libraries must not be seen while kio's primitive types are made:

- kio derives types from ``datetime.datetime``. That fails for freezegun's replacement, which has a metaclass of its
  own, if kio is first imported within ``freeze_time``.
- kio imports hypothesis if it is installed, to register strategies, which costs a program with test tools beside it
  a quarter of a second. If hypothesis is loaded already, kio finds it.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import sys
from collections.abc import Iterator

__all__ = [
    "EntityField",
    "EntityTupleField",
    "ErrorCode",
    "api_key_map",
    "classify_field",
    "entity_writer",
    "get_field_tag",
    "get_schema_field_type",
    "get_tagged_field_default",
    "is_optional",
    "load_request_schema",
    "load_response_schema",
    "schema_name_map",
]


@contextlib.contextmanager
def _system_datetime() -> Iterator[None]:
    in_place = datetime.datetime
    datetime.datetime = next(cls for cls in in_place.__mro__ if type(cls) is type)  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        datetime.datetime = in_place  # type: ignore[misc]


@contextlib.contextmanager
def _no_hypothesis() -> Iterator[None]:
    if "hypothesis" in sys.modules:
        yield
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # importing it is an ImportError then
    try:
        yield
    finally:
        del sys.modules["hypothesis"]


with _system_datetime(), _no_hypothesis():
    importlib.import_module("kio.static.primitive")

from kio.index import load_request_schema, load_response_schema  # noqa: E402
from kio.schema.errors import ErrorCode  # noqa: E402
from kio.schema.index import api_key_map, schema_name_map  # noqa: E402
from kio.serial import entity_writer  # noqa: E402
from kio.serial._implicit_defaults import get_tagged_field_default  # noqa: E402
from kio.serial._introspect import (  # noqa: E402
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)
