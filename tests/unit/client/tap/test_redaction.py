from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.client.tap.redaction import redacted_request, redacted_response
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_request, decode_response, encode_request, encode_response
from aiokafkapy.protocol.messages import build_request, build_response
from aiokafkapy.record.batch import iter_batches
from aiokafkapy.record.compression import Compression
from tests.unit.client.tap.secret_batches import SECRET, batch

MOST = 1_000_000


def produce(records: bytes, version: int = 9) -> bytes:
    data = [{"name": "orders", "partition_data": [{"index": 2, "records": records}]}]
    return encode_request(build_request(ApiKey.PRODUCE, version, acks=-1, timeout=1_000, topic_data=data), 7, "me")


@pytest.mark.parametrize("version", [3, 8, 9])
def test_the_offsets_and_sizes_of_records_are_left(version: int) -> None:
    frame = produce(batch() + batch(), version)
    hidden = redacted_request(frame, payloads=False, most_decoded=MOST)
    assert len(hidden) == len(frame)
    assert not any(part in hidden for part in (SECRET, b"a key", b"a header", b"its value"))
    header, body = decode_request(hidden[4:])
    assert (header.correlation_id, header.client_id, body.topic_data[0].name) == (7, "me", "orders")
    for each in iter_batches(body.topic_data[0].partition_data[0].records):  # whose checksums are looked at
        first, second = each.records()
        assert (first.key, first.value, first.timestamp_ms) == (bytes(5), bytes(len(SECRET)), 1_700_000_000_000)
        assert first.headers == (("\0" * 8, bytes(9)), ("\0" * 4, None))
        assert (second.offset - first.offset, second.key, second.value) == (1, None, None)


def test_compressed_records_are_zeros_behind_the_header_of_their_batch() -> None:
    hidden = redacted_request(produce(batch(Compression.GZIP)), payloads=False, most_decoded=MOST)
    records = decode_request(hidden[4:])[1].topic_data[0].partition_data[0].records
    (each,) = iter_batches(records)
    assert each.record_count == 2
    assert bytes(records)[61:].strip(b"\0") == b""


@pytest.mark.parametrize(
    "records", [SECRET, batch()[:-3], batch() + SECRET, b"\0" * 16 + b"\1" + SECRET * 5, batch()[:61] + SECRET * 9]
)
def test_bytes_that_are_not_a_whole_batch_are_zeros(records: bytes) -> None:
    frame = produce(records)
    hidden = redacted_request(frame, payloads=False, most_decoded=MOST)
    assert len(hidden) == len(frame)
    assert SECRET not in hidden
    assert b"orders" in hidden


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_batch_that_counts_otherwise_than_it_has_is_zeros(count: int) -> None:
    """A broker's answer may have any content."""
    records = bytearray(batch())
    struct.pack_into(">i", records, 57, count)
    hidden = redacted_request(produce(bytes(records)), payloads=False, most_decoded=MOST)
    assert not any(part in hidden for part in (SECRET, b"a key", b"a header", b"its value"))
    assert decode_request(hidden[4:])[1].topic_data[0].partition_data[0].records == bytes(len(records))


@given(st.data())
def test_no_payload_is_left_in_any_bytes_of_records(data: st.DataObject) -> None:
    records = bytearray(batch() + batch())
    for _ in range(data.draw(st.integers(1, 3))):
        records[data.draw(st.integers(0, len(records) - 1))] = data.draw(st.integers(0, 255))
    frame = produce(bytes(records[: data.draw(st.integers(0, len(records)))]))
    hidden = redacted_request(frame, payloads=False, most_decoded=MOST)
    assert len(hidden) == len(frame)
    # A damaged length may take a byte or two of its neighbours for a number, and no more.
    assert not any(part in hidden for part in (SECRET[:8], SECRET[-8:], b"a header", b"its value"))


def test_records_are_there_with_payloads() -> None:
    frame = produce(batch())
    assert redacted_request(frame, payloads=True, most_decoded=MOST) is frame


