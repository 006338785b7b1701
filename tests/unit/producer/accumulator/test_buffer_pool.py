"""Bytes held against a limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.producer.accumulator.buffer_pool import BufferPool


def test_all_or_nothing_is_taken() -> None:
    pool = BufferPool(100)
    assert pool.try_acquire(60)
    assert not pool.try_acquire(41)
    assert (pool.held, pool.available) == (60, 40)
    assert pool.try_acquire(40)
    assert (pool.held, pool.available) == (100, 0)
    assert not pool.try_acquire(1)
    pool.release(100)
    assert (pool.held, pool.available) == (0, 100)


def test_the_reserve_is_kept_from_records_but_not_from_compression() -> None:
    pool = BufferPool(100, reserve=25)
    assert pool.try_acquire(75)
    assert not pool.try_acquire(1)
    assert pool.try_acquire_reserved(25)
    assert not pool.try_acquire_reserved(1)


def test_a_single_record_may_use_the_reserve() -> None:
    pool = BufferPool(100, reserve=25)
    assert not pool.try_acquire(101)
    assert pool.try_acquire(100)
    assert not pool.try_acquire(1)


def test_existing_memory_counts_over_the_limit_and_none_is_given_until_it_is_back_below() -> None:
    pool = BufferPool(100)
    pool.charge(130)
    assert (pool.held, pool.available) == (130, 0)
    assert not pool.try_acquire(1)
    pool.release(31)
    assert pool.try_acquire(1)


@given(st.integers(1, 1000), st.lists(st.tuples(st.booleans(), st.integers(1, 500))))
def test_the_acquired_memory_never_exceeds_the_limit(limit: int, steps: list[tuple[bool, int]]) -> None:
    pool = BufferPool(limit, limit // 8)
    taken: list[int] = []
    for is_release, size in steps:
        if is_release and taken:
            pool.release(taken.pop())
        elif pool.try_acquire(size):
            taken.append(size)
        assert pool.held == sum(taken) <= limit


def test_a_share_is_kept_for_topics_with_priority_and_lent_to_them() -> None:
    pool = BufferPool(100, 10, 9, kept_percent=20)
    assert (pool.kept_bytes, pool.kept_records, pool.record_limit) == (20, 2, 7)
    assert pool.try_acquire(70)
    assert not pool.try_acquire(1)
    pool.lend()
    assert pool.record_limit == 9
    assert pool.try_acquire(20)
    assert not pool.try_acquire(1), "the memory of compression is kept from these too"
    pool.take_back()
    assert (pool.held, pool.record_limit) == (90, 7)
    assert not pool.try_acquire(1)


def test_a_single_record_is_possible_beside_any_reserve() -> None:
    pool = BufferPool(100, 0, 1, kept_percent=90)
    assert (pool.record_limit, pool.kept_records) == (1, 0)
    assert pool.try_acquire(100)
