"""aiokafkapy.typed.cloud_events: attributes, both content modes, and refusals."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError, SerializationError
from aiokafkapy.typed import CloudEvents, from_cloud_event

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def events(**options: Any) -> CloudEvents[Any]:
    return CloudEvents("/shop", id=lambda value: "1", time=lambda value: NOON, **options)


def test_binary_mode_puts_attributes_into_headers() -> None:
    data, headers = events(type="placed", extensions=lambda value: {"hot": True, "rank": 3}).record_of({}, b"{}")
    assert data == b"{}"
    assert dict(headers) == {
        "content-type": b"application/json",
        "ce_specversion": b"1.0",
        "ce_id": b"1",
        "ce_source": b"/shop",
        "ce_type": b"placed",
        "ce_time": b"2026-11-24T12:00:00Z",
        "ce_hot": b"true",
        "ce_rank": b"3",
    }


def test_structured_mode_puts_data_into_the_event() -> None:
    data, headers = events(mode="structured").record_of({"a": "ä"}, '{"a":"ä"}'.encode())
    assert headers == (("content-type", b"application/cloudevents+json; charset=UTF-8"),)
    event = json.loads(data)
    assert (event["type"], event["data"], event["datacontenttype"]) == ("dict", {"a": "ä"}, "application/json")


@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize(("kind", "data"), [("application/json", b'{"a": 1}'), ("image/png", b"\x89\x00")])
def test_an_event_is_read_as_it_was_written(mode: Any, kind: str, data: bytes) -> None:
    value, headers = events(mode=mode, datacontenttype=kind, type="placed").record_of(None, data)
    found = from_cloud_event(value, headers)
    assert found is not None
    assert found[0]["type"] == "placed"
    assert found[0]["datacontenttype"] == kind
    assert found[1] == data


NUMBERS = b'{"price": 12345678901234567890.123456789, "big": 1e400, "many": ' + b"9" * 5_000 + b"}"


def test_data_is_in_the_event_as_it_is() -> None:
    data, _ = events(mode="structured").record_of({}, NUMBERS)
    assert data.endswith(b',"data":' + NUMBERS + b"}")
    data, _ = events(mode="structured").record_of({}, '{"a":"ä"}'.encode("utf-16"))
    assert json.loads(data)["data"] == {"a": "ä"}


@pytest.mark.parametrize("data", [b"{", b'{"a": NaN}', b"-Infinity", b"\xff", b"[" * 100_000, b""])
def test_data_that_is_not_json_is_not_declared_as_json(data: bytes) -> None:
    with pytest.raises(SerializationError, match="not JSON"):
        events(mode="structured").record_of({}, data)


def structured(**members: Any) -> tuple[bytes, list[tuple[str, bytes | None]]]:
    event = {"specversion": "1.0", "id": "1", "source": "/x", "type": "t", **members}
    return json.dumps(event).encode(), [("content-type", b"application/cloudevents+json")]


@pytest.mark.parametrize(
    ("members", "data"),
    [
        ({"datacontenttype": "application/xml", "data": '<much wow="xml"/>'}, b'<much wow="xml"/>'),
        ({"datacontenttype": "text/plain; charset=utf-8", "data": "hellö"}, "hellö".encode()),
        ({"datacontenttype": "application/json", "data": "hello"}, b'"hello"'),
        ({"datacontenttype": "text/plain", "data": 5}, b"5"),
        ({"data": "hello"}, b'"hello"'),
        ({"data": {"data": 1}, "more": ["{", {"data": 2}]}, b'{"data": 1}'),
        ({"data": None}, b"null"),
        ({}, b"null"),
    ],
)
def test_data_of_a_structured_event_is_read_by_its_type(members: Any, data: bytes) -> None:
    found = from_cloud_event(*structured(**members))
    assert found is not None
    assert found[1] == data
    assert found[0]["id"] == "1"
    assert "data" not in found[0]


def test_data_of_a_structured_event_is_read_as_it_is() -> None:
    numbers = rb'[12345678901234567890.123456789, 1e400, "a\u00e4\n"]'
    for event in (
        b'{"data":' + numbers + b"}",
        b' {\n"id" : "1",\t"data"\r: ' + numbers + b' , "type":"t" }',
        b'{"data": 1, "data":' + numbers + b"}",
    ):
        found = from_cloud_event(event, [("content-type", b"application/cloudevents+json")])
        assert found is not None
        assert found[1] == numbers


def test_a_record_without_a_value_has_no_data() -> None:
    assert from_cloud_event(None, [("content-type", b"application/cloudevents+json")]) is None
    assert from_cloud_event(None, [("ce_specversion", b"1.0")]) == ({"specversion": "1.0"}, b"")


def test_other_records_are_not_events() -> None:
    assert from_cloud_event(b"{}", [("content-type", b"application/json")]) is None


@pytest.mark.parametrize("value", [b"[]", b'{"data_base64": 5}', b'{"data_base64": "?"}', b"[" * 100_000])
def test_a_structured_event_that_cannot_be_read_is_a_value_error(value: bytes) -> None:
    with pytest.raises(ValueError):
        from_cloud_event(value, [("content-type", b"application/cloudevents+json")])


@pytest.mark.parametrize(
    "options",
    [
        {"type": lambda value: ""},
        {"type": lambda value: 7.5},
        {"subject": lambda value: "a\nb"},
        {"extensions": lambda value: {"Upper": "x"}},
        {"extensions": lambda value: {"id": "x"}},
        {"extensions": lambda value: {"big": 2**40}},
    ],
)
def test_attributes_that_cloudevents_cannot_have_are_refused(options: Any) -> None:
    with pytest.raises(SerializationError):
        events(**options).record_of({}, b"{}")


def test_wrong_options_raise_at_once() -> None:
    mode: Any = "both"
    with pytest.raises(ConfigurationError, match="both"):
        CloudEvents("/shop", mode=mode)
    with pytest.raises(ConfigurationError, match="source"):
        CloudEvents("")