@pytest.mark.parametrize("payloads", [False, True])
def test_proofs_of_identity_never_are(payloads: bool) -> None:
    proof = encode_request(build_request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0user\0hunter2"), 1, "me")
    hidden = redacted_request(proof, payloads=payloads, most_decoded=MOST)
    assert decode_request(hidden[4:])[1].auth_bytes == bytes(13)
    answer = encode_response(build_response(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"v=hunter2"), 1)
    hidden = redacted_response(ApiKey.SASL_AUTHENTICATE, 2, answer, payloads=payloads, most_decoded=MOST)
    assert decode_response(ApiKey.SASL_AUTHENTICATE, 2, hidden[4:])[1].auth_bytes == bytes(9)
    entries = [{"name": "ssl.keystore.password", "value": "hünter2"}, {"name": "retention.ms", "value": "77"}]
    topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": entries}]
    frame = encode_request(build_request(ApiKey.CREATE_TOPICS, 5, topics=topics, timeout=1_000), 1, "me")
    hidden = redacted_request(frame, payloads=payloads, most_decoded=MOST)
    (secret, plain) = decode_request(hidden[4:])[1].topics[0].configs
    assert (secret.value, plain.value) == ("*" * 8, "77")


def test_a_frame_with_nothing_to_hide_is_left_as_it_came() -> None:
    frame = encode_request(build_request(ApiKey.METADATA, 12, topics=[{"name": "orders"}]), 7, "me")
    assert redacted_request(frame, payloads=False, most_decoded=MOST) is frame
    # A newer broker's tagged field would be lost, were it put together again.
    answer = encode_response(build_response(ApiKey.API_VERSIONS, 3), 7)
    longer = answer[:-1] + b"\x01\x63\x03new"
    longer = struct.pack(">i", len(longer) - 4) + longer[4:]
    assert redacted_response(ApiKey.API_VERSIONS, 3, longer, payloads=False, most_decoded=MOST) is longer


@pytest.mark.parametrize("payloads", [False, True])
def test_a_request_that_cannot_be_taken_apart_has_its_header_and_zeros(payloads: bool) -> None:
    frame = produce(batch())
    cut = struct.pack(">i", 30) + frame[4:30] + b"hunt"
    hidden = redacted_request(cut, payloads=payloads, most_decoded=MOST)
    assert (len(hidden), hidden[:16]) == (len(cut), cut[:16])
    assert b"hunt" not in hidden
    unknown = struct.pack(">ihhih", 22, 999, 0, 5, -1) + b"hunter2hunter2"
    assert redacted_request(unknown, payloads=payloads, most_decoded=MOST) == unknown[:14] + bytes(len(unknown) - 14)
    answer = struct.pack(">ii", 11, 5) + b"hunter2"
    assert redacted_response(ApiKey.METADATA, 12, answer, payloads=payloads, most_decoded=MOST)[:8] == answer[:8]
    assert b"hunter" not in redacted_response(ApiKey.METADATA, 12, answer, payloads=payloads, most_decoded=MOST)
    assert redacted_request(b"\0\0\0\1x", payloads=payloads, most_decoded=MOST) == b"\0\0\0\1x"


def test_a_large_frame_is_not_taken_apart() -> None:
    frame = produce(batch(value=bytes(1_000) + SECRET))
    hidden = redacted_request(frame, payloads=False, most_decoded=500)
    assert (len(hidden), SECRET in hidden, b"me" in hidden, b"orders" in hidden) == (len(frame), False, True, False)
    assert redacted_request(frame, payloads=True, most_decoded=500) is frame, (
        "it has payloads, and nothing else to hide"
    )
    fields: dict[str, Any] = {"auth_bytes": SECRET * 50}
    proof = encode_request(build_request(ApiKey.SASL_AUTHENTICATE, 2, **fields), 1, "me")
    assert SECRET not in redacted_request(proof, payloads=True, most_decoded=500)
    answer = encode_response(build_response(ApiKey.SASL_AUTHENTICATE, 2, **fields), 1)
    assert SECRET not in redacted_response(ApiKey.SASL_AUTHENTICATE, 2, answer, payloads=True, most_decoded=500)
