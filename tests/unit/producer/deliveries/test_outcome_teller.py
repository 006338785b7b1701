"""Waiters are told in order, a slice at each turn of the loop; a few are told at once."""

from __future__ import annotations

import asyncio
import itertools

from aiokafkapy.producer.deliveries.outcome_teller import COST_OF_ERROR, SLICE, WINDOW, OutcomeTeller, step_by_step
from aiokafkapy.testing import VirtualClock


class FakeLoop:
    """A loop whose time a test sets, and whose callbacks it runs."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.callbacks: list[object] = []

    def time(self) -> float:
        return self.clock.time()

    def call_soon(self, callback: object) -> None:
        self.callbacks.append(callback)

    def turn(self) -> int:
        """Run the due callbacks; returns how many callbacks that were."""
        due, self.callbacks = self.callbacks, []
        for callback in due:
            callback()  # type: ignore[operator]
        return len(due)


def teller_on(loop: FakeLoop) -> OutcomeTeller:
    return OutcomeTeller(loop)  # type: ignore[arg-type]


def test_a_few_outcomes_may_be_delivered_at_once_and_a_slice_in_each_window() -> None:
    loop = FakeLoop()
    teller = teller_on(loop)
    assert teller.may_tell_now(SLICE - 1)
    assert teller.may_tell_now(1)
    assert not teller.may_tell_now(1)
    loop.clock.advance(WINDOW)
    assert teller.may_tell_now(1)
    assert loop.callbacks == []


def test_an_error_counts_for_several_results() -> None:
    teller = teller_on(FakeLoop())
    assert not teller.may_tell_now(SLICE // COST_OF_ERROR + 1, COST_OF_ERROR)
    assert teller.may_tell_now(SLICE // COST_OF_ERROR, COST_OF_ERROR)


def test_many_outcomes_are_delivered_by_slices_in_order_and_none_before_them() -> None:
    loop = FakeLoop()
    told: list[int] = []
    teller = teller_on(loop)
    teller.tell_later(step_by_step(map(told.append, range(2 * SLICE))))
    teller.tell_later(step_by_step(map(told.append, range(2 * SLICE, 2 * SLICE + 10))), COST_OF_ERROR)
    assert told == []
    assert not teller.may_tell_now(1), "the earlier ones are told first"
    counts = []
    while loop.turn():
        counts.append(len(told))
    assert told == list(range(2 * SLICE + 10))
    assert counts[0] == SLICE
    assert all(after - before <= SLICE for before, after in itertools.pairwise(counts))
    assert teller.may_tell_now(1)


def test_a_job_of_no_steps_is_a_job_that_is_done() -> None:
    loop = FakeLoop()
    teller = teller_on(loop)
    teller.tell_later(step_by_step(iter(())))
    loop.turn()
    assert loop.turn() == 0
    assert teller.may_tell_now(1)


async def test_told_all_returns_when_every_job_is_done() -> None:
    teller = OutcomeTeller(asyncio.get_running_loop())
    told: list[int] = []
    await teller.told_all()
    teller.tell_later(step_by_step(map(told.append, range(3 * SLICE))))
    waiters = [asyncio.create_task(teller.told_all()) for _ in range(2)]
    await asyncio.wait(waiters)
    assert len(told) == 3 * SLICE
