"""An event loop whose time is virtual and whose network is simulated: hours pass at once, and every run is the same.

When no callback is ready, the time jumps to the next timer. Without a timer before ``ends_at``, ``Deadlock`` names the
tasks that still wait, so that a hang is found at once; ``is_told_of`` chooses them.

Rules: the loop uses no real thread, socket or clock; a call that does is refused (``Guard``); work for a thread runs
later, in a separate turn; exceptions that asyncio would log are kept in ``complaints``.
"""

from __future__ import annotations

import asyncio
import math
import socket
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from ...sockets import network_of, use_network
from .guard import Guard, SimulationError

__all__ = ["Deadlock", "SimulatedLoop"]

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

START = 1_000.0
"""Not zero, to expose code that confuses "never" with time zero."""
LONGEST_RUN = 1_800.0
"""Seconds after which a run counts as hung, whatever timers recur: no scenario needs a tenth of it."""

RESOLUTION = 1e-9
NEVER = 1e10
"""Seconds, three centuries: a timer beyond that is meant never to fire."""

MOST_PLACES = 12

LOOPBACK = ("127.0.0.1", "localhost", b"127.0.0.1", b"localhost")
NO_NETWORK = "only the simulated brokers can be reached, by asyncio; use a fake of the rest"

MOST_TURNS = 100_000
"""The most turns in which no time passes: the busiest scenario needs a hundredth of them."""


