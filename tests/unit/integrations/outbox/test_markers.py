"""The marker of a shard, as a record's value."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import SerializationError
from aiokafkapy.integrations.outbox.markers import decode_marker, encode_marker, marker_key
from aiokafkapy.integrations.outbox.relay import MAX_BATCH_ROWS
from aiokafkapy.integrations.outbox.rows import OutboxRow


def row(number: int, uid: UUID) -> OutboxRow:
    return OutboxRow(number, uid, 0, 0, "t", None, None, None, None, 0)


@given(st.dictionaries(st.integers(1, 2**63 - 1), st.uuids()))
def test_a_marker_names_its_rows(rows: dict[int, UUID]) -> None:
    assert decode_marker(encode_marker(row(number, uid) for number, uid in rows.items())) == rows


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"rows":[[1]]}', b'{"rows":[[1,"zz"]]}', b'{"rows":[["x",5]]}'])
def test_anything_else_is_not_a_marker(value: bytes) -> None:
    with pytest.raises(SerializationError, match="nothing else may write to that topic"):
        decode_marker(value)


def test_the_marker_of_the_largest_batch_fits_into_a_request() -> None:
    first = 2**62
    value = encode_marker(row(number, uuid4()) for number in range(first, first + MAX_BATCH_ROWS))
    assert len(value) < 1_048_576 - 1_024


def test_each_shard_has_its_own() -> None:
    assert marker_key("orders-0") != marker_key("orders-1")
