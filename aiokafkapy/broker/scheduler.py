"""The part of an event loop that the broker's timers need: the current time, and calls at a given time.

``asyncio.AbstractEventLoop`` is a ``Scheduler`` as it is; unit tests pass one with a virtual clock. Kafka's
counterpart is ``org.apache.kafka.server.util.timer.Timer``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["Scheduler", "TimerHandle"]


class TimerHandle(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Cancel the call; harmless when it was made already."""


class Scheduler(Protocol):
    """Time in seconds, and calls at a time."""

    def time(self) -> float:
        """Now."""

    def call_at(self, when: float, callback: Callable[[], object], /) -> TimerHandle:
        """Call ``callback`` at ``when`` or soon after."""
