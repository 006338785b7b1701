from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafkapy.client.nodes.api_versions import (
    ApiVersions,
    NodeApiVersions,
    build_api_versions_request,
    decode_api_versions_response,
    fallback_version,
    throttle_seconds,
)
from aiokafkapy.errors import MalformedFrameError, UnsupportedVersionError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeature, SupportedFeature
from aiokafkapy.protocol.codec import encode_response
from aiokafkapy.protocol.messages import build_response

PRODUCE, METADATA, FETCH = ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.FETCH


def versions(**ranges: tuple[int, int]) -> NodeApiVersions:
    return NodeApiVersions({ApiKey[name]: offered for name, offered in ranges.items()})


def test_the_highest_version_of_both_sides_is_used() -> None:
    assert versions(METADATA=(0, 13)).latest_usable_version(METADATA) == 13
    assert versions(METADATA=(0, 99)).latest_usable_version(METADATA) == 13
    assert versions(METADATA=(0, 7)).latest_usable_version(METADATA) == 7


def test_brokers_of_one_release_have_one_table() -> None:
    offered = {"METADATA": (0, 13), "PRODUCE": (3, 12)}
    one, other = versions(**offered), versions(**offered)
    assert one.ranges is other.ranges
    assert one.latest_usable_version(PRODUCE) == other.latest_usable_version(PRODUCE) == 12
    assert versions(METADATA=(0, 13)).ranges is not one.ranges


def test_the_requests_limits_count() -> None:
    node = versions(METADATA=(0, 13), PRODUCE=(0, 13))
    assert node.latest_usable_version(PRODUCE, max_version=11) == 11
    assert node.latest_usable_version(PRODUCE, min_version=9, max_version=99) == 13
    with pytest.raises(UnsupportedVersionError, match="needed is one of 12 to 11"):
        node.latest_usable_version(PRODUCE, min_version=12, max_version=11)


def test_no_version_in_common_is_an_error_with_both_ranges() -> None:
    with pytest.raises(UnsupportedVersionError, match="PRODUCE in versions 0 to 2; needed is one of 3 to 13"):
        versions(PRODUCE=(0, 2)).latest_usable_version(PRODUCE)
    with pytest.raises(UnsupportedVersionError, match="does not have FETCH"):
        versions(PRODUCE=(0, 9)).latest_usable_version(FETCH)


def test_produce_13_without_metadata_10_is_spoken_as_12() -> None:
    """Azure Event Hubs offers it, and topic ids cannot be known there."""
    assert versions(PRODUCE=(3, 13), METADATA=(0, 9)).latest_usable_version(PRODUCE) == 12
    assert versions(PRODUCE=(3, 13), METADATA=(0, 10)).latest_usable_version(PRODUCE) == 13
    assert versions(FETCH=(4, 17), METADATA=(0, 9)).latest_usable_version(FETCH) == 12
    assert versions(PRODUCE=(3, 8), METADATA=(0, 9)).latest_usable_version(PRODUCE) == 8


def test_supports() -> None:
    node = versions(PRODUCE=(3, 9))
    assert node.supports(PRODUCE)
    assert node.supports(PRODUCE, 9)
    assert not node.supports(PRODUCE, 10)
    assert not node.supports(FETCH)


def test_a_response_is_read_with_unknown_apis_and_features() -> None:
    body = ApiVersionsResponse(
        0,
        (ApiVersion(0, 3, 9), ApiVersion(9_999, 0, 1)),
        supported_features=(SupportedFeature("transaction.version", 0, 2),),
        finalized_features=(FinalizedFeature("transaction.version", 2, 2),),
        finalized_features_epoch=5,
    )
    node = NodeApiVersions.from_response(body)
    assert node.ranges == {0: (3, 9), 9_999: (0, 1)}
    assert node.supported_features == {"transaction.version": (0, 2)}
    assert node.finalized_features == {"transaction.version": 2}


