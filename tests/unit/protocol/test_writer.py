"""Messages from plain values: the bytes are those that kio writes of its own objects."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_schema_field_type,
    is_optional,
)

from aiokafkapy.broker.handlers.dispatch_table import dispatch_table
from aiokafkapy.protocol.api import ApiKey, response_class
from aiokafkapy.protocol.codec import encode_response
from aiokafkapy.protocol.messages import build_response
from aiokafkapy.protocol.writer import PlainMessage, error_codes

VALUES: dict[str, Any] = {
    "bool": True,
    "string": "grün" * 40,
    "bytes": b"12345",
    "records": b"records" * 30,
    "float64": 1.5,
    "uuid": uuid.UUID(int=77),
    "error_code": 3,
    "timedelta_i32": 1234,
    "timedelta_i64": datetime.timedelta(milliseconds=99),
    "datetime_i64": 1_700_000_000_000,
}


def served_responses() -> Iterator[tuple[int, int]]:
    """Every API and version that the broker answers."""
    for key, handler in sorted(dispatch_table().items()):
        yield from ((key, version) for version in range(handler.min_version, handler.max_version + 1))


def filled(entity: Any, elements: int) -> dict[str, Any]:
    """A value for each field; arrays have so many elements, and nullable fields are null when they have none."""
    return {field.name: _value(field, elements) for field in dataclasses.fields(entity)}


def _value(field: dataclasses.Field[Any], elements: int) -> Any:
    kind = classify_field(field)
    if isinstance(kind, EntityTupleField):
        return [filled(kind.type_, elements) for _ in range(elements)]
    if isinstance(kind, EntityField):
        return filled(kind.type_, elements)
    if not kind.is_array and not elements and is_optional(field) and get_schema_field_type(field) != "datetime_i64":
        return None
    value = VALUES.get(get_schema_field_type(field), 7)
    return [value] * elements if kind.is_array else value


@pytest.mark.parametrize("elements", [0, 1, 3])
def test_every_response_that_is_full_has_the_bytes_of_kios(elements: int) -> None:
    for key, version in served_responses():
        fields = filled(response_class(key, version), elements)
        expected = encode_response(build_response(key, version, **fields), 5)
        assert encode_response(PlainMessage(key, version, fields), 5) == expected, (ApiKey(key).name, version)


def test_every_response_of_defaults_has_the_bytes_of_kios() -> None:
    for key, version in served_responses():
        expected = encode_response(build_response(key, version), 5)
        assert encode_response(PlainMessage(key, version, {}), 5) == expected, (ApiKey(key).name, version)


def test_kios_objects_within_are_written_too() -> None:
    node = build_response(ApiKey.METADATA, 9, brokers=[{"node_id": 4, "host": "h", "port": 1}]).brokers[0]
    expected = encode_response(build_response(ApiKey.METADATA, 9, brokers=[node, node]), 1)
    assert encode_response(PlainMessage(ApiKey.METADATA, 9, {"brokers": [node, node]}), 1) == expected


def test_an_element_that_is_encoded_already_is_taken_as_it_is() -> None:
    response = PlainMessage(ApiKey.METADATA, 12, {"topics": [b"one", b"two"]})
    assert b"\x03onetwo" in encode_response(response, 1)


def test_records_may_come_in_pieces() -> None:
    def response(records: object) -> PlainMessage:
        partition = {"partition_index": 0, "records": records}
        return PlainMessage(ApiKey.FETCH, 12, {"responses": [{"topic": "t", "partitions": [partition]}]})

    pieces = [memoryview(b"first"), bytearray(b"second")]
    assert encode_response(response(pieces), 1) == encode_response(response(b"firstsecond"), 1)


def test_a_throttle_time_is_added_where_the_version_has_one() -> None:
    response = PlainMessage(ApiKey.METADATA, 3, {"cluster_id": "c"})
    fields = {"cluster_id": "c", "throttle_time": 77}
    assert encode_response(response.throttled(77), 1) == encode_response(PlainMessage(ApiKey.METADATA, 3, fields), 1)
    assert "throttle_time" not in response.fields
    old = PlainMessage(ApiKey.METADATA, 2, {"cluster_id": "c"})
    assert old.throttled(77) is old


@pytest.mark.parametrize(
    "fields", [{"brokes": []}, {"topics": [{"nmae": "t"}]}, {"topics": [{"partitions": [{"leader": 1}]}]}]
)
def test_a_field_that_no_version_has_is_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"has no field '(brokes|nmae|leader)' in any version"):
        encode_response(PlainMessage(ApiKey.METADATA, 12, fields), 1)


def test_a_field_of_other_versions_is_left_out() -> None:
    fields = {"topics": [{"name": "t", "topic_id": uuid.UUID(int=1)}], "cluster_id": "c"}
    assert encode_response(PlainMessage(ApiKey.METADATA, 0, fields), 1) == encode_response(
        build_response(ApiKey.METADATA, 0, **fields), 1
    )


def test_null_where_the_schema_has_none_is_refused() -> None:
    with pytest.raises(TypeError, match="null in place of string"):
        encode_response(PlainMessage(ApiKey.METADATA, 9, {"brokers": [{"node_id": 1, "host": None, "port": 1}]}), 1)


def test_a_string_that_an_old_version_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="a string of 40000 bytes; the limit of this version is 32767"):
        encode_response(PlainMessage(ApiKey.METADATA, 1, {"topics": [{"name": "n" * 40_000}]}), 1)


def test_error_codes_are_found_at_every_depth_the_outermost_first() -> None:
    partitions = [{"index": 0, "error_code": 3}, {"index": 1, "error_code": 0}]
    topics = [b"encoded already", {"error_code": 29, "partitions": partitions}]
    answer = PlainMessage(ApiKey.METADATA, 13, {"topics": topics, "error_code": 41})
    assert list(error_codes(answer)) == [41, 29, 3]
    assert list(error_codes(answer, 2)) == [41, 29]
    assert list(error_codes(None)) == []
