from __future__ import annotations

import math
from typing import Any

import pytest

from aiokafkapy.client.transport.deadline_timer import DeadlineTimer
from tests.unit.client.fakes import FakeLoop


@pytest.fixture
async def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def fired() -> list[float]:
    return []


@pytest.fixture
def timer(loop: FakeLoop, fired: list[float]) -> DeadlineTimer:
    fake: Any = loop
    return DeadlineTimer(fake, fired.append)


async def test_a_timer_fires_once_at_the_earliest_deadline(
    loop: FakeLoop, timer: DeadlineTimer, fired: list[float]
) -> None:
    start = loop.time()
    timer.arm(start + 5)
    timer.arm(start + 2)
    timer.arm(start + 3)
    assert loop.armed == [start + 2]
    await loop.advance(10)
    assert fired == [start + 2]
    assert timer.deadline == math.inf


async def test_a_later_deadline_makes_no_new_handle(loop: FakeLoop, timer: DeadlineTimer) -> None:
    timer.arm(loop.time() + 1)
    for seconds in range(2, 100):
        timer.arm(loop.time() + seconds)
    assert len(loop._timers) == 1


async def test_infinity_arms_nothing(loop: FakeLoop, timer: DeadlineTimer) -> None:
    timer.arm(math.inf)
    assert loop.armed == []


async def test_a_timer_can_be_armed_again_when_it_fires(loop: FakeLoop, fired: list[float]) -> None:
    timer: DeadlineTimer

    def again(now: float) -> None:
        fired.append(now)
        if len(fired) < 3:
            timer.arm(now + 1)

    fake: Any = loop
    timer = DeadlineTimer(fake, again)
    start = loop.time()
    timer.arm(start + 1)
    await loop.advance(10)
    assert fired == [start + 1, start + 2, start + 3]


async def test_a_batch_due_at_the_deadline_is_due_when_the_loop_is_early(fired: list[float]) -> None:
    class EarlyLoop:
        def time(self) -> float:
            return 9.999

        def call_at(self, when: float, callback: Any) -> Any:
            callback()

    early: Any = EarlyLoop()
    timer = DeadlineTimer(early, fired.append)
    timer.arm(10.0)
    assert fired == [10.0]


async def test_cancelled_it_never_fires_and_cannot_be_armed(
    loop: FakeLoop, timer: DeadlineTimer, fired: list[float]
) -> None:
    timer.arm(loop.time() + 1)
    timer.cancel()
    timer.arm(loop.time() + 1)
    timer.cancel()
    assert loop.armed == []
    await loop.advance(5)
    assert fired == []
