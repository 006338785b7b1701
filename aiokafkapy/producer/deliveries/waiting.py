"""``Waiting``: the wait of a task for an outcome, independent of the kind of event loop.

Owns the port between a record's outcome, which is pure, and the event loop. ``asyncio_waiting`` installs itself
behind it, once for the process; ``OutcomeTeller``, which every started producer has, imports it. Without it outcomes
can be read, but not awaited. Java has no counterpart: its threads wait on the latch of ``ProduceRequestResult``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import IllegalStateError

if TYPE_CHECKING:
    from contextvars import Context

__all__ = ["Awaiter", "CallsSoon", "Waiting", "install", "waiting"]


class Awaiter(Protocol):
    """One task's wait for an outcome: the task awaits it, its keeper asks whether it still has to be woken."""

    def __await__(self) -> Generator[Any, None, object]:
        """Wait until it is woken."""

    def __iter__(self) -> Generator[Any, None, object]:
        """As ``__await__``, for ``yield from``."""

    def done(self) -> bool:
        """True when it was woken, or its task was cancelled."""


class CallsSoon(Protocol):
    """The part of an event loop that is used without knowing its kind."""

    def call_soon(self, callback: Callable[..., object], /, *arguments: Any, context: Context | None = None) -> object:
        """Call ``callback`` at the next turn; raises RuntimeError once the loop is closed."""


class Waiting:
    """The port; this implementation is used until an event loop is installed."""

    __slots__ = ()

    def running_loop(self) -> CallsSoon:
        """The loop that runs in this thread. Raises RuntimeError when none does."""
        raise RuntimeError("no running event loop")

    def loop_here(self) -> CallsSoon | None:
        """As ``running_loop``; None when none runs."""
        return None

    def new_waiter(self, loop: Any) -> Awaiter:
        """A waiter for the running task of this ``running_loop()``."""
        raise RuntimeError("no running event loop")

    def wake(self, waiter: Awaiter) -> None:
        """Let the waiter's task go on. Nothing happens when it was cancelled or its loop is closed."""

    def wake_all(self, waiters: list[Awaiter]) -> None:
        """As ``wake`` for each, in order."""
        for waiter in waiters:
            self.wake(waiter)

    def no_outcome_error(self) -> Exception:
        """The error for asking a record on its way for its outcome."""
        return IllegalStateError("the record is still on its way: await it")


_installed: Waiting = Waiting()


def waiting() -> Waiting:
    """The class behind the port now."""
    return _installed


def install(other_half: Waiting) -> None:
    """Put an event loop behind the port."""
    global _installed
    _installed = other_half
