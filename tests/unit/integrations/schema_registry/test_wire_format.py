"""aiokafkapy.integrations.schema_registry.wire_format: Confluent's bytes, and refusals."""

from __future__ import annotations

import io

import pytest
from confluent_kafka.schema_registry.common.serde import SchemaId as TheirSchemaId
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.integrations.schema_registry.wire_format import (
    VALUE_SCHEMA_ID,
    WireFormatError,
    find_schema_id,
    guid_header,
    id_prefix,
    read_indexes,
    write_indexes,
)

GUID = "12345678-9abc-def0-1234-56789abcdef0"
PATHS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=8)


@given(schema_id=st.integers(0, 2**31 - 1), path=st.none() | PATHS)
def test_the_prefix_is_confluents(schema_id: int, path: list[int] | None) -> None:
    assert id_prefix(schema_id, path) == TheirSchemaId("PROTOBUF", schema_id, None, path).id_to_bytes()


@given(path=st.none() | PATHS)
def test_the_header_is_confluents(path: list[int] | None) -> None:
    assert guid_header(GUID, path) == TheirSchemaId("PROTOBUF", 1, GUID, path).guid_to_bytes()


@given(path=PATHS, rest=st.binary())
def test_a_path_is_read_as_it_was_written(path: list[int], rest: bytes) -> None:
    found, left = read_indexes(memoryview(write_indexes(path) + rest))
    assert (list(found), bytes(left)) == (path, rest)
    theirs = TheirSchemaId("PROTOBUF")
    left_of_theirs = theirs.from_bytes(io.BytesIO(id_prefix(1, path) + rest))
    assert (theirs.message_indexes, left_of_theirs.read()) == (path, rest)


def test_the_header_comes_before_the_prefix() -> None:
    data = id_prefix(7) + b"data"
    found, rest = find_schema_id(data, [("other", b"x"), (VALUE_SCHEMA_ID, guid_header(GUID))])
    assert (found.guid, bytes(rest)) == (GUID, data)
    found, rest = find_schema_id(data, [(VALUE_SCHEMA_ID, guid_header(GUID))], is_key=True)
    assert (found.id, bytes(rest)) == (7, b"data")


def test_the_last_of_several_headers_counts() -> None:
    """A record that was sent with the headers of one that was read has the latter's id first."""
    forwarded = (VALUE_SCHEMA_ID, guid_header("00000000-0000-0000-0000-000000000001"))
    found, _ = find_schema_id(b"data", [forwarded, (VALUE_SCHEMA_ID, guid_header(GUID)), (VALUE_SCHEMA_ID, None)])
    assert found.guid == GUID


@pytest.mark.parametrize("data", [b"", b"{}", b"\x02abcd", b"\x00\x00\x00", b"\x01" + bytes(15)])
def test_bytes_without_an_id_are_refused(data: bytes) -> None:
    with pytest.raises(WireFormatError, match="the value"):
        find_schema_id(data)


@given(data=st.binary(max_size=40))
def test_all_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        _, rest = find_schema_id(data)
        read_indexes(rest)
    except WireFormatError:
        pass


def test_a_path_that_claims_too_much_is_refused() -> None:
    with pytest.raises(WireFormatError, match="at most"):
        read_indexes(memoryview(b"\xfe\xff\xff\xff\x0f"))
    with pytest.raises(WireFormatError, match="cut off"):
        read_indexes(memoryview(b"\x04\x02"))


def test_a_path_counts_from_the_front() -> None:
    with pytest.raises(WireFormatError, match="has the number -1"):
        read_indexes(memoryview(write_indexes([-1])))
