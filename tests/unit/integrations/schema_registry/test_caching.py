"""aiokafkapy.integrations.schema_registry.caching: one question for all waiting calls; bounded memory of answers."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy.errors import IllegalStateError
from aiokafkapy.integrations.schema_registry.caching import RecentCache, SingleFlight
from tests.unit.virtual_time import elapsed, on_virtual_time


class Question:
    """Answers after a second, or fails."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.asked += 1
        await elapsed(1)
        if self.error is not None:
            raise self.error
        return self.asked


@on_virtual_time
async def test_all_waiting_calls_get_one_answer_though_the_first_is_cancelled() -> None:
    flights, question = SingleFlight(), Question()
    first, *others = [asyncio.ensure_future(flights.once("key", question)) for _ in range(5)]
    await elapsed(0.5)
    first.cancel()
    assert await asyncio.gather(*others) == [1, 1, 1, 1]
    assert first.cancelled()
    assert await flights.once("key", question) == 2  # an answer is not remembered


@on_virtual_time
async def test_a_failure_is_told_to_all_waiting_calls_and_to_no_others() -> None:
    flights, question = SingleFlight(), Question()
    question.error = ValueError("odd")
    found = await asyncio.gather(*(flights.once("key", question) for _ in range(3)), return_exceptions=True)
    assert found == [question.error] * 3
    flights.begin("key", question)  # nobody waits for it: no complaint
    await elapsed(2)
    question.error = None
    assert await flights.once("key", question) == 3


@on_virtual_time
async def test_closing_ends_the_questions_under_way() -> None:
    flights, question = SingleFlight(), Question()
    waiting = asyncio.ensure_future(flights.once("key", question))
    await elapsed(0.5)
    await flights.close()
    with pytest.raises(IllegalStateError, match="closed"):
        await waiting


def test_a_question_that_a_stopped_loop_left_is_asked_again() -> None:
    flights, question = SingleFlight(), Question()

    async def begin() -> None:
        flights.begin("key", question)

    stopped = asyncio.new_event_loop()
    stopped.run_until_complete(begin())

    async def ask() -> str:
        return "an answer"

    assert asyncio.run(flights.once("key", ask)) == "an answer"
    left = asyncio.all_tasks(stopped)
    for task in left:
        task.cancel()
    stopped.run_until_complete(asyncio.wait(left))
    stopped.close()


def test_the_entries_that_were_used_last_stay() -> None:
    cache: RecentCache[int] = RecentCache(2)
    for number, key in enumerate("ab"):
        cache.put(key, number)
    assert cache.get("a") == 0
    cache.put("c", 2)
    assert [cache.get(key) for key in "abc"] == [0, None, 2]
    cache.drop(lambda key: key == "a")
    assert cache.get("a") is None
