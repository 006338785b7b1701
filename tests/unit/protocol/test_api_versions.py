"""ApiVersions by hand: the bytes that kio writes, and the fields that kio reads, of every version."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.protocol.api import ApiKey, client_versions, is_flexible, schema_versions
from aiokafkapy.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokafkapy.protocol.codec import encode_request, encode_response, unsigned_varint
from aiokafkapy.protocol.messages import build_request, build_response

VERSIONS = range(schema_versions(ApiKey.API_VERSIONS)[1] + 1)
FEATURES: dict[str, Any] = {
    "supported_features": [{"name": "a", "min_version": 0, "max_version": 2}, {"name": "ü", "max_version": 1}],
    "finalized_features_epoch": 2**40,
    "finalized_features": [{"name": "a", "max_version_level": 2, "min_version_level": 1}],
}


def response(version: int, **more: Any) -> Any:
    api_keys = [{"api_key": 3, "min_version": 1, "max_version": 13}, {"api_key": 999, "max_version": 1}]
    fields = {"error_code": 0, "api_keys": api_keys, "throttle_time": 250} | more
    return build_response(ApiKey.API_VERSIONS, version, **fields)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_request_is_as_kio_writes_it(version: int) -> None:
    kio = build_request(ApiKey.API_VERSIONS, version, client_software_name="n" * 200, client_software_version="1.0")
    ours = ApiVersionsRequest(version, "n" * 200, "1.0")
    assert encode_request(ours, 7, "me") == encode_request(kio, 7, "me")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("features", [{}, FEATURES, FEATURES | {"zk_migration_ready": True}])
def test_the_response_is_read_as_kio_wrote_it(version: int, features: dict[str, Any]) -> None:
    read = ApiVersionsResponse.read(version, encode_response(response(version, **features), 7)[4:])
    has_features = version >= 3 and bool(features)
    assert read == (
        0,
        ((3, 1, 13), (999, 0, 1)),
        250 if version else 0,
        (("a", 0, 2), ("ü", 0, 1)) if has_features else (),
        2**40 if has_features else -1,
        (("a", 2, 1),) if has_features else (),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_cut_anywhere_or_with_more_behind_it_is_malformed(version: int) -> None:
    frame = encode_response(response(version, **FEATURES), 7)[4:]
    for torn in [*(frame[:size] for size in range(len(frame))), frame + b"\0"]:
        with pytest.raises(MalformedFrameError):
            ApiVersionsResponse.read(version, torn)


@pytest.mark.parametrize("tag", [0, 1, 2])
def test_a_tagged_field_of_another_size_is_malformed(tag: int) -> None:
    data = b"\1" if tag != 1 else bytes(8)
    tagged = b"\1" + bytes((tag,)) + unsigned_varint(len(data) + 1) + data + b"\0"
    frame = encode_response(response(4), 7)[4:-1] + tagged
    with pytest.raises(MalformedFrameError, match=f"tagged field {tag} of an ApiVersions response is not"):
        ApiVersionsResponse.read(4, frame)


def test_unknown_tagged_fields_are_skipped() -> None:
    frame = encode_response(response(4), 7)[4:-1] + b"\1" + bytes((77, 3)) + b"abc"
    assert ApiVersionsResponse.read(4, frame).api_keys == ((3, 1, 13), (999, 0, 1))


def test_the_versions_that_we_speak_are_kios() -> None:
    unstable = {ApiKey.LIST_OFFSETS: 11, ApiKey.OFFSET_COMMIT: 10, ApiKey.OFFSET_FETCH: 10}
    for api_key in ApiKey:
        lowest, highest = schema_versions(api_key)
        assert client_versions(api_key) == (lowest, min(highest, unstable.get(api_key, 99) - 1)), api_key
        for version in range(lowest, highest + 1):
            kio: Any = build_request(api_key, version)
            assert is_flexible(api_key, version) == kio.__flexible__, (api_key, version)
