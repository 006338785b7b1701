"""An event loop whose time is virtual and whose network is a ``SimulatedNetwork``: hours pass at once, and twice alike.

When no callback is ready, the time jumps to the next timer. If there is none, or only recurring ones, ``Deadlock``
names the tasks that still wait, so that a hang is found at once.

Rules: nothing depends on a real thread, socket or clock; work for a thread runs later, in a turn of its own; exceptions
that asyncio would log are kept in ``complaints``.
"""

from __future__ import annotations

import asyncio
import socket
import weakref
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Deadlock", "Network", "SimulatedLoop"]

START = 1_000.0
"""Not zero, to expose code that confuses "never" with time zero."""
LONGEST_RUN = 1_800.0
"""Seconds after which only recurring timers can keep the loop alive: no scenario needs a tenth of it."""

MOST_TURNS = 100_000
"""Turns in which no time passes: the busiest scenario needs a hundredth of it."""


class Deadlock(Exception):
    """Nothing can happen any more, and the awaited event has not."""


class Network(Protocol):
    """A network as the loop uses it."""

    async def connect(self, sock: socket.socket, address: Any) -> None:
        """As ``loop.sock_connect``."""

    def open(self, sock: Any, protocol: asyncio.Protocol) -> asyncio.Transport:
        """The transport of a connected or accepted socket."""

    def listen(self, listener: Any, on_acceptable: Callable[[], None]) -> None:
        """Call back when a connection can be accepted."""

    def listen_no_more(self, listener: Any) -> bool:
        """Stop calling back; True if there was a callback."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs until its future is done, like any loop; ``delay_of_thread()`` says how long work in a thread takes."""

    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, delay_of_thread: Callable[[], float]) -> None:
        super().__init__()
        self.network: Network
        self.complaints: list[str] = []
        self.ends_at = START + LONGEST_RUN
        self._now = START
        self._turns = 0
        self._clock_resolution = 1e-9
        self._selector = self
        self._delay_of_thread = delay_of_thread
        self._busy_until: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        self.set_exception_handler(self._complain)

    def time(self) -> float:
        """Virtual seconds."""
        return self._now

    def timers(self) -> list[asyncio.TimerHandle]:
        """Timers that are armed."""
        return [timer for timer in self._scheduled if not timer.cancelled()]

    # in place of asyncio's selector

    def select(self, timeout: float | None) -> list[Any]:
        """Let the time pass until the next timer; ``Deadlock`` when there is none."""
        self._turns += 1
        if self._turns > MOST_TURNS:
            self._turns = 0
            raise Deadlock(f"the loop spins: at {self._now:.4f} s it has turned {MOST_TURNS:,} times")
        if timeout == 0:
            return []
        if timeout is None or self._now > self.ends_at:
            waiting = sorted(f"{task.get_name()}: {_where(task)}" for task in asyncio.all_tasks(self))
            raise Deadlock("what was awaited will not happen any more; tasks that wait:\n  " + "\n  ".join(waiting))
        # _run_once has taken cancelled timers off the front; a timeout is cut at a day, which is no harm.
        if self._scheduled[0].when() > self._now:
            self._now = self._scheduled[0].when()
            self._turns = 0
        return []

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    # the network

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        await self.network.connect(sock, address)

    async def create_connection(self, protocol_factory: Callable[[], Any], *_: Any, sock: Any, **__: Any) -> Any:  # type: ignore[override]
        """Of a connected socket only."""
        return self._opened(sock, protocol_factory())

    async def connect_accepted_socket(self, protocol_factory: Callable[[], Any], sock: Any, **_: Any) -> Any:
        return self._opened(sock, protocol_factory())

    def add_reader(self, fd: Any, callback: Callable[..., Any], *_: Any) -> None:  # type: ignore[override]
        """For listeners only."""
        self.network.listen(fd, callback)

    def remove_reader(self, fd: Any) -> bool:
        return self.network.listen_no_more(fd)

    # threads

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run it here, a little later. Work that runs cannot be cancelled any more, as in a thread.

        A single thread does one thing after another, and nothing once it is shut down.
        """
        if getattr(executor, "_shutdown", False):
            raise RuntimeError("cannot schedule new futures after shutdown")
        is_single = getattr(executor, "_max_workers", 0) == 1
        begins_at = max(self._now, self._busy_until.get(executor, 0.0)) if is_single else self._now
        ends_at = begins_at + self._delay_of_thread()
        if is_single:
            self._busy_until[executor] = ends_at + 1e-9  # timers that are due together may swap
        outcome: asyncio.Future[Any] = self.create_future()

        def run() -> None:
            try:
                result = func(*args)
            except Exception as error:
                if not outcome.done():
                    outcome.set_exception(error)
            else:
                if not outcome.done():
                    outcome.set_result(result)

        self.call_at(ends_at, run)
        return outcome

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    # internals

    def _opened(self, sock: Any, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, asyncio.Protocol]:
        return self.network.open(sock, protocol), protocol

    def _complain(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.complaints.append(f"{context['message']}: {context.get('exception')!r}")


def _where(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    return f"{frames[-1].f_code.co_qualname}:{frames[-1].f_lineno}" if frames else repr(task.get_coro())
