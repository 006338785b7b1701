"""One ``call_at`` handle, armed for the earliest of many deadlines.

Owns the handle. Does not know which work is due: its callback finds out. Replaces the time-out of Java's
``poll(timeout)``.

Rules: arming for a later time than the armed one does nothing; a deadline that has become void is left armed, causes
one spurious wake-up and is then replaced, which is cheaper than a new handle for each request; nothing fires after
``cancel``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

__all__ = ["DeadlineTimer"]


class DeadlineTimer:
    """Calls ``on_deadline(now)`` at the earliest armed deadline; the owner then arms it for the next."""

    __slots__ = ("_handle", "_is_cancelled", "_loop", "_on_deadline", "deadline")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_deadline: Callable[[float], None]) -> None:
        self.deadline = math.inf
        self._loop = loop
        self._on_deadline = on_deadline
        self._handle: asyncio.Handle | None = None
        self._is_cancelled = False

    def arm(self, deadline: float) -> None:
        """Fire at ``deadline``, in loop time, or before."""
        if deadline < self.deadline and not self._is_cancelled:
            if self._handle is not None:
                self._handle.cancel()
            self.deadline = deadline
            # With a frozen clock (freezegun) a timer for "now" would never fire.
            is_due = deadline <= self._loop.time()
            self._handle = self._loop.call_soon(self._fire) if is_due else self._loop.call_at(deadline, self._fire)

    def cancel(self) -> None:
        """Never fire again."""
        self._is_cancelled = True
        self.deadline = math.inf
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    # asyncio callbacks

    def _fire(self) -> None:
        # A loop may call early by its clock's resolution: work that is due at the deadline is due now.
        now = max(self._loop.time(), self.deadline)
        self._handle = None
        self.deadline = math.inf
        self._on_deadline(now)