def test_finalized_features_count_only_with_an_epoch() -> None:
    body = ApiVersionsResponse(0, finalized_features=(FinalizedFeature("x", 2, 2),))
    assert NodeApiVersions.from_response(body).finalized_features == {}


@pytest.mark.parametrize("version", range(5))
def test_answers_of_every_version_are_decoded(version: int) -> None:
    body = build_response(ApiKey.API_VERSIONS, version, api_keys=[{"api_key": 3, "max_version": 9}])
    frame = encode_response(body, 7)[4:]
    assert decode_api_versions_response(version, frame).api_keys == ((3, 0, 9),)


def test_a_refusal_is_decoded_as_version_0_for_any_requested_version() -> None:
    body = build_response(
        ApiKey.API_VERSIONS, 0, error_code=35, api_keys=[{"api_key": 18, "min_version": 0, "max_version": 2}]
    )
    decoded = decode_api_versions_response(4, encode_response(body, 7)[4:])
    assert decoded.error_code == 35
    assert fallback_version(decoded) == 2


@pytest.mark.parametrize(
    "body",
    [
        "0023 0100120000000200000000",  # librdkafka 2.16's mock cluster, asked in version 3 or 4
        "0023",
        "0023 00",
        "0023 00000001 0012 0000",  # torn
        "0023 00000001 0012 0000 0003 00000000 00",  # with the fields of later versions
        "0023 ffffffffffffffff",
    ],
)
@pytest.mark.parametrize("version", [3, 4])
def test_a_refusal_of_any_form_leads_to_version_0(version: int, body: str) -> None:
    decoded = decode_api_versions_response(version, bytes.fromhex("00000007") + bytes.fromhex(body))
    assert decoded.error_code == 35
    assert fallback_version(decoded) == 0


def test_without_a_hint_the_fallback_is_version_0() -> None:
    response: Any = build_response(ApiKey.API_VERSIONS, 0, error_code=35)
    assert fallback_version(response) == 0
    keys = [{"api_key": 18, "min_version": 0, "max_version": 99}]
    response = build_response(ApiKey.API_VERSIONS, 0, error_code=35, api_keys=keys)
    assert fallback_version(response) == 4


def test_a_torn_answer_is_malformed() -> None:
    with pytest.raises(MalformedFrameError):
        decode_api_versions_response(4, b"\0\0\0\7")


def test_the_software_is_named_as_kip_511_allows() -> None:
    body: Any = build_api_versions_request(3)
    pattern = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
    assert pattern.fullmatch(body.client_software_name)
    assert pattern.fullmatch(body.client_software_version)


def test_nodes_are_kept_apart_and_forgotten() -> None:
    known = ApiVersions()
    known.update(1, versions(PRODUCE=(3, 9)))
    assert known.get(1) is not None
    assert known.get(2) is None
    known.remove(1)
    known.remove(1)
    assert known.get(1) is None


def test_throttle_times_are_read_from_either_form() -> None:
    assert throttle_seconds(PRODUCE, 9, SimpleNamespace(throttle_time_ms=250)) == 0.25
    assert throttle_seconds(METADATA, 9, build_response(METADATA, 9, throttle_time=250)) == 0.25
    assert throttle_seconds(METADATA, 9, build_response(METADATA, 9)) == 0
    assert throttle_seconds(METADATA, 0, build_response(METADATA, 0)) == 0
    assert throttle_seconds(PRODUCE, 9, None) == 0
    assert throttle_seconds(PRODUCE, 9, SimpleNamespace(throttle_time_ms=-5)) == 0


def test_brokers_before_kip_219_have_waited_already() -> None:
    assert throttle_seconds(PRODUCE, 5, SimpleNamespace(throttle_time_ms=250)) == 0
    assert throttle_seconds(PRODUCE, 6, SimpleNamespace(throttle_time_ms=250)) == 0.25
