"""aiokafkapy.protocol.produce_request: the bytes of Java and of kio."""

from __future__ import annotations

import datetime
import importlib
import io
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta

from aiokafkapy.common import Buffer
from aiokafkapy.protocol.produce_request import (
    SMALL_BUFFER,
    encode_lone_produce_request,
    encode_produce_request,
)
from tests.unit.protocol.java_frames import BATCHES, FRAMES, VERSIONS, topic_id

INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(max_size=30)
TOPIC_IDS = st.binary(min_size=16, max_size=16).filter(any)


class TestRequestsOfJava:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_are_encoded_alike(self, version: int) -> None:
        plain, mixed = BATCHES["plain"], BATCHES["mixed"]
        pieces = encode_produce_request(
            version,
            version * 100,
            None if version == 4 else "client-ü",
            None if version % 2 == 0 else "transaction-ü",
            version % 3 - 1,
            30_000 + version,
            [
                ("topic-0", topic_id(0), [(0, [plain])]),
                ("topic-1", topic_id(1), [(0, [plain[:61], memoryview(plain)[61:]]), (1000, [mixed])]),
            ],
        )
        frame = b"".join(pieces)
        assert frame[4:] == FRAMES[f"request-{version}"]
        assert int.from_bytes(frame[:4]) == len(frame) - 4


BUFFERS = st.lists(st.binary(min_size=1, max_size=40) | st.just(bytes(SMALL_BUFFER + 1)), min_size=1, max_size=4)
TOPICS = st.lists(
    st.tuples(
        st.text(min_size=1, max_size=20),
        TOPIC_IDS,
        st.lists(st.tuples(INT32, BUFFERS), max_size=4),
    ),
    max_size=4,
)


class TestRequests:
    @given(
        version=st.sampled_from(VERSIONS),
        correlation_id=INT32,
        client_id=TEXT | st.none(),
        transactional_id=TEXT | st.none(),
        acks=st.sampled_from([-1, 0, 1]),
        timeout_ms=st.integers(0, 2**31 - 1),
        topics=TOPICS,
    )
    def test_are_those_of_kio(
        self,
        version: int,
        correlation_id: int,
        client_id: str | None,
        transactional_id: str | None,
        acks: int,
        timeout_ms: int,
        topics: Any,
    ) -> None:
        pieces = encode_produce_request(version, correlation_id, client_id, transactional_id, acks, timeout_ms, topics)
        frame = b"".join(pieces)
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        schema = importlib.import_module(f"kio.schema.produce.v{version}.request")
        header = schema.ProduceRequest.__header_schema__(
            request_api_key=0, request_api_version=version, correlation_id=correlation_id, client_id=client_id
        )
        body = schema.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout=i32Timedelta.parse(datetime.timedelta(milliseconds=timeout_ms)),
            topic_data=tuple(
                schema.TopicProduceData(
                    **({"topic_id": uuid.UUID(bytes=identity)} if version >= 13 else {"name": name}),
                    partition_data=tuple(
                        schema.PartitionProduceData(index=index, records=b"".join(buffers))
                        for index, buffers in partitions
                    ),
                )
                for name, identity, partitions in topics
            ),
        )
        target = io.BytesIO()
        entity_writer(type(header))(target, header)
        entity_writer(type(body))(target, body)
        assert frame[4:] == target.getvalue()

    @given(
        version=st.sampled_from([9, 12, 13, 13]),
        client_id=TEXT | st.none(),
        transactional_id=st.none() | TEXT,
        acks=st.sampled_from([-1, 0, 1]),
        identity=TOPIC_IDS,
        partition=INT32,
        buffers=BUFFERS
        | st.sampled_from([bytes(size) for size in (1, 126, 127, 128, 16_382, 16_383, 2_097_150, 2_097_151)]).map(
            lambda b: [b]
        ),
    )
    def test_of_one_batch_are_the_same_by_the_short_way(
        self,
        version: int,
        client_id: str | None,
        transactional_id: str | None,
        acks: int,
        identity: bytes,
        partition: int,
        buffers: list[Buffer],
    ) -> None:
        start = (version, 7, client_id, transactional_id, acks, 1000)
        for _ in range(2):  # the second time the head of the first is there
            short = encode_lone_produce_request(*start, "t", identity, partition, tuple(buffers))
            assert b"".join(short) == b"".join(
                encode_produce_request(*start, [("t", identity, [(partition, buffers)])])
            )

    def test_pass_large_buffers_on_without_a_copy_and_join_the_small(self) -> None:
        large: list[Buffer] = [bytes(SMALL_BUFFER + 1), memoryview(bytes(100_000))]
        buffers: list[Buffer] = [bytes(61), large[0], bytes(10), large[1]]
        pieces = encode_produce_request(9, 1, "c", None, -1, 1000, [("t", None, [(0, buffers), (1, [bytes(100)])])])
        assert len(pieces) == 5
        assert pieces[1] is large[0]
        assert pieces[3] is large[1]
        assert {type(piece) for piece in pieces[::2]} == {bytes}

    def test_of_one_small_batch_are_one_piece(self) -> None:
        assert (
            len(encode_produce_request(9, 1, "c", None, -1, 1000, [("t", None, [(0, [bytes(61), bytes(100)])])])) == 1
        )

    def test_need_topic_ids_from_version_13(self) -> None:
        with pytest.raises(ValueError, match="needs the id of topic t"):
            encode_produce_request(13, 1, "c", None, -1, 1000, [("t", None, [])])

    @pytest.mark.parametrize("version", [2, 14])
    def test_of_other_versions_are_refused(self, version: int) -> None:
        with pytest.raises(ValueError, match="not between 3 and 13"):
            encode_produce_request(version, 1, "c", None, -1, 1000, [])


def test_kio_reads_the_message_that_was_written() -> None:
    pieces = encode_produce_request(9, 7, "c", None, -1, 1000, [("t", None, [(0, [b"batch"])])])
    schema = importlib.import_module("kio.schema.produce.v9.request")
    frame = b"".join(pieces)[4:]
    header, offset = entity_reader(schema.ProduceRequest.__header_schema__)(frame, 0)
    body, _ = entity_reader(schema.ProduceRequest)(frame, offset)
    assert (header.correlation_id, body.topic_data[0].partition_data[0].records) == (7, b"batch")
