"""Parked operations: completed once, by the first event, and gone then."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy.broker.coordination.purgatory import Purgatory

from ..support import VirtualScheduler


class Condition:
    """Something to wait for; counts how often it was looked at."""

    def __init__(self) -> None:
        self.value: str | None = None
        self.attempts = 0

    def __call__(self, is_over: bool) -> str | None:
        self.attempts += 1
        return self.value or ("over" if is_over else None)


@pytest.fixture
def scheduler() -> VirtualScheduler:
    return VirtualScheduler()


async def test_an_operation_completes_in_the_turn_in_which_it_is_checked(scheduler: VirtualScheduler) -> None:
    purgatory, condition = Purgatory(scheduler), Condition()
    future = purgatory.wait(["a", "b"], 10, condition)
    assert purgatory.check("a") == 0
    condition.value = "done"
    assert purgatory.check("c") == 0
    assert purgatory.check("b") == 1
    assert future.result() == "done"
    assert (condition.attempts, len(purgatory._operations), scheduler.pending) == (2, 0, 0)
    assert purgatory.check("a") == 0


async def test_an_operation_completes_when_its_time_is_over(scheduler: VirtualScheduler) -> None:
    purgatory, condition = Purgatory(scheduler), Condition()
    future = purgatory.wait(["a"], 10, condition)
    scheduler.advance(9.99)
    assert not future.done()
    scheduler.advance(0.01)
    assert future.result() == "over"
    assert len(purgatory._operations) == 0
    assert (purgatory.check("a"), condition.attempts) == (0, 1)


async def test_a_cancelled_one_is_forgotten_and_not_asked_again(scheduler: VirtualScheduler) -> None:
    purgatory, condition = Purgatory(scheduler), Condition()
    future = purgatory.wait(["a", "b"], 10, condition)
    future.cancel()
    assert purgatory.check("a") == 0
    await asyncio.sleep(0)
    assert (condition.attempts, len(purgatory._operations), scheduler.pending) == (0, 0, 0)


async def test_an_exception_goes_to_the_waiting_request(scheduler: VirtualScheduler) -> None:
    purgatory = Purgatory(scheduler)

    def fail(is_over: bool) -> None:
        raise ValueError("broken")

    future = purgatory.wait(["a"], 10, fail)
    assert purgatory.check("a") == 1
    with pytest.raises(ValueError, match="broken"):
        future.result()
    assert (len(purgatory._operations), scheduler.pending) == (0, 0)


async def test_closing_completes_all_as_if_their_time_were_over(scheduler: VirtualScheduler) -> None:
    purgatory = Purgatory(scheduler)
    futures = [purgatory.wait([number, "all"], 10, Condition()) for number in range(3)]
    purgatory.close()
    assert [future.result() for future in futures] == ["over"] * 3
    assert (len(purgatory._operations), scheduler.pending) == (0, 0)


async def test_many_wait_for_one_key_and_only_those_that_are_satisfied_go(scheduler: VirtualScheduler) -> None:
    purgatory = Purgatory(scheduler)
    conditions = [Condition() for _ in range(4)]
    futures = [purgatory.wait(["a", "a"], 10, condition) for condition in conditions]
    conditions[1].value = conditions[3].value = "done"
    assert purgatory.check("a") == 2
    assert [future.done() for future in futures] == [False, True, False, True]
    assert len(purgatory._operations) == scheduler.pending == 2
    purgatory.close()


async def test_a_loop_is_a_scheduler() -> None:
    purgatory = Purgatory(asyncio.get_running_loop())
    assert await purgatory.wait(["a"], 0, Condition()) == "over"
