from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_request_header
from aiokafkapy.record.compression import Compression
from aiokafkapy.testing.replay.comparison import comparable, difference

from ..recordings import produce, records, request


def values(frame: bytes, **options: Any) -> Any:
    header, _ = decode_request_header(frame[4:])
    return comparable(header, frame[4:], **options)


def test_the_checksum_and_the_times_of_a_batch_do_not_count_and_its_records_do() -> None:
    first = values(produce(records(b"a", b"b", at=1_000), correlation_id=1))
    assert first == values(produce(records(b"a", b"b", at=2_000), correlation_id=9))
    other = values(produce(records(b"a", b"c", at=1_000)))
    place = "topic_data[0].partition_data[0].records[0].records[1].value"
    assert difference(first, other) == f"{place} is b'c', and b'b' in the recording"


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (records(b"a", b"b", b"c"), "records[0].records has 3 entries, and 2 in the recording"),
        (records(b"a", b"b", key=b"k"), "records[0].records[0].key is b'k', and None in the recording"),
        (
            records(b"a", b"b", codec=Compression.GZIP),
            "records[0].compression is 'gzip', and 'none' in the recording",
        ),
        (records(b"a") + records(b"b"), "records has 2 entries, and 1 in the recording"),
    ],
)
def test_batches_differ_by_their_records(other: bytes, reason: str) -> None:
    recorded = values(produce(records(b"a", b"b")))
    assert difference(recorded, values(produce(other))) == f"topic_data[0].partition_data[0].{reason}"


def test_digests_are_compared_by_their_sizes() -> None:
    first, second = records(b"\x80abc", key=b"k"), records(b"word", key=b"x")
    assert values(produce(first), is_hashed=True) == values(produce(second), is_hashed=True)
    assert values(produce(first), is_hashed=True) != values(produce(records(b"words", key=b"x")), is_hashed=True)


def test_records_that_cannot_be_read_are_compared_as_bytes() -> None:
    assert values(produce(records(b"a")[:-1] + b"?")) != values(produce(records(b"a")))


@pytest.mark.parametrize(
    ("api_key", "version", "one", "other"),
    [
        (ApiKey.API_VERSIONS, 3, {"client_software_version": "1"}, {"client_software_version": "2"}),
        (ApiKey.CREATE_TOPICS, 5, {"timeout": 1}, {"timeout": 2}),
        (ApiKey.METADATA, 9, {"topics": [{"name": "a"}, {"name": "b"}]}, {"topics": [{"name": "b"}, {"name": "a"}]}),
        (ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"a"}, {"auth_bytes": b"bcd"}),
        (ApiKey.FETCH, 12, {"session_epoch": 4}, {"session_epoch": 5}),
        (
            ApiKey.OFFSET_COMMIT,
            8,
            {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 3}]}]},
            {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]},
        ),
        (
            ApiKey.JOIN_GROUP,
            7,
            {"protocols": [{"name": "range", "metadata": b"a"}]},
            {"protocols": [{"name": "range", "metadata": b"b"}]},
        ),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {"member_id": "a"}, {"member_id": "b"}),
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            {"resources": [{"configs": [{"name": "ssl.key.password", "value": "a"}]}]},
            {"resources": [{"configs": [{"name": "ssl.key.password", "value": "*****"}]}]},
        ),
    ],
)
def test_fields_that_differ_from_run_to_run_do_not_count(
    api_key: int, version: int, one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert request(api_key, version, **one) != request(api_key, version, **other)
    assert values(request(api_key, version, **one)) == values(request(api_key, version, **other))


@pytest.mark.parametrize(
    ("api_key", "version", "one", "other", "reason"),
    [
        (
            ApiKey.METADATA,
            9,
            {"topics": [{"name": "a"}]},
            {"topics": [{"name": "b"}]},
            "topics[0].name is 'b', and 'a' in the recording",
        ),
        (
            ApiKey.HEARTBEAT,
            4,
            {"generation_id": 1},
            {"generation_id": 2},
            "generation_id is 2, and 1 in the recording",
        ),
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            {"resources": [{"configs": [{"name": "retention.ms", "value": "1"}]}]},
            {"resources": [{"configs": [{"name": "retention.ms", "value": "2"}]}]},
            "resources[0].configs[0].value is '2', and '1' in the recording",
        ),
    ],
)
def test_the_content_of_a_request_counts_and_the_difference_is_named(
    api_key: int, version: int, one: dict[str, Any], other: dict[str, Any], reason: str
) -> None:
    first, second = values(request(api_key, version, **one)), values(request(api_key, version, **other))
    assert difference(first, second) == reason
    assert difference(first, first) == ""


def test_a_request_without_a_schema_is_compared_by_its_bytes_unless_they_are_hidden() -> None:
    frame = b"\0\x12\0\x63\0\0\0\7\0\2me\0one"
    header, _ = decode_request_header(frame)
    assert comparable(header, frame) == comparable(header, frame[:7] + b"\x09" + frame[8:])
    assert comparable(header, frame) != comparable(header, frame[:-3] + b"two")
    assert comparable(header, frame, is_hidden=True) == {"bytes": None}
