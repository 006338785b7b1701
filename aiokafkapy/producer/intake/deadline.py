"""``deadline``: a time for a block of code that the records sent in it inherit.

    async with deadline(2):
        await producer.send("orders", order)

Owns the block: its time, the blocks around it, and the order of the endings when the time is over. It knows neither
producers nor batches: ``RecordDeadlines`` has the records. ``asyncio.timeout()`` alone cannot do it, for nothing tells
which timeouts enclose a task; so a deadline is such a timeout, with a context variable beside it. franz-go's records
have a ``context``.

Rules:

- Tasks that are created inside inherit it, as any context variable; so do calls of ``asyncio.to_thread``. It holds
  while the block is open: records that such a task sends after that have the time of the blocks around it, if any.
- The shortest of the enclosing ones counts. ``deadline(None)`` takes the records inside out of all of them: for
  records that must still be sent when the time is over.
- ``let_go()`` leaves the block's records to their producer, for a caller that was told that they are on their way: the
  block goes on, and its end takes none of them with it.
- When the block is over, its records first get their outcome, and the tasks that wait for one have ``TURNS`` turns of
  the loop to hand its error on. Tasks that still wait then are cancelled, as ``asyncio.timeout()`` does it.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, cast

from ...common import timeout_of
from ...errors import IllegalStateError
from .record_deadlines import EnclosingDeadline, enclosing_deadline, open_deadlines

if TYPE_CHECKING:
    from .record_deadlines import RecordDeadlines

__all__ = ["Deadline", "deadline"]

TURNS: Final = 8
"""One turn for a task that awaits a record itself, and two for each task or task group between it and the block."""


class Deadline:
    """A block with a time, see ``deadline``. For one ``async with``."""

    __slots__ = (
        "_deadlines",
        "_handle",
        "_has_let_go",
        "_is_expired",
        "_is_open",
        "_loop",
        "_outer",
        "_seconds",
        "_timeout",
        "_token",
        "_when",
    )

    def __init__(self, seconds: float | None) -> None:
        self._seconds = timeout_of("deadline", seconds)
        # While it is open
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timeout: asyncio.Timeout | None = None
        self._token: Token[EnclosingDeadline | None] | None = None
        self._handle: asyncio.Handle | None = None
        self._outer: Deadline | None = None
        self._when = math.inf
        self._is_open = False
        self._is_expired = False
        self._has_let_go = False
        self._deadlines: set[RecordDeadlines] = set()

    def when(self) -> float | None:
        """The time at which the block is over, in loop time; None without a limit of its own. Raises IllegalStateError
        before it began.
        """
        if self._loop is None:
            raise IllegalStateError("deadline(): it begins with `async with`")
        return None if self._when == math.inf else self._when

    def expired(self) -> bool:
        """True when its time was over while the block was open."""
        return self._is_expired

    def let_go(self) -> None:
        """Stop limiting records: those that were sent in the block keep their own ``delivery_timeout_ms`` and the
        blocks around it. The block itself ends as before. Call it where a caller learns that records are on their way:
        they must not be lost after that.
        """
        self._has_let_go = True

    def ends_at(self, loop: asyncio.AbstractEventLoop) -> float:
        """The time at which records sent here are overdue, by this block or one around it, in the time of ``loop``; on
        the block's own loop it is exactly ``when``. Infinity without a limit.
        """
        if not self._is_open or self._has_let_go:
            return math.inf if self._outer is None else self._outer.ends_at(loop)
        if self._seconds is None:
            return math.inf
        own = self._own_end(loop)
        return own if self._outer is None else min(own, self._outer.ends_at(loop))

    def watched_by(self, deadlines: RecordDeadlines) -> None:
        """Records of ``deadlines`` have this deadline: they are told before the block is cancelled."""
        if self._is_open and self._seconds is not None:
            self._deadlines.add(deadlines)
        if self._outer is not None:
            self._outer.watched_by(deadlines)

    def later_end(self, loop: asyncio.AbstractEventLoop) -> float | None:
        """See ``EnclosingDeadline``. The block may be closed by now: it was open when the records were sent."""
        block: Deadline | None = self
        end, is_later = math.inf, False
        while block is not None and block._seconds is not None:
            if block._has_let_go:
                is_later = True
            else:
                end = min(end, block._own_end(loop))
            block = block._outer
        return end if is_later else None

    async def __aenter__(self) -> Self:
        if self._loop is not None:
            raise IllegalStateError("deadline(): this one was used already: call deadline() again")
        timeout = asyncio.timeout(None)
        await timeout.__aenter__()  # raises outside of a task
        self._loop, self._timeout = asyncio.get_running_loop(), timeout
        self._outer = cast("Deadline | None", enclosing_deadline.get())
        self._token = enclosing_deadline.set(self)
        self._is_open = True
        open_deadlines.add(self)
        if self._seconds is not None:
            self._when = self._loop.time() + self._seconds
            if self._when < math.inf:
                self._handle = self._loop.call_at(self._when, self._on_time)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._timeout is not None
        assert self._token is not None
        self._is_open = False
        open_deadlines.discard(self)
        self._deadlines.clear()
        if self._handle is not None:
            self._handle.cancel()
        with suppress(ValueError):  # left in another context than entered: then it is not in force there
            enclosing_deadline.reset(self._token)
        await self._timeout.__aexit__(exc_type, exc, traceback)

    # asyncio callbacks

    def _on_time(self) -> None:
        self._is_expired = True
        try:
            for deadlines in list(self._deadlines):
                deadlines.expire_until(self._when)
        finally:
            self._cancel_after(TURNS)  # whatever happens, the block has an end

    def _cancel_after(self, turns: int) -> None:
        assert self._loop is not None
        assert self._timeout is not None
        if turns > 1:
            self._handle = self._loop.call_soon(self._cancel_after, turns - 1)
        else:
            self._timeout.reschedule(self._loop.time())  # it cancels by call_soon: the last turn

    # internals

    def _own_end(self, loop: asyncio.AbstractEventLoop) -> float:
        assert self._loop is not None
        own = self._when if loop is self._loop else loop.time() + self._when - self._loop.time()
        return min(own, loop.time()) if self._is_expired else own  # uvloop's timers may be a millisecond early


def deadline(seconds: float | None) -> Deadline:
    """``async with deadline(2):``, a time for a block of code, and for each record that is sent in it.

    It is ``asyncio.timeout(seconds)``, and beyond that the time of the records that are sent inside, also by tasks
    that begin there, with any producer, by ``send``, ``enqueue``, ``send_nowait``, ``send_from_thread``,
    ``send_many``: as their ``delivery_timeout_ms``, if that is longer. So a record that was never sent leaves its
    batch, and for one in a request DeliveryTimeoutError says ``outcome_unknown``. Records of a producer with
    ``enable_gapless_guarantee``, and rows of ``send_arrow``, only have the call's end: they stay on their way.
    ``let_go()`` of the block leaves the records that were sent in it to their producer, for example after a client was
    told that they are on their way.

    ``seconds`` None: records sent inside have the deadline of no block around it. Raises TimeoutError at the end of the
    block, as ``asyncio.timeout()``, or the DeliveryTimeoutError, a subclass, of the record that it waited for;
    TypeError and ValueError for anything but a number, RuntimeError outside of a task.
    """
    return Deadline(seconds)
