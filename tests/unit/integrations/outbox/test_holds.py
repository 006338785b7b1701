"""Scopes that are not tried for a time, on a virtual clock."""

from __future__ import annotations

from aiokafkapy.common import ExponentialBackoff
from aiokafkapy.integrations.outbox.holds import Holds
from aiokafkapy.integrations.outbox.outcomes import EVERYTHING, Held

T, U = Held("topic", "t"), Held("topic", "u")


def new_holds() -> Holds:
    return Holds(ExponentialBackoff(1.0, 5.0, jitter=0.0))


def test_each_failure_in_a_row_holds_longer_up_to_a_limit() -> None:
    holds = new_holds()
    assert [holds.hold(T, 100.0) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert holds.active(104.9) == {T}
    assert holds.active(105.0) == set()


def test_a_success_starts_over_and_concerns_no_other() -> None:
    holds = new_holds()
    for what in (T, T, U, U):
        holds.hold(what, 0.0)
    holds.forget([T, Held("lane", 1)])
    assert holds.active(1.0) == {U}
    assert (holds.hold(T, 1.0), holds.hold(U, 1.0)) == (1.0, 4.0)


def test_the_next_release_is_the_earliest_of_those_to_come() -> None:
    holds = new_holds()
    assert holds.next_release(0.0) is None
    holds.hold(T, 0.0)
    holds.hold(U, 0.5)
    assert [holds.next_release(now) for now in (0.0, 1.0, 1.5)] == [1.0, 1.5, None]


def test_everything_may_be_held() -> None:
    holds = new_holds()
    assert not holds.is_everything_held(0.0)
    holds.hold(EVERYTHING, 0.0)
    assert [holds.is_everything_held(now) for now in (0.5, 1.0)] == [True, False]
