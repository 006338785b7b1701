from __future__ import annotations

import array
from collections import deque
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pytest
from fastavro.write import LOGICAL_WRITERS

from aiokafkapy.integrations.schema_registry.avro_checks import Misfit, avro_check

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 1, 2, tzinfo=UTC)
DATE = {"type": "int", "logicalType": "date"}
TIME = {"type": "int", "logicalType": "time-millis"}
MICROS = {"type": "long", "logicalType": "time-micros"}
MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-millis"}
IDENTITY = {"type": "string", "logicalType": "uuid"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
FIXED_MONEY = {"type": "fixed", "name": "M", "size": 4, "logicalType": "decimal", "precision": 6, "scale": 2}
SUIT = {"type": "enum", "name": "Suit", "symbols": ["A", "B"]}
TWO = {"type": "fixed", "name": "Two", "size": 2}
NUMBERS = {"type": "array", "items": "int"}
COUNTS = {"type": "map", "values": "int"}
CAT = {"type": "record", "name": "Cat", "fields": [{"name": "lives", "type": "int"}]}
TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "size", "type": "int"}, {"name": "next", "type": ["null", "Tree"], "default": None}],
}


class Colour(StrEnum):
    RED = "A"


class Rows(dict[str, Any]):
    pass


def misfit(schema: Any, data: object) -> Misfit | None:
    named: Any = {}
    return avro_check(fastavro.parse_schema(schema, named_schemas=named), named)(data)


def in_a_field(schema: Any, **more: Any) -> Any:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": schema, **more}]}


@pytest.mark.parametrize(
    ("schema", "data", "expected"),
    [
        ("null", 5, "null"),
        ("boolean", "false", "boolean"),
        ("boolean", None, "boolean"),
        ("boolean", 1, "boolean"),
        ("int", 1.7, "int"),
        ("int", True, "int"),
        ("int", Decimal(5), "int"),
        ("int", 2**31, "int, which has 32 bits"),
        ("int", -(2**31) - 1, "int, which has 32 bits"),
        ("long", "5", "long"),
        ("long", 2**63, "long, which has 64 bits"),
        ("float", 1e300, "float, which has 32 bits"),
        ("float", -1e39, "float, which has 32 bits"),
        ("double", "1.5", "double"),
        ("double", Decimal("1.5"), "double"),
        ("double", False, "double"),
        ("string", b"x", "string"),
        ("bytes", "x", "bytes"),
        ("bytes", 5, "bytes"),
        ("bytes", [1, 2], "bytes"),
        (TWO, b"abc", "Two of 2 bytes"),
        (TWO, "ab", "Two of 2 bytes"),
        (SUIT, "C", "Suit"),
        (SUIT, 0, "Suit"),
        (NUMBERS, "12", "array"),
        (NUMBERS, {"a": 1}, "array"),
        (NUMBERS, None, "array"),
        (COUNTS, [], "map"),
        (DATE, "tomorrow", "date without a time of day"),
        (DATE, NOON, "date without a time of day"),
        (DATE, 2**31, "date without a time of day, which has 32 bits"),
        (TIME, time(12, tzinfo=UTC), "time-millis without a time zone"),
        (MICROS, time(12, tzinfo=UTC), "time-micros without a time zone"),
        (MOMENT, date(2026, 1, 2), "timestamp-micros"),
        (MOMENT, 1.5, "timestamp-micros"),
        (LOCAL, NOON, "local-timestamp-millis without a time zone"),
        (IDENTITY, "no uuid", "uuid"),
        (IDENTITY, "0" * 32, "uuid"),
        (IDENTITY, 5, "uuid"),
        (MONEY, 12.5, "decimal"),
        (["null", "string"], 5, "null or string"),
        (["null", "int"], 2**40, "null or int"),
        (["float", "string"], 1e300, "float or string"),
        (["null", "int"], ("string", "x"), "null or int"),
        (["null", "int"], (1, 2, 3), "null or int"),
        (["null", CAT], {"-type": "Dog", "lives": 9}, "null or Cat"),
        ([DATE, MOMENT], NOON, "date, which comes first: give ('long', data)"),
        (CAT, [], "Cat"),
        (CAT, 5, "Cat"),
    ],
)
def test_data_that_would_be_written_as_other_data_does_not_fit(schema: Any, data: Any, expected: str) -> None:
    assert misfit(schema, data) == ("the data", data, expected)
    assert misfit(in_a_field(schema), {"f": data}) == ("R.f", data, expected)