class Deadlock(Exception):
    """No further event can happen, and the awaited one has not happened."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs until its future is done, like any loop; ``delay_of_thread()`` gives the duration of work in a thread."""

    _scheduled: list[asyncio.TimerHandle]
    _thread_id: int | None

    def __init__(self, delay_of_thread: Callable[[], float], guard: Guard | None = None) -> None:
        super().__init__()
        self.guard = guard if guard is not None else Guard("simulated")
        self.complaints: list[str] = []
        self.is_told_of: Callable[[asyncio.Task[object]], bool] = lambda _: True
        self.ends_at = START + LONGEST_RUN
        self._now = START
        self._turns = 0
        self._clock_resolution = RESOLUTION
        self._selector = self
        self._delay_of_thread = delay_of_thread
        self._busy_until: weakref.WeakKeyDictionary[Executor | None, float] = weakref.WeakKeyDictionary()
        self.set_exception_handler(self._complain)

    def time(self) -> float:
        """Virtual seconds."""
        return self._now

    def timers(self) -> list[asyncio.TimerHandle]:
        """The number of armed timers."""
        return [timer for timer in self._scheduled if not timer.cancelled()]

    # in place of asyncio's selector

    def select(self, timeout: float | None) -> list[object]:
        """Let the time pass until the next timer; raises ``Deadlock`` without one in time."""
        self._turns += 1
        if self._turns > MOST_TURNS:
            self._turns = 0
            raise self._deadlock(f"the loop spins: at {self._now:.4f} s it has turned {MOST_TURNS:,} times")
        if timeout == 0:
            return []
        # _run_once has taken cancelled timers off the front; a timeout is cut at a day, which is harmless.
        due = math.inf if timeout is None else self._scheduled[0].when()
        if due > NEVER:
            raise self._deadlock("the awaited events cannot happen any more")
        if due > self.ends_at:
            raise self._deadlock(f"it has not ended within {self.ends_at - START:g} s")
        if due > self._now:
            self._now = due
            self._clock_resolution = max(RESOLUTION, math.ulp(due))  # a timer that is due must count as due
            self._turns = 0
        return []

    def _process_events(self, events: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    # the network

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: object = None, port: int | None = None, **_: object
    ) -> tuple[asyncio.Transport, Any]:
        """Connect to a simulated listener, for clients that are not ours."""
        network = network_of(self)
        if network is None or port is None or port not in getattr(network, "ports", ()) or host not in LOOPBACK:
            raise self.guard.refuse(f"a connection to {host}:{port}", NO_NETWORK)
        sock = network.new_socket(socket.AF_INET)
        try:
            await network.connect(sock, ("127.0.0.1", port))
            protocol = protocol_factory()
            return network.open(sock, protocol), protocol
        except BaseException:
            sock.close()
            raise

    async def getaddrinfo(self, host: object, port: object, **_: object) -> Any:
        """Look up the loopback address only: there are no other machines."""
        if host not in LOOPBACK:
            raise self.guard.refuse(f"looking up {host!r}", NO_NETWORK)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))]

    # refused calls: a simulation has one process and its own network

    async def sock_connect(self, sock: object, address: object) -> NoReturn:
        raise self.guard.refuse(f"a connection to {address!r}", NO_NETWORK)

    async def create_server(self, *_: object, **__: object) -> NoReturn:
        raise self.guard.refuse("a server", NO_NETWORK)

    async def create_datagram_endpoint(self, *_: object, **__: object) -> NoReturn:
        raise self.guard.refuse("a datagram socket", NO_NETWORK)

    async def create_unix_connection(self, *_: object, **__: object) -> NoReturn:
        raise self.guard.refuse("a Unix domain socket", NO_NETWORK)

    async def create_unix_server(self, *_: object, **__: object) -> NoReturn:
        raise self.guard.refuse("a Unix domain socket", NO_NETWORK)

    async def subprocess_exec(self, *_: object, **__: object) -> NoReturn:
        raise self.guard.refuse("another process", NO_NETWORK)

    async def subprocess_shell(self, *_: object, **__: object) -> NoReturn:
        raise self.guard.refuse("another process", NO_NETWORK)

    def add_reader(self, fd: object, callback: object, *_: object) -> NoReturn:
        raise self.guard.refuse(f"waiting for {fd!r}", NO_NETWORK)

    def add_writer(self, fd: object, callback: object, *_: object) -> NoReturn:
        raise self.guard.refuse(f"waiting for {fd!r}", NO_NETWORK)

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Arguments], object],
        *arguments: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Only for this thread: a call of another one would come by the machine's clock."""
        if self._thread_id not in (None, threading.get_ident()):
            raise SimulationError("a call from another thread in a simulation: there is one thread only")
        return self.call_soon(callback, *arguments, context=context)

    # threads

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], T], *args: *Arguments
    ) -> asyncio.Future[T]:
        """Run it here, a little later. Running work cannot be cancelled any more, as in a thread.

        A single thread does one job after another, and none once it is shut down.
        """
        self.guard.check_thread(func)
        if getattr(executor, "_shutdown", False):
            raise RuntimeError("cannot schedule new futures after shutdown")
        is_single = getattr(executor, "_max_workers", 0) == 1
        begins_at = max(self._now, self._busy_until.get(executor, 0.0)) if is_single else self._now
        ends_at = begins_at + self._delay_of_thread()
        if is_single:
            self._busy_until[executor] = ends_at + 1e-9  # timers that are due together may swap
        outcome: asyncio.Future[T] = self.create_future()

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

    def close(self) -> None:
        """Close the loop, and release its network."""
        use_network(self, None)
        super().close()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """A simulation has no default executor."""

    # internals

    def _deadlock(self, reason: str) -> Deadlock:
        tasks = filter(self.is_told_of, asyncio.all_tasks(self))
        waiting = sorted(f"{task.get_name()}: {_where(task)}" for task in tasks)
        return Deadlock(f"{reason}; waiting tasks:\n  " + "\n  ".join(waiting))

    def _complain(self, _: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        self.complaints.append(f"{context['message']}: {context.get('exception')!r}")


def _where(task: asyncio.Task[object]) -> str:
    """The coroutines that wait for one another, from the task's own to the innermost."""
    places: list[str] = []
    waiting: object = task.get_coro()
    while waiting is not None and len(places) < MOST_PLACES:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None:
            places.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return " > ".join(places) or repr(task.get_coro())
