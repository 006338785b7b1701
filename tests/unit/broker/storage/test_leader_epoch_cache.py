"""Leader epochs and where they begin, as in Java's ``LeaderEpochFileCache``."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.storage.leader_epoch_cache import LeaderEpochCache


@pytest.fixture
def cache() -> LeaderEpochCache:
    """Offsets 0 and 1 under epoch 1, offset 2 under epoch 4."""
    cache = LeaderEpochCache()
    for epoch, offset in ((1, 0), (1, 1), (4, 2)):
        cache.assign(epoch, offset)
    return cache


@pytest.mark.parametrize(
    ("epoch", "found"),
    [(-1, (-1, -1)), (0, (0, 0)), (1, (1, 2)), (3, (1, 2)), (4, (4, 3)), (6, (6, 3)), (7, (-1, -1))],
)
def test_end_offsets_where_the_leader_has_epoch_6(cache: LeaderEpochCache, epoch: int, found: tuple[int, int]) -> None:
    assert cache.end_offset_for(epoch, 6, 3) == found


def test_the_epoch_of_an_offset(cache: LeaderEpochCache) -> None:
    assert cache.latest == 4
    assert [cache.epoch_at(offset) for offset in range(-1, 3)] == [-1, 1, 1, 4]


def test_the_first_epoch_begins_where_the_log_does(cache: LeaderEpochCache) -> None:
    cache.forget_before(1)
    assert cache.end_offset_for(0, 4, 3) == (0, 1)
    cache.forget_before(2)
    assert cache.epoch_at(1) == -1
    assert cache.end_offset_for(1, 4, 3) == (1, 2)


def test_an_empty_log_has_the_leaders_epoch_only() -> None:
    cache = LeaderEpochCache()
    cache.forget_before(5)
    assert (cache.latest, cache.epoch_at(5)) == (0, -1)
    assert cache.end_offset_for(2, 2, 5) == (2, 5)