@pytest.mark.parametrize(
    ("schema", "data", "place", "wrong"),
    [
        (NUMBERS, [1, "2"], "the data[]", "2"),
        (COUNTS, {"a": None}, "the data{}", None),
        (COUNTS, {1: 1}, "a key of the data", 1),
        (CAT, {"lives": "9"}, "Cat.lives", "9"),
        (CAT, {}, "Cat.lives", None),
        (["null", CAT], {"lives": "9"}, "Cat.lives", "9"),
        (["null", CAT], ("Cat", {"lives": "9"}), "Cat.lives", "9"),
        (["null", NUMBERS], [None], "the data[]", None),
        (["null", SUIT], ("Suit", "C"), "the data", "C"),
        (TREE, {"size": 1, "next": {"size": 2, "next": {"size": None}}}, "Tree.size", None),
        (in_a_field({"type": "array", "items": CAT}), {"f": [{"lives": 9}, {}]}, "Cat.lives", None),
    ],
)
def test_the_place_within_is_named(schema: Any, data: Any, place: str, wrong: object) -> None:
    found = misfit(schema, data)
    assert found is not None
    assert (found.place, found.data) == (place, wrong)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("null", None),
        ("boolean", True),
        ("int", -(2**31)),
        ("int", 2**31 - 1),
        ("long", 2**63 - 1),
        ("float", 3.4028234663852886e38),
        ("float", float("inf")),
        ("float", float("nan")),
        ("double", 5),
        ("double", Fraction(1, 2)),
        ("string", Colour.RED),
        ("bytes", bytearray(b"x")),
        ("bytes", memoryview(b"x")),
        (TWO, b"ab"),
        (SUIT, "A"),
        (SUIT, Colour.RED),
        (NUMBERS, (1, 2)),
        (NUMBERS, {1, 2}),
        (NUMBERS, deque([1])),
        (NUMBERS, array.array("i", [1])),
        (COUNTS, Rows(a=1)),
        (DATE, date(2026, 1, 2)),
        (DATE, "2026-01-02"),
        (DATE, MIDNIGHT),
        (DATE, 20_000),
        (TIME, time(12)),
        (MICROS, 5),
        (MOMENT, NOON),
        (MOMENT, NOON.replace(tzinfo=None)),
        (MOMENT, 5),
        (LOCAL, NOON.replace(tzinfo=None)),
        (IDENTITY, UUID(int=5)),
        (IDENTITY, str(UUID(int=5))),
        (MONEY, Decimal("12.50")),
        (MONEY, b"\1"),
        (FIXED_MONEY, Decimal("12.50")),
        (["null", "string"], None),
        (["null", SUIT], ("Suit", "A")),
        (["null", CAT], ("Cat", {"lives": 9})),
        (["null", CAT], {"-type": "Cat", "lives": 9}),
        (["float", "double"], 1e300),
        ([MOMENT, DATE], NOON),
        ([MOMENT, DATE], date(2026, 1, 2)),
        ([DATE, MOMENT], date(2026, 1, 2)),
        ([DATE, MOMENT], ("long", NOON)),
        (CAT, {"lives": 9, "unknown": "left out"}),
        (CAT, {"-type": "Another", "lives": 9}),
        (TREE, {"size": 1, "next": {"size": 2}}),
        ({"type": "error", "name": "Oops", "fields": []}, {}),
    ],
)
def test_data_that_is_written_as_it_is_meant_fits(schema: Any, data: Any) -> None:
    assert misfit(in_a_field(schema), {"f": data}) is None
    fastavro.schemaless_writer(BytesIO(), fastavro.parse_schema(in_a_field(schema)), {"f": data})


@pytest.mark.parametrize(
    ("schema", "default"),
    [("int", 5), ("double", "NaN"), (DATE, 5), (CAT, {"lives": 9}), (["string", "null"], "x"), ("bytes", "\u00ff")],
)
def test_the_default_of_a_missing_field_is_the_schemas(schema: Any, default: Any) -> None:
    assert misfit(in_a_field(schema, default=default), {}) is None
    # Rules have filled it in.
    parsed = fastavro.parse_schema(in_a_field(schema, default=default))
    assert avro_check(parsed, {})({"f": parsed["fields"][0]["default"]}) is None  # type: ignore[index,call-overload]


def test_a_named_type_that_comes_again_is_checked() -> None:
    fields = [{"name": "first", "type": SUIT}, {"name": "second", "type": ["null", "n.Suit"]}]
    schema = {"type": "record", "name": "n.R", "fields": fields}
    assert misfit(schema, {"first": "A", "second": "B"}) is None
    assert misfit(schema, {"first": "A", "second": "C"}) == ("n.R.second", "C", "null or n.Suit")


def test_the_data_of_a_users_own_logical_type_is_checked_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOGICAL_WRITERS, "long-cents", lambda data, _: data * 100)
    schema = {"type": "long", "logicalType": "cents"}
    assert misfit(schema, 5) is None
    assert misfit(schema, 1.5) == ("the data", 150.0, "cents")
