"""No secret and, if asked, no payload comes into a recording, and the messages stay as valid as they were."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_request, decode_request_header, decode_response
from aiokafkapy.record.batch import ControlType, RecordBatch, control_batch, iter_batches
from aiokafkapy.record.compression import Compression
from aiokafkapy.testing.recording.hiding import NO_HEADER, HiddenFrame, Hiding

from ..recordings import answer, produce, records, request

SECRET = b"correct horse battery staple"
TIMES = dict.fromkeys(("issue_timestamp", "expiry_timestamp", "max_timestamp"), 1)
KEPT = Hiding(hash_payloads=False)
HASHED = Hiding(hash_payloads=True)
BOTH = pytest.mark.parametrize("hiding", [KEPT, HASHED], ids=["kept", "hashed"])


def asked(frame: bytes, hiding: Hiding = KEPT, **options: Any) -> HiddenFrame:
    return hiding.request(frame[4:], **options)


def answered(data: bytes, api_key: int, version: int, hiding: Hiding = KEPT) -> HiddenFrame:
    header, _ = decode_request_header(request(api_key, version)[4:])
    return hiding.answer(header, data)


def only_batch(hidden: HiddenFrame) -> RecordBatch:
    _, body = decode_request(hidden.wire[4:])
    (found,) = iter_batches(body.topic_data[0].partition_data[0].records)
    found.validate()
    return found


def test_a_request_without_secrets_is_kept_byte_for_byte() -> None:
    frame = produce(records(SECRET, codec=Compression.GZIP))
    hidden = asked(frame)
    assert (hidden.wire, hidden.is_hidden, hidden.header.api_key) == (frame, False, ApiKey.PRODUCE)


@pytest.mark.parametrize("codec", list(Compression))
def test_digests_are_as_long_as_the_payloads_in_a_batch_that_is_as_valid(codec: Compression) -> None:
    frame = produce(records(SECRET, b"", None, SECRET, key=b"a key", codec=codec))
    hidden = asked(frame, HASHED)
    batch = only_batch(hidden)
    found = batch.records()
    assert batch.compression is codec
    assert (batch.producer_id, batch.base_sequence, batch.record_count) == (5, 10, 4)
    assert [record.value if record.value is None else len(record.value) for record in found] == [28, 0, None, 28]
    assert [name for name, _ in found[0].headers] == ["a header", "none"]
    assert found[0].headers[1][1] is None
    assert found[0].timestamp_ms == 1_700_000_000_000
    assert found[0].value == found[3].value  # equal ones stay equal
    assert found[0].key == found[1].key
    for part in (SECRET, b"a key", b"its value"):
        assert part not in hidden.wire
        assert part not in repr(found).encode()
    if codec is Compression.NONE:
        assert len(hidden.wire) == len(frame)


def test_another_recording_has_other_digests() -> None:
    frame = produce(records(SECRET))
    first, second = (only_batch(asked(frame, Hiding(hash_payloads=True))).records()[0].value for _ in range(2))
    assert first != second


@given(values=st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=5))
def test_only_the_size_of_any_payload_is_left(values: list[bytes | None]) -> None:
    found = only_batch(asked(produce(records(*values)), HASHED)).records()
    sizes = [None if value is None else len(value) for value in values]
    assert [None if record.value is None else len(record.value) for record in found] == sizes


@pytest.mark.parametrize("version", [4, 12, 16])
def test_fetched_records_become_digests_and_markers_of_transactions_stay(version: int) -> None:
    marker = bytes(
        control_batch(ControlType.COMMIT, producer_id=5, producer_epoch=1, coordinator_epoch=2, timestamp_ms=3)
    )
    data = records(SECRET, codec=Compression.LZ4) + marker + records(SECRET)[:-3]
    partitions = [{"partition_index": 0, "high_watermark": 9, "last_stable_offset": 9, "records": data}]
    frame = answer(ApiKey.FETCH, version, responses=[{"topic": "orders", "partitions": partitions}])
    hidden = answered(frame, ApiKey.FETCH, version, HASHED)
    _, body = decode_response(ApiKey.FETCH, version, hidden.wire[4:])
    first, second = iter_batches(body.responses[0].partitions[0].records)
    first.validate()
    assert first.records()[0].value != SECRET
    assert bytes(second.buffer) == marker
    assert SECRET not in hidden.wire


def test_records_that_cannot_be_taken_apart_are_left_out_with_all_of_their_message() -> None:
    broken = bytearray(records(SECRET))
    broken[61] = 0x7F  # the size of a record
    hidden = asked(produce(bytes(broken)), HASHED)
    assert SECRET not in hidden.wire
    assert (hidden.is_hidden, hidden.header.api_key) == (True, ApiKey.PRODUCE)
    assert asked(produce(bytes(broken))).wire == produce(bytes(broken)), "they are kept where payloads are"


@BOTH
@pytest.mark.parametrize(
    ("api_key", "version", "fields"),
    [
        (ApiKey.SASL_AUTHENTICATE, 0, {"auth_bytes": b"\0alice\0" + SECRET}),
        (ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"n,,n=alice,r=" + SECRET}),
        (
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            0,
            {"upsertions": [{"name": "alice", "salt": SECRET, "salted_password": SECRET, "iterations": 4096}]},
        ),
        (39, 2, {"hmac": SECRET}),  # RenewDelegationToken
        (40, 2, {"hmac": SECRET}),  # ExpireDelegationToken
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            {
                "resources": [
                    {"resource_name": "1", "configs": [{"name": "ssl.key.password", "value": SECRET.decode()}]}
                ]
            },
        ),
        (
            ApiKey.ALTER_CONFIGS,
            2,
            {
                "resources": [
                    {"resource_name": "1", "configs": [{"name": "sasl.jaas.config", "value": SECRET.decode()}]}
                ]
            },
        ),
    ],
)
def test_proofs_in_requests_are_written_over(api_key: int, version: int, fields: Any, hiding: Hiding) -> None:
    frame = request(api_key, version, **fields)
    assert SECRET in frame
    hidden = asked(frame, hiding)
    assert SECRET not in hidden.wire
    assert hidden.is_hidden
    assert len(hidden.wire) == len(frame)
    decode_request(hidden.wire[4:])


@BOTH
@pytest.mark.parametrize(
    ("api_key", "version", "fields"),
    [
        (ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"v=" + SECRET}),
        (38, 3, {"token_id": SECRET.decode(), "hmac": SECRET} | TIMES),  # CreateDelegationToken
        (41, 3, {"tokens": [{"token_id": SECRET.decode(), "hmac": SECRET}]}),  # DescribeDelegationToken
    ],
)
def test_proofs_in_answers_are_written_over(api_key: int, version: int, fields: Any, hiding: Hiding) -> None:
    frame = answer(api_key, version, **fields)
    assert SECRET in frame
    hidden = answered(frame, api_key, version, hiding)
    assert SECRET not in hidden.wire
    assert len(hidden.wire) == len(frame)
    decode_response(api_key, version, hidden.wire[4:])


@BOTH
def test_nothing_is_kept_of_a_frame_of_an_unknown_api_and_no_more_than_the_header_of_an_unknown_version(
    hiding: Hiding,
) -> None:
    unknown = (999).to_bytes(2) + b"\0\1\0\0\0\7\0\2me" + SECRET
    hidden = asked(len(unknown).to_bytes(4) + unknown, hiding)
    assert hidden.wire == len(unknown).to_bytes(4) + bytes(len(unknown))
    assert hidden.header is NO_HEADER
    later = b"\0\1\0\x63\0\0\0\7\0\2me" + SECRET
    hidden = asked(len(later).to_bytes(4) + later, hiding)
    assert hidden.wire == len(later).to_bytes(4) + later[:12] + bytes(len(SECRET))
    assert (hidden.header.api_key, hidden.is_hidden) == (ApiKey.FETCH, True)


@pytest.mark.parametrize("user", ["alice", "A", "\x12"])
def test_sasls_bytes_without_a_header_are_never_kept(user: str) -> None:
    token = b"\0" + user.encode() + b"\0" + SECRET
    hidden = asked(len(token).to_bytes(4) + token, is_bare_sasl=True)
    assert hidden.wire == len(token).to_bytes(4) + bytes(len(token))
    assert hidden.header is NO_HEADER
    assert KEPT.answer(NO_HEADER, b"\0\0\0\4" + SECRET[:4]).wire == bytes((0, 0, 0, 4, 0, 0, 0, 0))


def test_a_request_for_versions_that_are_to_come_is_kept() -> None:
    later = b"\0\x12\0\x63\0\0\0\7\0\2me\0" + b"\x06whois"
    hidden = asked(len(later).to_bytes(4) + later)
    assert (hidden.wire[4:], hidden.is_hidden, hidden.body) == (later, False, None)


@pytest.mark.parametrize("kept", [0, 3, 6, 20])
def test_no_more_of_a_torn_answer_is_kept_than_its_size_and_id(kept: int) -> None:
    frame = answer(ApiKey.SASL_AUTHENTICATE, 2, correlation_id=7, auth_bytes=SECRET)[:kept]
    hidden = answered(frame, ApiKey.SASL_AUTHENTICATE, 2)
    assert hidden.wire == frame[:8] + b"\xff" * max(0, kept - 8)


def test_nothing_is_kept_behind_the_end_of_a_request_nor_tagged_fields_of_an_authentication() -> None:
    frame = request(ApiKey.METADATA, 1, topics=None)[4:]
    hidden = asked(b"\0\0\0\0" + frame + SECRET)
    assert hidden.wire[4:] == frame + bytes(len(SECRET))
    proof = request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"proof")[4:-1] + b"\1\x63" + bytes((len(SECRET),)) + SECRET
    assert asked(b"\0\0\0\0" + proof).wire == request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=bytes(5))
    torn = asked(b"\0\0\0\0" + proof[:-1])
    assert (torn.header, torn.wire[4:]) == (NO_HEADER, bytes(len(proof) - 1))


NAMES = ("orders", "orders-of-ann", "shop.example")


@pytest.mark.parametrize("hash_payloads", [False, True])
def test_names_become_others_of_their_length_wherever_they_are_but_in_records(hash_payloads: bool) -> None:
    hiding = Hiding(hash_payloads=hash_payloads, names=NAMES)
    frame = request(
        ApiKey.JOIN_GROUP,
        7,
        group_id="orders-of-ann",
        member_id="orders-1",
        protocols=[{"name": "range", "metadata": b"\0\0\0\0\0\1\0\6orders"}],
    )
    hidden = asked(frame, hiding)
    assert len(hidden.wire) == len(frame)
    _, body = decode_request(hidden.wire[4:])
    assert b"orders" not in hidden.wire
    assert (len(body.group_id), body.protocols[0].name) == (13, "range")
    topic = body.member_id.removesuffix("-1")
    assert body.protocols[0].metadata == b"\0\0\0\0\0\1\0\6" + topic.encode()
    sent = asked(produce(records(b"of orders")), hiding)
    _, body = decode_request(sent.wire[4:])
    assert body.topic_data[0].name == topic
    assert only_batch(sent).records()[0].value == b"of orders" or hash_payloads
    nodes = [{"node_id": 1, "host": "a.shop.example", "port": 9092}]
    told = answered(answer(ApiKey.METADATA, 9, brokers=nodes), ApiKey.METADATA, 9, hiding)
    assert b"shop" not in told.wire
    assert b"a.shop.example".count(b".") == hiding.text("a.shop.example").count(".") == 2
    assert hiding.text("a.shop.example").encode() in told.wire


def test_the_client_id_is_a_name_too_also_where_the_rest_cannot_be_read() -> None:
    hiding = Hiding(hash_payloads=False, names=["the client"])
    for frame in (
        b"\0\3\0\1\0\0\0\7\0\x0athe client\0\0\0\0",
        b"\0\1\0\x63\0\0\0\7\0\x0athe client" + SECRET,
        b"\0\x12\0\x63\0\0\0\7\0\x0athe client\0\6whois",
    ):
        hidden = asked(len(frame).to_bytes(4) + frame, hiding)
        assert b"the client" not in hidden.wire
        header, _ = decode_request_header(hidden.wire[4:])
        assert (header, len(hidden.wire)) == (hidden.header, len(frame) + 4)
        assert header.client_id == hiding.text("the client")


@pytest.mark.parametrize("name", ["abc", "", "größe", "a\nname"])
def test_a_name_that_could_be_a_part_of_anything_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="it has at least 4 characters, all of them ASCII"):
        Hiding(hash_payloads=False, names=[name])
