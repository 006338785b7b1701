"""Waiting for a condition that nobody reports."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["until"]

TURNS = 100
"""Turns of the loop, after each of which there is a look: a condition that holds soon is seen before anything else
happens.
"""
PAUSE = 0.002
"""Seconds between two later looks."""


async def until(condition: Callable[[], Any | Awaitable[Any]], timeout: float = 30.0) -> None:
    """Return once the condition, a function or a coroutine function, holds; fails the test when it never does."""
    deadline = time.monotonic() + timeout
    for turn in itertools.count():
        found = condition()
        if await found if isinstance(found, Awaitable) else found:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"{_named(condition)} did not come true within {timeout} s")
        await asyncio.sleep(0 if turn < TURNS else PAUSE)


def _named(condition: Callable[[], Any]) -> str:
    code = getattr(condition, "__code__", None)
    name = getattr(condition, "__qualname__", repr(condition))
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"
