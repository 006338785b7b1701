"""aiokafkapy.protocol.produce_response: the bytes of Java and of kio, and no trust in a response."""

from __future__ import annotations

import datetime
import gc
import importlib
import io
import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import i32Timedelta

from aiokafkapy import compiled
from aiokafkapy.common import Node
from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.protocol import produce_response
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import encode_response
from aiokafkapy.protocol.messages import build_response
from aiokafkapy.protocol.produce_response import PartitionProduceResponse, ProduceResponse, decode_produce_response
from tests.unit.protocol.java_frames import BASE, FRAMES, VERSIONS, topic_id

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=30)
ID = bytes(15) + b"\7"


class TestResponsesOfJava:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_are_decoded(self, version: int) -> None:
        partitions = []
        for topic, partition in ((0, 0), (1, 0), (1, 1)):
            blamed = version >= 8 and partition == 1
            partitions.append(
                PartitionProduceResponse(
                    topic=f"topic-{topic}" if version < 13 else None,
                    topic_id=topic_id(topic) if version >= 13 else None,
                    partition=partition,
                    error_code=6 if topic else 0,
                    base_offset=-1 if topic else 1 << 33,
                    log_append_time_ms=BASE if partition else -1,
                    log_start_offset=17 if version >= 5 else -1,
                    record_errors=((3, "bad ü"), (4, None)) if blamed else (),
                    error_message="not mine" if blamed else None,
                    current_leader=(2, 11) if topic and version >= 10 else None,
                )
            )
        nodes = (Node(2, "host-2", 9093, "rack-a"), Node(3, "host-3", 9094)) if version >= 10 else ()
        assert decode_produce_response(version, FRAMES[f"response-{version}"]) == ProduceResponse(
            version * 100, version * 7, partitions, nodes
        )

    @pytest.mark.parametrize("version", VERSIONS)
    def test_are_decoded_from_a_view(self, version: int) -> None:
        frame = FRAMES[f"response-{version}"]
        assert decode_produce_response(version, memoryview(frame)) == decode_produce_response(version, frame)  # type: ignore[arg-type]

    @pytest.mark.parametrize("version", VERSIONS)
    def test_are_refused_wherever_they_are_cut(self, version: int) -> None:
        frame = FRAMES[f"response-{version}"]
        for length in range(len(frame)):
            with pytest.raises(MalformedFrameError):
                decode_produce_response(version, frame[:length])
        with pytest.raises(MalformedFrameError, match="1 bytes are left"):
            decode_produce_response(version, frame + b"\0")

    @settings(max_examples=500)
    @given(version=st.sampled_from(VERSIONS), random=st.randoms(use_true_random=False))
    def test_raise_nothing_else_when_mutated(self, version: int, random: random.Random) -> None:
        frame = bytearray(FRAMES[f"response-{version}"])
        for _ in range(random.randint(1, 4)):
            frame[random.randrange(len(frame))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        try:
            decode_produce_response(version, bytes(frame))
        except MalformedFrameError:
            pass


PARTITION = st.tuples(
    INT32,
    st.sampled_from(ErrorCode),
    INT64,
    st.none() | st.integers(0, 4_000_000_000_000),
    INT64,
    st.lists(st.tuples(INT32, TEXT | st.none()), max_size=3),
    TEXT | st.none(),
    st.tuples(st.integers(-1, 2**31 - 1), INT32),
)


class TestResponses:
    @given(
        version=st.sampled_from(VERSIONS),
        correlation_id=INT32,
        throttle_ms=st.integers(0, 2**31 - 1),
        topics=st.lists(
            st.tuples(
                st.text(min_size=1, max_size=20),
                st.uuids().filter(lambda value: value.int != 0),
                st.lists(PARTITION, max_size=3),
            ),
            max_size=3,
        ),
        nodes=st.lists(st.builds(Node, INT32, st.text(min_size=1, max_size=20), INT32, TEXT | st.none()), max_size=3),
    )
    def test_of_kio_are_decoded(
        self, version: int, correlation_id: int, throttle_ms: int, topics: Any, nodes: list[Node]
    ) -> None:
        schema = importlib.import_module(f"kio.schema.produce.v{version}.response")
        header_class = schema.ProduceResponse.__header_schema__
        body = schema.ProduceResponse(
            responses=tuple(self._topic(schema, version, topic) for topic in topics),
            throttle_time=i32Timedelta.parse(datetime.timedelta(milliseconds=throttle_ms)),
            **(
                {"node_endpoints": tuple(schema.NodeEndpoint(**node._asdict()) for node in nodes)}
                if version >= 10
                else {}
            ),
        )
        target = io.BytesIO()
        entity_writer(header_class)(target, header_class(correlation_id=correlation_id))
        entity_writer(type(body))(target, body)
        decoded = decode_produce_response(version, target.getvalue())
        assert decoded.correlation_id == correlation_id
        assert decoded.throttle_time_ms == throttle_ms
        assert decoded.node_endpoints == (tuple(nodes) if version >= 10 else ())
        assert decoded.partitions == [
            PartitionProduceResponse(
                name if version < 13 else None,
                identity.bytes if version >= 13 else None,
                index,
                int(error),
                offset,
                -1 if append_time is None else append_time,
                start_offset if version >= 5 else -1,
                tuple(record_errors) if version >= 8 else (),
                message if version >= 8 else None,
                leader if version >= 10 and leader[0] >= 0 else None,
            )
            for name, identity, partitions in topics
            for index, error, offset, append_time, start_offset, record_errors, message, leader in partitions
        ]

    @staticmethod
    def _topic(schema: Any, version: int, topic: Any) -> Any:
        name, identity, partitions = topic
        built = []
        for index, error, offset, append_time, start_offset, record_errors, message, leader in partitions:
            fields: dict[str, Any] = {"index": index, "error_code": error, "base_offset": offset}
            if append_time is not None:
                seconds, milliseconds = divmod(append_time, 1000)
                fields["log_append_time"] = datetime.datetime.fromtimestamp(seconds, datetime.UTC) + datetime.timedelta(
                    milliseconds=milliseconds
                )
            if version >= 5:
                fields["log_start_offset"] = start_offset
            if version >= 8:
                fields["record_errors"] = tuple(
                    schema.BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
                    for at, text in record_errors
                )
                fields["error_message"] = message
            if version >= 10:
                fields["current_leader"] = schema.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
            built.append(schema.PartitionProduceResponse(**fields))
        identification = {"topic_id": identity} if version >= 13 else {"name": name}
        return schema.TopicProduceResponse(**identification, partition_responses=tuple(built))

    def test_keep_error_codes_that_nobody_knows(self) -> None:
        frame = bytearray(FRAMES["response-9"])
        at = frame.index(b"topic-0") + len(b"topic-0") + 1 + 4
        frame[at : at + 2] = (31_000).to_bytes(2)
        assert decode_produce_response(9, bytes(frame)).partitions[0].error_code == 31_000

    def test_skip_tagged_fields_that_nobody_knows(self) -> None:
        tags = bytes.fromhex("02" + "07" + "03" + "aabbcc" + "8001" + "00")
        frame = (5).to_bytes(4) + tags + bytes.fromhex("01") + (0).to_bytes(4) + tags
        assert decode_produce_response(10, frame) == ProduceResponse(5, 0, [], ())

    @pytest.mark.parametrize(
        ("version", "body"),
        [
            (3, "ffffffff 00000000"),  # a null array of topics
            (3, "7fffffff 00000000"),  # more topics than bytes
            (3, "00000001 ffff 00000000 00000000"),  # a topic without a name
            (3, "00000001 7fff 61 00000000"),  # a name longer than the frame
            (3, "00000001 0001 ff 00000000 00000000"),  # a name that is not valid UTF-8
            (9, "00 00 00000000 00"),  # a null array of topics
            (9, "00 ffffffff0f 00000000 00"),  # more topics than bytes
            (9, "00 ffffffffff0f 00000000 00"),  # a varint of more than 32 bits
            (9, "00 01 00000000 ffffffff0f"),  # more tags than bytes
            (9, "00 01 00000000 01 05 7f"),  # a tag longer than the frame
            (10, "00 01 00000000 01 00 01 05"),  # node endpoints: more than bytes
            (10, "00 01 00000000 01 00 02 01 00"),  # node endpoints: a tag longer than its content
            (10, "00 01 00000000 01 00 0d 02 00000001 00 00000005 00 00"),  # a node endpoint without a host
        ],
    )
    def test_that_do_not_add_up_are_refused(self, version: int, body: str) -> None:
        with pytest.raises(MalformedFrameError):
            decode_produce_response(version, bytes(4) + bytes.fromhex(body))

    @given(version=st.sampled_from(VERSIONS), data=st.binary(max_size=100))
    def test_that_are_garbage_raise_nothing_else(self, version: int, data: bytes) -> None:
        try:
            decode_produce_response(version, data)
        except MalformedFrameError:
            pass


@given(st.integers(0, 61), st.integers(0, 255), st.sampled_from([None, ID, bytes(16)]))
def test_the_short_cut_for_a_lone_answer_reads_the_same_as_the_long_way(
    position: int, byte: int, requested: bytes | None
) -> None:
    """One changed byte at any place: the same answer, or the same refusal, by both ways."""
    body = build_response(
        ApiKey.PRODUCE,
        13,
        throttle_time=5,
        responses=[
            {
                "topic_id": uuid.UUID(bytes=ID),
                "partition_responses": [{"index": 3, "base_offset": 9, "log_append_time": -1, "log_start_offset": 2}],
            }
        ],
    )
    frame = bytearray(encode_response(body, 4)[4:])
    assert len(frame) == 62
    frame[position] = byte

    def read(decode: Callable[..., ProduceResponse], *topic_id: bytes | None) -> object:
        try:
            return decode(13, bytes(frame), *topic_id)
        except MalformedFrameError as error:
            return str(error)

    assert read(produce_response.decode_produce_response, requested) == read(produce_response._decode_any_answer)


@pytest.mark.skipif(not compiled, reason="interpreted objects are always tracked")
def test_the_cyclic_collector_does_not_see_compiled_answers() -> None:
    """Cython drops ``no_gc`` silently when it stands in the .pxd."""
    answers = decode_produce_response(13, FRAMES["response-13"]).partitions
    assert answers
    assert not any(map(gc.is_tracked, answers))
