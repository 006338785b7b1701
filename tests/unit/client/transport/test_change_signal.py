from __future__ import annotations

import asyncio

from aiokafkapy.client.transport.change_signal import ChangeSignal
from tests.unit.client.fakes import FakeLoop


async def test_all_waiters_are_woken_once_and_later_ones_are_not() -> None:
    loop = FakeLoop()
    signal = ChangeSignal(asyncio.get_running_loop())
    signal.notify()
    first, second = asyncio.ensure_future(signal.wait()), asyncio.ensure_future(signal.wait())
    await loop.settle()
    assert not first.done()
    signal.notify()
    third = asyncio.ensure_future(signal.wait())
    await loop.settle()
    assert first.done()
    assert second.done()
    assert not third.done()
    signal.notify()
    signal.notify()
    await third


async def test_a_cancelled_waiter_leaves_nothing() -> None:
    loop = FakeLoop()
    signal = ChangeSignal(asyncio.get_running_loop())
    task = asyncio.ensure_future(signal.wait())
    await loop.settle()
    assert signal._waiters
    task.cancel()
    await loop.settle()
    assert not signal._waiters
    signal.notify()
