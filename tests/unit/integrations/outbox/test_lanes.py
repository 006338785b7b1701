"""Lanes, shards and locks: their inputs, and their equality in every process."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.integrations.outbox.lanes import MAX_SHARDS, STRIPES, lane_of, lock_number, shard_of


def test_a_lane_is_a_topics_key_or_its_partition_or_the_rest_of_it() -> None:
    lanes = {
        lane_of("t", b"k", None),
        lane_of("t", b"l", None),
        lane_of("u", b"k", None),
        lane_of("t", b"", None),
        lane_of("t", None, None),
        lane_of("t", None, 0),
        lane_of("t", None, 1),
        lane_of("t", b"p0", None),
    }
    assert len(lanes) == 8
    assert lane_of("t", b"k", 0) == lane_of("t", b"l", 0) == lane_of("t", None, 0), "the partition, whatever the key"


def test_a_lane_is_the_same_in_every_process_and_version() -> None:
    assert lane_of("orders", b"ann", None) == -1398412967020646797, "b2sum -l 64 of orders, 0 and kann"
    assert lane_of("orders", None, None) == -751768478405950896


@given(st.text(max_size=5), st.none() | st.binary(max_size=5), st.none() | st.integers(0, 2**31 - 1))
def test_every_number_fits_the_databases_types(topic: str, key: bytes | None, partition: int | None) -> None:
    lane = lane_of(topic, key, partition)
    assert -(2**63) <= lane < 2**63
    assert all(0 <= shard_of(lane, shards) < shards for shards in (1, 8, MAX_SHARDS))
    assert 0 < lock_number("outbox", lane) < 2**63


def test_keys_share_a_bounded_number_of_locks_and_tables_share_none() -> None:
    lanes = [lane_of("t", b"%d" % number, None) for number in range(3 * STRIPES)]
    one, other = ({lock_number(table, lane) for lane in lanes} for table in ("outbox", "audit.outbox"))
    assert len(one) <= STRIPES
    assert not one & other
