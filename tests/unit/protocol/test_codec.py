"""Requests and responses of every version; malformed bytes are refused."""

import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiokafkapy.common import milliseconds
from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.protocol.api import ApiKey, client_versions, request_class, response_class, schema_versions
from aiokafkapy.protocol.codec import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from aiokafkapy.protocol.cursor import Cursor
from aiokafkapy.protocol.entities import build
from aiokafkapy.protocol.framing import decode_correlation_id
from aiokafkapy.protocol.messages import build_request, build_response
from aiokafkapy.protocol.reader import entity_reader, error_code

EVERY_VERSION = [(key, v) for key in ApiKey for v in range(schema_versions(key)[0], schema_versions(key)[1] + 1)]


@pytest.mark.parametrize("api_key", ApiKey)
def test_the_emptiest_message_of_every_version_comes_back_equal(api_key: ApiKey) -> None:
    lowest, highest = schema_versions(api_key)
    for version in range(lowest, highest + 1):
        request = build_request(api_key, version)
        header, decoded = decode_request(encode_request(request, 42, "me")[4:])
        assert (header.api_key, header.api_version, header.correlation_id) == (api_key, version, 42)
        assert header.client_id == "me"
        assert decoded == request
        response = build_response(api_key, version)
        assert decode_response(api_key, version, encode_response(response, 43)[4:]) == (43, response)


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_every_version_keeps_the_version_s_fields(version: int) -> None:
    body = build_response(
        ApiKey.METADATA,
        version,
        throttle_time=5,
        cluster_id="c",
        brokers=[{"node_id": 1, "host": "h", "port": 9092, "rack": None}],
        topics=[
            {
                "name": "t",
                "error_code": 5,
                "partitions": [{"partition_index": 3, "leader_id": 1, "replica_nodes": [1, 2]}],
            }
        ],
    )
    _, decoded = decode_response(ApiKey.METADATA, version, encode_response(body, 1)[4:])
    assert decoded == body
    assert decoded.topics[0].partitions[0].replica_nodes == (1, 2)
    if version >= 3:
        assert milliseconds(decoded.throttle_time) == 5


def test_our_reader_agrees_with_kios_own() -> None:
    from kio.serial import entity_reader as kio_reader

    body = build_response(
        ApiKey.FETCH,
        12,
        throttle_time=7,
        responses=[
            {"topic": "t", "partitions": [{"partition_index": 1, "records": b"abc", "aborted_transactions": None}]}
        ],
    )
    raw = encode_response(body, 1)[9:]
    entity: Any = response_class(ApiKey.FETCH, 12)
    assert kio_reader(entity)(raw, 0)[0] == entity_reader(entity)(Cursor(raw)) == body


def test_an_error_code_from_a_newer_broker_keeps_its_number() -> None:
    body = build_response(ApiKey.INIT_PRODUCER_ID, 5, error_code=999, producer_id=7, producer_epoch=1)
    _, decoded = decode_response(ApiKey.INIT_PRODUCER_ID, 5, encode_response(body, 1)[4:])
    assert int(decoded.error_code) == 999
    assert not decoded.error_code.retriable
    assert decoded.producer_id == 7
    assert error_code(999) is decoded.error_code


def test_a_tagged_field_from_a_newer_broker_is_skipped() -> None:
    raw = encode_response(build_response(ApiKey.INIT_PRODUCER_ID, 5, producer_id=7), 1)[4:]
    assert raw.endswith(b"\0")
    _, decoded = decode_response(ApiKey.INIT_PRODUCER_ID, 5, raw[:-1] + b"\x02\x63\x03abc\x64\x00")
    assert decoded.producer_id == 7


def test_a_tagged_field_that_is_known_is_read_and_its_length_is_checked() -> None:
    body = build_response(
        ApiKey.PRODUCE,
        10,
        node_endpoints=[{"node_id": 2, "host": "h", "port": 9, "rack": None}],
    )
    raw = encode_response(body, 1)[4:]
    _, decoded = decode_response(ApiKey.PRODUCE, 10, raw)
    assert decoded.node_endpoints[0].host == "h"
    with pytest.raises(MalformedFrameError):
        decode_response(ApiKey.PRODUCE, 10, raw + b"\0")


@pytest.mark.parametrize(
    ("lifetime_ms", "read"),
    [
        (43_200_000, datetime.timedelta(hours=12)),
        (2**63 - 1, datetime.timedelta.max),
        (-(2**63), datetime.timedelta.min),
    ],
)
def test_a_duration_longer_than_pythons_is_the_longest(lifetime_ms: int, read: datetime.timedelta) -> None:
    """A session that Java's Long.MAX_VALUE lets last for ever ended the connection."""
    frame = encode_response(build_response(ApiKey.SASL_AUTHENTICATE, 1), 1)[4:-8]
    raw = frame + lifetime_ms.to_bytes(8, "big", signed=True)
    _, decoded = decode_response(ApiKey.SASL_AUTHENTICATE, 1, raw)
    assert decoded.session_lifetime == read
    assert decode_response(ApiKey.SASL_AUTHENTICATE, 1, encode_response(decoded, 1)[4:])[1] == decoded


