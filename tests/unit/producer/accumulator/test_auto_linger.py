"""The time for which batches gather with ``linger_ms="auto"``, on a virtual clock."""

from __future__ import annotations

from math import exp

import pytest

from aiokafkapy.producer.accumulator.auto_linger import (
    FEW,
    LONGEST,
    LONGEST_WITHOUT_ROUND_TRIP,
    MANY,
    MEMORY,
    RECHECK,
    AutoLinger,
)

from ..accumulator_harness import Harness

LONGEST_MEMORY = 3 * MEMORY
"""Seconds: more than ``MEMORY * log(MANY / FEW)``."""


class Rig:
    """Records that come, and a clock."""

    def __init__(self, round_trip: float = 0.010) -> None:
        self.accepted = 0
        self.now = 50.0
        self.auto = AutoLinger(self)
        self.auto.round_trip = lambda now: round_trip

    def flow(self, rate: float, seconds: float, step: float = 0.0005) -> float:
        """Records come at this rate, looked at each ``step``; returns the linger at the end."""
        linger, began, before = 0.0, self.now, self.accepted
        while self.now < began + seconds:
            self.now += step
            self.accepted = before + round(rate * (self.now - began))
            linger = self.auto.linger(self.now)
        return linger


def test_a_lone_record_does_not_gather() -> None:
    rig = Rig()
    for _ in range(20):
        rig.now += 0.1
        rig.accepted += 1
        assert rig.auto.linger(rig.now) == 0.0


@pytest.mark.parametrize("rate", [10, 100, 1_000])
def test_few_records_do_not_gather_however_long_they_come(rate: float) -> None:
    assert Rig().flow(rate, 1.0) == 0.0


def test_the_linger_grows_with_the_rate_up_to_the_round_trip() -> None:
    lingers = [Rig(0.010).flow(rate, 0.1) for rate in (3_000, 10_000, 30_000, 100_000, 1_000_000)]
    assert lingers == sorted(lingers)
    assert 0 < lingers[0] < 0.002
    assert lingers[-2:] == [0.010, 0.010]


@pytest.mark.parametrize(
    ("round_trip", "most"), [(0.0003, 0.0003), (0.015, 0.015), (0.3, LONGEST), (0.0, LONGEST_WITHOUT_ROUND_TRIP)]
)
def test_the_linger_is_bound_by_the_round_trip_within_bounds(round_trip: float, most: float) -> None:
    assert Rig(round_trip).flow(1_000_000, 0.1) == most


@pytest.mark.parametrize("rate", [3_000, 50_000, 5_000_000])
def test_after_a_few_milliseconds_of_quiet_there_is_no_linger_again(rate: float) -> None:
    for step in (0.0005, LONGEST_MEMORY):
        rig = Rig()
        assert rig.flow(rate, 0.1) > 0
        assert rig.flow(0, LONGEST_MEMORY, step) == 0.0
    assert LONGEST_MEMORY < 0.010


def test_a_burst_after_a_long_quiet_goes_at_once() -> None:
    rig = Rig()
    rig.now += 10.0
    rig.accepted += 1_000
    assert rig.auto.linger(rig.now) == 0.0


def test_looks_at_the_same_moment_count_the_records_that_came() -> None:
    rig = Rig()
    rig.auto.linger(rig.now)
    rig.accepted += int(MANY)
    assert rig.auto.linger(rig.now) == 0.010
    assert rig.auto.linger(rig.now) == 0.010
    assert exp(LONGEST_MEMORY / MEMORY) > MANY / FEW


class TestBatches:
    """The effect of the linger in the accumulator."""

    @staticmethod
    def flood(harness: Harness, milliseconds: int) -> None:
        for _ in range(milliseconds):
            harness.now += 0.001
            for _ in range(50):
                harness.append_ok()
            harness.ready()

    @staticmethod
    def new() -> Harness:
        harness = Harness(linger_ms="auto")
        assert harness.accumulator.auto_linger is not None
        harness.accumulator.auto_linger.round_trip = lambda now: 0.010
        return harness

    def test_a_lone_record_leaves_at_once_also_beside_another_in_flight(self) -> None:
        harness = self.new()
        for in_flight in (0, 1, 4):
            harness.in_flight = {1: in_flight}
            harness.now += 0.1
            harness.append_ok()
            result = harness.ready()
            assert result.ready_nodes == {1}
            assert harness.drain()

    def test_in_a_flood_batches_gather_while_the_leader_is_busy(self) -> None:
        harness = self.new()
        harness.in_flight = {1: 1}
        self.flood(harness, 20)
        harness.drain()
        harness.append_ok()
        result = harness.ready()
        assert result.ready_nodes == set()
        assert 0 < result.next_ready_check_delay <= RECHECK + 1e-9
        harness.in_flight = {}
        assert harness.ready().ready_nodes == {1}

    def test_when_it_is_quiet_they_leave_long_before_their_time(self) -> None:
        harness = self.new()
        harness.in_flight = {1: 1}
        self.flood(harness, 20)
        harness.drain()
        harness.append_ok()
        looks = 0
        while not harness.ready().ready_nodes:
            harness.now += harness.ready().next_ready_check_delay
            looks += 1
            assert looks < 10
        waited = harness.now - harness.accumulator.incomplete[-1].created
        assert waited <= LONGEST_MEMORY + RECHECK

    def test_once_all_is_sent_and_quiet_nothing_is_looked_at(self) -> None:
        harness = self.new()
        harness.in_flight = {1: 1}
        self.flood(harness, 20)
        harness.drain_all()
        for _ in range(5):
            harness.now += RECHECK
            delay = harness.ready().next_ready_check_delay
        assert delay == float("inf")

    def test_a_number_and_none_are_as_ever(self) -> None:
        for linger_ms in (None, 0, 5):
            harness = Harness(linger_ms=linger_ms)
            assert harness.accumulator.auto_linger is None
            harness.in_flight = {1: 1}
            harness.append_ok()
            result = harness.ready()
            assert bool(result.ready_nodes) == (linger_ms == 0)
