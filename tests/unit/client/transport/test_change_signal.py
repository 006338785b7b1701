from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any, cast

import pytest

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


class RecordingLoop(asyncio.SelectorEventLoop):
    """Remembers its futures while they live."""

    def __init__(self) -> None:
        super().__init__()
        self.living: weakref.WeakSet[asyncio.Future[object]] = weakref.WeakSet()

    def create_future(self) -> asyncio.Future[Any]:
        future = super().create_future()
        self.living.add(future)
        return future


def test_a_cancelled_waiter_leaves_nothing() -> None:
    with asyncio.Runner(loop_factory=RecordingLoop) as runner:
        loop = cast(RecordingLoop, runner.get_loop())
        signal = ChangeSignal(loop)

        async def give_up() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await signal.wait()

        runner.run(give_up())
        gc.collect()
        assert not loop.living
        signal.notify()