def test_api_versions_answers_always_have_a_plain_header() -> None:
    for version in range(5):
        frame = encode_response(build_response(ApiKey.API_VERSIONS, version), 77)[4:]
        assert decode_correlation_id(frame) == 77
        assert decode_response(ApiKey.API_VERSIONS, version, frame)[0] == 77


def test_an_api_versions_request_of_a_version_to_come_has_a_readable_header() -> None:
    frame = bytearray(encode_request(build_request(ApiKey.API_VERSIONS, 3), 5, "me")[4:])
    frame[2:4] = (99).to_bytes(2, "big")
    header, _ = decode_request_header(bytes(frame))
    assert (header.api_version, header.correlation_id, header.client_id) == (99, 5, "me")


@pytest.mark.parametrize("claim", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x80"])
def test_a_hostile_array_length_costs_nothing(claim: bytes) -> None:
    with pytest.raises(MalformedFrameError):
        decode_response(ApiKey.METADATA, 13, b"\0\0\0\1\0" + b"\0\0\0\0" + claim + b"\0" * 20)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(EVERY_VERSION), st.binary(max_size=200))
def test_garbage_raises_nothing_but_malformed_frame(api: tuple[ApiKey, int], garbage: bytes) -> None:
    entity: Any = request_class(*api)
    for read in (lambda: decode_response(*api, garbage), lambda: entity_reader(entity)(Cursor(garbage))):
        try:
            read()
        except MalformedFrameError:
            pass


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_raises_nothing_but_malformed_frame(position: int, byte: int) -> None:
    body = build_response(
        ApiKey.METADATA,
        12,
        brokers=[{"node_id": i, "host": "host", "port": 9} for i in range(5)],
        topics=[{"name": "t", "partitions": [{"partition_index": i, "replica_nodes": [1, 2, 3]} for i in range(5)]}],
    )
    frame = bytearray(encode_response(body, 1)[4:])
    frame[position % len(frame)] = byte
    try:
        decode_response(ApiKey.METADATA, 12, bytes(frame))
    except MalformedFrameError:
        pass


def test_a_truncated_frame_is_malformed_wherever_it_ends() -> None:
    frame = encode_response(build_response(ApiKey.METADATA, 9, brokers=[{"node_id": 1, "host": "h", "port": 1}]), 1)[4:]
    for end in range(len(frame)):
        with pytest.raises(MalformedFrameError):
            decode_response(ApiKey.METADATA, 9, frame[:end])


def test_a_field_of_another_version_is_dropped_and_a_wrong_name_is_refused() -> None:
    assert not hasattr(build_request(ApiKey.METADATA, 1, allow_auto_topic_creation=True), "allow_auto_topic_creation")
    with pytest.raises(TypeError, match="no field 'topicz'"):
        build_request(ApiKey.METADATA, 1, topicz=[])


def test_durations_and_times_are_milliseconds_outside() -> None:
    body: Any = build_response(ApiKey.PRODUCE, 9, throttle_time=1500)
    assert body.throttle_time == datetime.timedelta(seconds=1.5)
    assert milliseconds(body.throttle_time) == 1500
    assert milliseconds(None) == -1
    assert milliseconds(datetime.datetime(2024, 1, 1, 0, 0, 0, 7000, tzinfo=datetime.UTC)) == 1704067200007


def test_versions_we_ask_for_exist_and_leave_out_the_unstable_ones() -> None:
    assert client_versions(ApiKey.PRODUCE) == (3, 13)
    assert client_versions(ApiKey.METADATA) == (0, 13)
    assert client_versions(ApiKey.LIST_OFFSETS) == (1, 10)
    for api_key in ApiKey:
        low, high = client_versions(api_key)
        for version in (low, high):
            for entity in (request_class(api_key, version), response_class(api_key, version)):
                assert (entity.__api_key__, entity.__version__) == (api_key, version)


def test_build_takes_ready_made_structs_too() -> None:
    topic = build(request_class(ApiKey.METADATA, 12), {"topics": [{"name": "t"}]}).topics[0]
    ready_made: Any = build_request(ApiKey.METADATA, 12, topics=[topic])
    assert ready_made.topics == (topic,)
    plain = {"topics": [{"name": "t"}]}
    assert encode_request(ready_made, 1, "me") == encode_request(build_request(ApiKey.METADATA, 12, **plain), 1, "me")
