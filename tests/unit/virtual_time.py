"""Coroutines in virtual time: minutes pass at once."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from aiokafkapy.testing.simulation.simulated_loop import SimulatedLoop

__all__ = ["EPOCH", "elapsed", "epoch_seconds", "in_virtual_time", "on_virtual_time"]

P = ParamSpec("P")

EPOCH = 1_700_000_000.0
"""The wall clock when the loop's is at zero."""


def in_virtual_time(program: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it to its end; a line that asyncio would have logged is an error."""
    loop = SimulatedLoop(lambda: 0.0)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(program())
    assert loop.complaints == []


def on_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine, run by ``in_virtual_time``."""

    @functools.wraps(test)
    def run(*args: P.args, **options: P.kwargs) -> None:
        in_virtual_time(lambda: test(*args, **options))

    return run


async def elapsed(seconds: float) -> None:
    """Return when so much time has passed."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_later(seconds, future.set_result, None)
    await future


def epoch_seconds() -> float:
    """The wall clock."""
    return EPOCH + asyncio.get_running_loop().time()
