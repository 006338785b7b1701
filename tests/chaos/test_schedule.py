"""The schedule of a chaos run: the same for the same seed, whole rounds, and never more than was meant."""

from __future__ import annotations

from itertools import islice

import pytest

from .schedule import Kind, Way, schedule, strikes

SEEDS = range(20)


def test_a_seed_has_one_schedule_and_another_seed_another() -> None:
    assert list(islice(schedule(7), 40)) == list(islice(schedule(7), 40))
    assert list(islice(schedule(7), 40)) != list(islice(schedule(8), 40))


@pytest.mark.parametrize("seed", SEEDS)
def test_each_round_has_each_kind(seed: int) -> None:
    faults = list(islice(schedule(seed), 3 * len(Kind)))
    assert [fault.number for fault in faults] == list(range(1, 3 * len(Kind) + 1))
    for start in range(0, len(faults), len(Kind)):
        assert {fault.kind for fault in faults[start : start + len(Kind)]} == set(Kind)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_fault_takes_more_than_two_nodes_nor_lasts_long(seed: int) -> None:
    for fault in islice(schedule(seed), 100):
        assert len(set(fault.nodes)) == len(fault.nodes) <= 2
        assert bool(fault.nodes) == (fault.kind in (Kind.KILL, Kind.PAUSE, Kind.RESTART))
        assert bool(fault.moves) or fault.kind is not Kind.REASSIGN
        assert 0 <= fault.seconds < 10
        assert 0 < fault.quiet < 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_move_keeps_the_replicas_that_acknowledgements_need_and_ends_on_every_node(seed: int) -> None:
    for fault in islice(schedule(seed), 100):
        assert len({(move.topic, move.partition) for move in fault.moves}) == len(fault.moves)
        for move in fault.moves:
            assert move.partition < (6, 3)[move.topic]
            assert len(set(move.narrow)) == len(move.narrow) == 2
            assert sorted(move.wide) == [1, 2, 3]


def test_the_majority_goes_and_moves_meet_crashes() -> None:
    faults = list(islice(schedule(1), 200))
    for kind in (Kind.KILL, Kind.PAUSE):
        assert any(fault.kind is kind and len(fault.nodes) == 2 for fault in faults)
        assert any(fault.kind is kind and fault.moves for fault in faults)


def test_a_fault_describes_itself() -> None:
    for fault in islice(schedule(3), 20):
        assert str(fault).startswith(fault.kind)
        assert all(f"node {fault.nodes[0]}" in str(fault) for _ in fault.nodes[:1])


@pytest.mark.parametrize("seed", SEEDS)
def test_strikes_are_the_same_for_a_seed_and_have_each_way_in_each_round(seed: int) -> None:
    some = list(islice(strikes(seed, 2), 60))
    assert some == list(islice(strikes(seed, 2), 60))
    assert some != list(islice(strikes(seed + 1, 2), 60))
    assert {strike.copier for strike in some} == {0, 1}
    for start in range(0, len(some), len(Way)):
        assert {strike.way for strike in some[start : start + len(Way)]} == set(Way)
