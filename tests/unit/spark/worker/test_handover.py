"""The queue between the loop that fetches and the thread that takes."""

from __future__ import annotations

import asyncio
import threading

import pytest

from aiokafkapy.spark.worker.handover import Handover


async def test_batches_come_out_in_order_and_then_the_end() -> None:
    handover = Handover(100)
    for number in range(3):
        await handover.room()
        handover.put(f"batch {number}", 10)
    handover.end()
    taken = [await asyncio.to_thread(handover.take, lambda: False) for _ in range(4)]
    assert taken == ["batch 0", "batch 1", "batch 2", None]


async def test_there_is_no_room_until_enough_was_taken() -> None:
    handover = Handover(100)
    handover.put("small", 40)
    await handover.room()
    handover.put("large", 90)
    waiting = asyncio.ensure_future(handover.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert await asyncio.to_thread(handover.take, lambda: False) == "small"
    await asyncio.wait_for(waiting, 10)


async def test_more_than_all_the_room_can_still_be_put() -> None:
    handover = Handover(100)
    await handover.room()
    handover.put("huge", 1_000)
    assert await asyncio.to_thread(handover.take, lambda: False) == "huge"
    await asyncio.wait_for(handover.room(), 10)


async def test_all_batches_pass_while_both_sides_work() -> None:
    handover = Handover(3)
    found: list[int] = []

    def take() -> None:
        while (batch := handover.take(lambda: False)) is not None:
            found.append(batch)

    thread = threading.Thread(target=take)
    thread.start()
    for number in range(2_000):
        await handover.room()
        handover.put(number, 1)
    handover.end()
    await asyncio.to_thread(thread.join)
    assert found == list(range(2_000))


def test_taking_ends_when_nobody_is_left_to_put(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokafkapy.spark.worker.handover._LOOKING_INTERVAL", 0.01)
    assert Handover(1).take(lambda: True) is None
