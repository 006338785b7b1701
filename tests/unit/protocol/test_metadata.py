from __future__ import annotations

import itertools
from typing import Any
from uuid import UUID

import pytest

from aiokafkapy.common import milliseconds
from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.protocol.api import ApiKey, schema_versions
from aiokafkapy.protocol.codec import decode_response, encode_request, encode_response
from aiokafkapy.protocol.cursor import Cursor, FieldReader
from aiokafkapy.protocol.messages import build_request, build_response
from aiokafkapy.protocol.metadata import encode_metadata_request, read_metadata_response

LOWEST, HIGHEST = schema_versions(ApiKey.METADATA)
VERSIONS = range(LOWEST, HIGHEST + 1)
NAMES = ["t", "ü", "n" * 125, "n" * 126, "n" * 127, "n" * 249]


def message(version: int) -> Any:
    partition = {"partition_index": 0, "leader_id": 1, "leader_epoch": 4, "replica_nodes": [1, 2], "isr_nodes": [1]}
    topics = [
        {"name": "a", "topic_id": UUID(int=1), "partitions": [partition, partition | {"partition_index": 1}]},
        {"name": "b", "topic_id": UUID(int=2), "error_code": 5},
    ]
    brokers = [{"node_id": 1, "host": "h", "port": 9}, {"node_id": 2, "host": "ü", "port": 70_000, "rack": "r"}]
    other: dict[str, object] = {"error_code": 7, "throttle_time": 250}
    return build_response(
        ApiKey.METADATA, version, brokers=brokers, cluster_id="c", controller_id=1, topics=topics, **other
    )


def values(message: Any) -> dict[str, object]:
    """The fields of our own message, out of a message of ours or of kio's."""
    throttle_time = getattr(message, "throttle_time", None)
    return {
        "brokers": [(each.node_id, each.host, each.port, getattr(each, "rack", None)) for each in message.brokers],
        "cluster_id": getattr(message, "cluster_id", None),
        "controller_id": getattr(message, "controller_id", None),
        "error_code": getattr(message, "error_code", 0),
        "throttle_time_ms": getattr(
            message, "throttle_time_ms", None if throttle_time is None else milliseconds(throttle_time)
        ),
        "topics": message.topics,
    }


class TestRequests:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_is_as_kio_writes_it(self, version: int) -> None:
        lists = [[], ["t"], NAMES, [f"t-{number}" for number in range(300)]]
        for topics, creates in itertools.product(lists, [False, True]):
            body = build_request(
                ApiKey.METADATA,
                version,
                topics=[{"name": topic, "topic_id": None} for topic in topics],
                allow_auto_topic_creation=creates,
            )
            assert encode_metadata_request(version, 7, "me", topics, creates) == [encode_request(body, 7, "me")]

    @pytest.mark.parametrize("version", VERSIONS[1:])
    def test_all_topics_are_asked_for_with_a_null(self, version: int) -> None:
        body = build_request(ApiKey.METADATA, version, topics=None, allow_auto_topic_creation=False)
        assert encode_metadata_request(version, 7, None, None, False) == [encode_request(body, 7, None)]

    def test_version_0_asks_for_all_with_an_empty_array(self) -> None:
        body = build_request(ApiKey.METADATA, 0, topics=[])
        assert encode_metadata_request(0, 7, "me", None, False) == [encode_request(body, 7, "me")]


class TestAnswers:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_is_kios_message_when_each_topic_is_read_as_kio_has_it(self, version: int) -> None:
        frame = encode_response(message(version), 7)[4:]
        read = read_metadata_response(version, frame, lambda read_message, cursor: read_message(cursor))
        assert values(read) == values(decode_response(ApiKey.METADATA, version, frame)[1]) == values(message(version))

    @pytest.mark.parametrize("version", VERSIONS)
    def test_topics_are_the_list_that_is_made_of_them(self, version: int) -> None:
        def name(read_message: FieldReader, cursor: Cursor) -> object:
            return read_message(cursor).name

        frame = encode_response(message(version), 7)[4:]
        assert read_metadata_response(version, frame, name).topics == ("a", "b")

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_frame_cut_anywhere_is_malformed(self, version: int) -> None:
        frame = encode_response(message(version), 7)[4:]
        for size in range(len(frame)):
            with pytest.raises(MalformedFrameError):
                read_metadata_response(version, frame[:size], lambda read_message, cursor: read_message(cursor))

    @pytest.mark.parametrize("version", VERSIONS)
    def test_bytes_after_it_are_ignored(self, version: int) -> None:
        """librdkafka's mock cluster sends one."""
        frame = encode_response(message(version), 7)[4:]
        answer = read_metadata_response(version, frame + b"\0", lambda read_message, cursor: read_message(cursor))
        assert values(answer) == values(message(version))
