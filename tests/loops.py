"""The properties of the event loop that tests depend on."""

from __future__ import annotations

import asyncio

__all__ = ["is_on_uvloop"]


def is_on_uvloop() -> bool:
    """True in a coroutine on uvloop, whose queue and timers cannot be seen, and whose clock has milliseconds."""
    return type(asyncio.get_running_loop()).__module__.startswith("uvloop")
