"""aiokafkapy.typed.letter_form: the content of a dead letter, and headers that name the parts left out."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import attrs
import msgspec
import pytest
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import BaseModel

from aiokafkapy import ProducerRecord, errors
from aiokafkapy.record.builder import record_size_upper_bound
from aiokafkapy.typed.deferred import Failed
from aiokafkapy.typed.letter_form import letter_of, redacted

REFUSAL = errors.InvalidRecordError("bad")


def letter(record: ProducerRecord, limit: int = 500_000, most: int = 1_000_000) -> tuple[Any, Any, dict[str, str]]:
    """The key, the value, and the texts of the headers."""
    made = letter_of("dead", record, REFUSAL, limit, most)
    assert record_size_upper_bound(made.key, made.value, made.headers) <= most  # type: ignore[arg-type]
    told = {name: (one or b"").decode() for name, one in dict(made.headers or ()).items()}
    return made.key, made.value, {name.removeprefix("dead_letter."): one for name, one in told.items()}


class Payment(msgspec.Struct, tag=True, rename="camel"):
    order_number: Any
    parts: list[Any] = []


@attrs.define
class Click:
    page: str


@dataclass
class Visit:
    clicks: list[Any]


class Model(BaseModel):
    what: Any


class Plain:
    """A user's class, with a serializer of its own."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class Original:
    """Data with a field that a typed topic's stand-in has, too."""

    def __init__(self) -> None:
        self.original = b"a part"
        self.serializer = "also a part"


def struct(**fields: Any) -> Struct:
    made = Struct()
    made.update(fields)
    return made


@pytest.mark.parametrize(
    ("data", "written", "form"),
    [
        (None, None, "none"),
        (b"bytes", b"bytes", "bytes"),
        (memoryview(b"bytes"), b"bytes", "bytes"),
        ("text", b"text", "text"),
        ({"a": [1, None]}, b'{"a":[1,null]}', "json"),
        (Model(what=7), b'{"what":7}', "json"),
        (struct(a="b"), b'{"a":"b"}', "json"),
        ([Timestamp(seconds=1), struct(a="b")], b'["1970-01-01T00:00:01Z",{"a":"b"}]', "json"),
        (Payment("x", [Click("/")]), b'{"type":"Payment","orderNumber":"x","parts":[{"page":"/"}]}', "json"),
        (Visit([Click("/")]), b'{"clicks":[{"page":"/"}]}', "json"),
        (Plain(id=5, _client="secret"), b'{"id":5}', "json"),
        (Original(), b'{"original":"a part","serializer":"also a part"}', "json"),
        (Failed(REFUSAL, Click("/")), b'{"page":"/"}', "json"),
        ({"photo": b"\xff"}, b'{"photo":"_w=="}', "json, bytes in base64"),
        ({"part": memoryview(b"a")}, b'{"part":"a"}', "json"),
        ([math.nan], b'["NaN"]', "json"),
        ({"id": 5, "by": Plain(password="secret")}, b'{"id":5,"by":"a Plain"}', "json, without a Plain"),
        (Plain(a=Plain(b=1), c=threading.Event()), b'{"a":"a Plain","c":"a Event"}', "json, without a Plain, a Event"),
        (Plain(), None, "left out: a Plain"),
        (object(), None, "left out: a object"),
        (len, None, "left out: a builtin_function_or_method"),
        ("\ud800", None, "left out: a str"),
    ],
)
def test_data_of_any_kind_is_in_the_letter_or_said_to_be_missing(data: Any, written: bytes | None, form: str) -> None:
    _, value, told = letter(ProducerRecord("orders", data))
    assert (value, told["value_form"]) == (written, form)
    key, _, told = letter(ProducerRecord("orders", b"v", data))
    assert (key, told["key_form"]) == (written, form)


def test_data_that_goes_round_in_circles_is_left_out() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert letter(ProducerRecord("orders", circle))[1:][0] is None


@pytest.mark.parametrize(
    ("value", "key", "header", "left_out"),
    [
        (400_000, 400_000, 300_000, ["key_form"]),
        (450_000, 400_000, 400_000, ["value_form"]),
        (300_000, 300_000, 450_000, ["headers"]),
        (490_000, 10, 490_000, []),
    ],
)
def test_the_largest_part_is_left_out_of_a_letter_that_its_producer_cannot_send(
    value: int, key: int, header: int, left_out: list[str]
) -> None:
    record = ProducerRecord("orders", bytes(value), bytes(key), headers=[("h", bytes(header))])
    found_key, found_value, told = letter(record, 500_000, 1_000_000)
    sizes = {
        "value_form": len(found_value or b""),
        "key_form": len(found_key or b""),
        "headers": len(told.get("h", "")),
    }
    given = {"value_form": value, "key_form": key, "headers": header}
    assert sizes == {name: 0 if name in left_out else size for name, size in given.items()}
    assert [name for name in sizes if "the record has at most 1000000" in told.get(name, "")] == left_out


def test_a_letter_that_stays_too_large_is_made_all_the_same() -> None:
    made = letter_of("dead", ProducerRecord("orders", b"v", b"k", headers=[("h", b"")]), REFUSAL, 100, 10)
    assert (made.key, made.value) == (None, None)


def test_a_wrong_time_stamp_is_left_out() -> None:
    wrong: Any = "noon"
    assert letter(ProducerRecord("orders", b"v", timestamp_ms=wrong))[2]["timestamp_ms"] == ""
    assert letter(ProducerRecord("orders", b"v", timestamp_ms=5))[2]["timestamp_ms"] == "5"


def test_data_that_cannot_be_hidden_is_left_out() -> None:
    def fails(topic: str, data: object) -> object:
        raise ValueError

    hides = SimpleNamespace(redacted=lambda topic, data: {"to": topic})
    assert redacted(SimpleNamespace(redacted=fails), "orders", b"v") is None
    assert redacted(hides, "orders", b"v") == {"to": "orders"}
    assert redacted(None, "orders", Failed(REFUSAL, b"v", hides)) == {"to": "orders"}
    assert redacted(None, "orders", b"v") == b"v"
    assert json.loads(letter(ProducerRecord("orders", redacted(hides, "a", 1)))[1]) == {"to": "a"}


@pytest.mark.parametrize("wrong", [3, [1, 2], "text"])
def test_a_header_that_is_not_bytes_is_told_as_left_out(wrong: Any) -> None:
    _, _, told = letter(ProducerRecord("orders", b"v", headers=[("h", wrong)]))
    assert "h" not in told
    assert told["headers"] == "left out"
    headers: Any = [("h", bytearray(b"x")), ("i", None)]
    _, _, told = letter(ProducerRecord("orders", b"v", headers=headers))
    assert told["h"] == "x"
