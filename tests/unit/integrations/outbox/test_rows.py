"""Rows made of a caller's arguments, and read back."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy import ProducerRecord
from aiokafkapy.errors import InvalidTopicError, RecordTooLargeError, SerializationError
from aiokafkapy.integrations.outbox.rows import OutboxRow, decode_headers, encode_headers, row_values
from aiokafkapy.producer.arguments import time_of

HEADERS = st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.none() | st.binary()))
NOW_MS = 1_767_000_000_000
UID = UUID(int=1)


def row_of(record: ProducerRecord) -> OutboxRow:
    return OutboxRow(id=1, **row_values(record, 8, 1000, now_ms=NOW_MS, uid=UID))


@given(HEADERS)
def test_headers_come_back_as_they_were(headers: list[tuple[str, bytes | None]]) -> None:
    assert decode_headers(encode_headers(headers)) == (tuple(headers) or None)


def test_a_record_comes_back_as_it_was() -> None:
    record = ProducerRecord("t", b"value", b"key", 3, 12345, (("name", b"data"), ("none", None)))
    assert row_of(record).record == record
    tombstone = ProducerRecord("t", None, b"key", timestamp_ms=0)
    assert row_of(tombstone).record == tombstone


def test_anything_with_bytes_is_taken_and_headers_may_be_a_mapping() -> None:
    headers: Any = {"name": bytearray(b"data")}
    row = row_of(ProducerRecord("t", bytearray(b"value"), memoryview(b"key"), headers=headers))
    assert (row.key, row.value, row.record.headers) == (b"key", b"value", (("name", b"data"),))


def test_a_time_stamp_is_that_of_the_call_unless_one_is_given() -> None:
    assert row_of(ProducerRecord("t")).timestamp_ms == NOW_MS
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    assert row_of(ProducerRecord("t", timestamp_ms=moment)).timestamp_ms == 1_767_323_045_678


def test_arguments_are_taken_as_the_producer_takes_them() -> None:
    class Topic(StrEnum):
        ORDERS = "orders"

    class Number:
        """An integer like NumPy's."""

        def __index__(self) -> int:
            return 3

    number: Any = Number()
    row = row_of(ProducerRecord(Topic.ORDERS, b"", partition=number, timestamp_ms=number))
    assert (row.topic, row.partition, row.timestamp_ms) == ("orders", 3, 3)
    assert type(row.topic) is str
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=UTC)
    assert row_of(ProducerRecord("t", timestamp_ms=moment)).timestamp_ms == time_of("t", moment) == 1_767_323_045_678
    headers: Any = iter([("name", bytearray(b"data"))])
    assert row_of(ProducerRecord("t", headers=headers)).record.headers == (("name", b"data"),)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"topic": "no topic"}, InvalidTopicError, "'no topic' is not a valid name"),
        ({"topic": 5}, InvalidTopicError, "name of a topic is a int, not a str"),
        ({"value": "text"}, SerializationError, "the value of a record of topic 't' is a str, .* a value_serializer"),
        ({"key": 7}, SerializationError, "the key of a record of topic 't' is a int"),
        ({"headers": [("name", "text")]}, SerializationError, "value of header 'name' is a str, not bytes"),
        ({"headers": [(5, b"")]}, SerializationError, "header's name is a int, not a str"),
        ({"headers": 5}, SerializationError, "headers must be pairs"),
        ({"partition": -1}, ValueError, "partition -1 of topic 't': write 0 to 2147483647"),
        ({"partition": True}, TypeError, "partition is a bool"),
        ({"timestamp_ms": -1}, ValueError, "timestamp_ms is -1: write 0 to"),
        ({"timestamp_ms": 1.5}, TypeError, "timestamp_ms is a float"),
        ({"value": b"x" * 999, "key": b"xx"}, RecordTooLargeError, "has 1001 bytes .* max_record_bytes=1000"),
        ({"value": b"x" * 990, "headers": {"ä" * 5: b"x"}}, RecordTooLargeError, "has 1001 bytes"),
    ],
)
def test_a_record_that_could_never_be_published_is_refused(
    fields: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        row_of(ProducerRecord(**{"topic": "t", **fields}))
