"""A virtual clock, which only a test advances.

The pure half of this package takes ``now`` as an argument; tests pass ``clock.time()`` and move the clock with
``advance``, so that no test sleeps. Kafka's counterpart is ``MockTime``.

Rules: time never goes back; nothing here reads a real clock.
"""

from __future__ import annotations

import math

__all__ = ["VirtualClock"]

# Not zero, to expose code that confuses "never" with time zero.
DEFAULT_START = 1_000.0


class VirtualClock:
    """Seconds as a float, like the time of an event loop.

    Also callable, so that it can stand wherever a ``Callable[[], float]`` such as ``loop.time`` is expected. Raises
    ValueError for a ``start`` that is not finite.
    """

    __slots__ = ("_now",)

    def __init__(self, start: float = DEFAULT_START) -> None:
        if not math.isfinite(start):
            raise ValueError(f"start={start}: a time is finite")
        self._now = float(start)

    def time(self) -> float:
        """The time, in seconds."""
        return self._now

    __call__ = time

    @property
    def time_ms(self) -> int:
        """The time, in whole milliseconds."""
        return int(self._now * 1000)

    def advance(self, seconds: float) -> float:
        """Advance by ``seconds`` and return the new time; ValueError if they are negative or not finite."""
        if not math.isfinite(seconds) or seconds < 0:
            raise ValueError(f"a clock advances by finite seconds >= 0, not by {seconds}")
        self._now += seconds
        return self._now

    def advance_to(self, when: float) -> float:
        """Advance to ``when`` and return it; ValueError if that is in the past."""
        if not math.isfinite(when) or when < self._now:
            raise ValueError(f"the time is {self._now}: it cannot become {when}")
        self._now = when
        return self._now

    def __repr__(self) -> str:
        return f"VirtualClock({self._now!r})"
