"""benchmarks.micro.loop_work: the loop's turns, tasks and futures of a record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import aiokafkapy
from benchmarks.micro.instructions import Workload, per_record, run_marked
from benchmarks.micro.loop_work import KINDS, CountingLoop, measure
from benchmarks.micro.producer_sink import TASKS, lone_await, workers


def test_the_loop_counts_its_turns_tasks_and_futures() -> None:
    loop = CountingLoop()

    async def work() -> tuple[int, int, int]:
        before = (loop.turns, loop.tasks, loop.futures)
        future = loop.create_future()
        loop.call_soon(future.set_result, None)
        await future
        for _ in range(3):
            await loop.create_task(asyncio.sleep(0))
        return loop.turns - before[0], loop.tasks - before[1], loop.futures - before[2]

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        turns, tasks, futures = runner.run(work())
    assert (tasks, futures) == (3, 1)
    assert turns >= 3


def test_each_mark_has_what_happened_since_the_one_before_it() -> None:
    async def workload(mark: Callable[[], object]) -> None:
        for times in (1, 10, 30):
            for _ in range(times):
                await asyncio.sleep(0)
            mark()

    def run_twice(mark: Callable[[], object], run: Callable[[Any], None]) -> None:
        run(workload(mark))
        run(workload(mark))

    found = measure(run_twice)
    assert [of_mark["turns"] for of_mark in found[1:3]] == [10, 30]
    assert found[4:] == found[1:3] == [{"turns": turns, "tasks": 0, "futures": 0} for turns in (10, 30)]


@pytest.mark.parametrize(("run", "at_once", "turns"), [(lone_await, 1, 2), (workers, TASKS, 0.003)])
def test_a_record_takes_two_turns_at_most_and_no_task(run: Any, at_once: int, turns: float) -> None:
    """One in which it is sent, and one for the answer, which all that are sent at once share. Compiled its coroutine
    waits without a future.
    """
    workload = Workload("awaited", run, 40 * at_once, at_once)
    marked = measure(lambda mark, run: run_marked([workload], "compiled", mark, run))
    work = {
        kind: per_record([workload], "compiled", [of_mark[kind] for of_mark in marked])["awaited"] for kind in KINDS
    }
    assert work["turns"] == pytest.approx(turns, abs=0.01)
    assert work["tasks"] == pytest.approx(0, abs=0.01)
    assert work["futures"] == pytest.approx(0 if aiokafkapy.compiled else 1, abs=0.01)
