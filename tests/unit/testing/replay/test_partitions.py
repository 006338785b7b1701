"""Answers for partitions that were asked for in another combination, in the wire's bytes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import RequestHeader, decode_response, encode_request, encode_response
from aiokafkapy.protocol.messages import build_request, build_response
from aiokafkapy.testing.replay.comparison import comparable
from aiokafkapy.testing.replay.partitions import put_together

TOPIC, OTHER = UUID(int=1), UUID(int=2)
HEADER = RequestHeader(ApiKey.FETCH, 16, 7, "it")
Place = tuple[UUID, int, int]


def asked(*places: Place) -> Any:
    """The values of a fetch from these offsets."""
    topics = [
        {"topic_id": topic, "partitions": [{"partition": number, "fetch_offset": offset, "partition_max_bytes": 1}]}
        for topic, number, offset in places
    ]
    body = build_request(ApiKey.FETCH, 16, max_wait=1, min_bytes=1, topics=topics, forgotten_topics_data=[])
    return comparable(HEADER, encode_request(body, 7, "it")[4:])


def told(*places: tuple[UUID, int, bytes], session_id: int = 0) -> bytes:
    """An answer with these records."""
    responses = [
        {"topic_id": topic, "partitions": [{"partition_index": number, "records": records, "aborted_transactions": []}]}
        for topic, number, records in places
    ]
    return bytes(encode_response(build_response(ApiKey.FETCH, 16, session_id=session_id, responses=responses), 1))


def records_of(answer: bytes | None) -> list[tuple[UUID, int, bytes]]:
    assert answer is not None
    correlation_id, body = decode_response(ApiKey.FETCH, 16, bytes(answer)[4:])
    assert correlation_id == 7
    return [
        (each.topic_id, one.partition_index, bytes(one.records)) for each in body.responses for one in each.partitions
    ]


BOTH = (asked((TOPIC, 0, 0), (TOPIC, 1, 0)), told((TOPIC, 0, b"a"), (TOPIC, 1, b"b")))
LATER = (asked((TOPIC, 0, 5), (OTHER, 0, 0)), told((TOPIC, 0, b"c"), (OTHER, 0, b"d")))


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([(TOPIC, 1, 0)], [(TOPIC, 1, b"b")]),
        ([(TOPIC, 0, 5), (TOPIC, 1, 0)], [(TOPIC, 0, b"c"), (TOPIC, 1, b"b")]),
        ([(OTHER, 0, 0)], [(OTHER, 0, b"d")]),
    ],
)
def test_each_partition_has_the_answer_that_it_had(places: list[Place], expected: list[Any]) -> None:
    assert sorted(records_of(put_together(HEADER, asked(*places), [BOTH, LATER]))) == sorted(expected)


@pytest.mark.parametrize("places", [[(TOPIC, 1, 5)], [(TOPIC, 0, 0), (TOPIC, 2, 0)], []])
def test_there_is_no_answer_where_one_of_them_was_never_asked_for_there(places: list[Place]) -> None:
    assert put_together(HEADER, asked(*places), [BOTH, LATER]) is None


def test_answers_of_a_session_are_not_taken_apart() -> None:
    known = [(BOTH[0], told((TOPIC, 0, b"a"), (TOPIC, 1, b"b"), session_id=3))]
    assert put_together(HEADER, asked((TOPIC, 1, 0)), known) is None


def test_offsets_of_partitions_too() -> None:
    header = RequestHeader(ApiKey.LIST_OFFSETS, 6, 7, "it")

    def wanted(*numbers: int) -> Any:
        partitions = [{"partition_index": number, "timestamp": -2} for number in numbers]
        body = build_request(ApiKey.LIST_OFFSETS, 6, topics=[{"name": "t", "partitions": partitions}])
        return comparable(header, encode_request(body, 7, "it")[4:])

    partitions = [{"partition_index": number, "offset": 10 + number} for number in range(2)]
    body = build_response(ApiKey.LIST_OFFSETS, 6, topics=[{"name": "t", "partitions": partitions}])
    answer = put_together(header, wanted(1), [(wanted(0, 1), bytes(encode_response(body, 1)))])
    assert answer is not None
    _, found = decode_response(ApiKey.LIST_OFFSETS, 6, bytes(answer)[4:])
    assert [one.offset for each in found.topics for one in each.partitions] == [11]


OFFSETS = {1: ("g", {0: 5, 1: 6}), 2: ("g", {2: 7}), 3: ("other", {0: 9})}


def offsets_asked(version: int, group: str, numbers: list[int] | None) -> Any:
    """The values of a request for a group's committed offsets; None: of all partitions."""
    topics = None if numbers is None else [{"name": "t", "partition_indexes": numbers}]
    fields: dict[str, Any] = {"group_id": group, "topics": topics}
    if version >= 8:
        fields = {"groups": [{**fields, "member_id": None, "member_epoch": -1}]}
    body = build_request(ApiKey.OFFSET_FETCH, version, require_stable=False, **fields)
    return comparable(offset_header(version), encode_request(body, 7, "it")[4:])


def offset_header(version: int) -> RequestHeader:
    return RequestHeader(ApiKey.OFFSET_FETCH, version, 7, "it")


def offsets_told(version: int, group: str, offsets: dict[int, int], error_code: int = 0) -> bytes:
    partitions = [
        {"partition_index": number, "committed_offset": offset, "committed_leader_epoch": -1, "metadata": ""}
        for number, offset in offsets.items()
    ]
    fields: dict[str, Any] = {"topics": [{"name": "t", "partitions": partitions}], "error_code": error_code}
    if version >= 8:
        fields = {"groups": [{"group_id": group, **fields}]}
    return bytes(encode_response(build_response(ApiKey.OFFSET_FETCH, version, **fields), 1))


@pytest.mark.parametrize("version", [7, 9])
def test_committed_offsets_are_put_together_for_each_group_by_itself(version: int) -> None:
    header = offset_header(version)
    known = [
        (offsets_asked(version, group, list(offsets)), offsets_told(version, group, offsets))
        for group, offsets in OFFSETS.values()
    ]
    answer = put_together(header, offsets_asked(version, "g", [0, 2]), known)
    assert answer is not None
    correlation_id, body = decode_response(ApiKey.OFFSET_FETCH, version, bytes(answer)[4:])
    topics = body.groups[0].topics if version >= 8 else body.topics
    found = [(one.partition_index, one.committed_offset) for topic in topics for one in topic.partitions]
    assert (correlation_id, found) == (7, [(0, 5), (2, 7)])
    if version >= 8:
        assert [group.group_id for group in body.groups] == ["g"]
    assert put_together(header, offsets_asked(version, "other", [1]), known) is None
    assert put_together(header, offsets_asked(version, "g", None), known) is None  # nobody knows whether these are all


@pytest.mark.parametrize("version", [7, 9])
def test_an_answer_for_all_of_a_groups_partitions_has_each_of_them_and_a_failed_one_none(version: int) -> None:
    header = offset_header(version)
    everything = offsets_asked(version, "g", None)
    known = [(everything, offsets_told(version, "g", {0: 5, 1: 6}))]
    assert put_together(header, offsets_asked(version, "g", [1]), known) is not None
    failed = [(everything, offsets_told(version, "g", {0: 5, 1: 6}, error_code=16))]
    assert put_together(header, offsets_asked(version, "g", [1]), failed) is None
