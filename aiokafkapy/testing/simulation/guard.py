"""``Guard``: refuses calls that a simulation cannot have, such as threads, real sockets and waiting by the machine's
clock.

Owns the refused calls, their errors, and a list of them: a service may take an error for a broken connection and try
again, but the run has still failed. It knows no broker and no producer.

Rules:

- a call is refused at once, by ``SimulationError``, which names it and the remedy; no call waits for an event outside
  of the simulation;
- only the thread of the simulation is watched: other threads of the process go on as usual;
- work that this package itself gives to a thread runs in the loop, see ``SimulatedLoop.run_in_executor``.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar
from unittest import mock

__all__ = ["Guard", "SimulationError"]

_PACKAGE = __name__.partition(".")[0] + "."

P = ParamSpec("P")
R = TypeVar("R")


class SimulationError(RuntimeError):
    """The coroutine needs something that a simulation lacks, or the simulation's arguments are wrong."""


class Guard:
    """The guard of one run. ``threads``: ``"refused"``, or ``"simulated"``, so that a thread's work runs as one step
    of the loop.
    """

    def __init__(self, threads: str = "refused") -> None:
        self.threads = threads
        self._is_watching = False  # a module that was imported meanwhile may keep the replacement
        self.refusals: list[SimulationError] = []

    def refuse(self, call: str, instead: str) -> SimulationError:
        """The error of a call, to be raised."""
        error = SimulationError(f"{call} in a simulation: {instead}")
        self.refusals.append(error)
        return error

    def check_thread(self, function: Any) -> None:
        """Raise SimulationError when a thread's work is not this package's own; for ``run_in_executor`` to call."""
        if self.threads == "simulated" or _is_ours(function):
            return
        frame = sys._getframe(2)
        name = frame.f_globals.get("__name__", "")
        if name == "asyncio.threads":  # to_thread, whose function is in a partial
            frame = frame.f_back or frame
            name = frame.f_globals.get("__name__", "")
            function = function.args[0]
        if not name.startswith((_PACKAGE, "asyncio.")):
            raise self.refuse(
                f"a thread for {getattr(function, '__qualname__', function)!r}",
                'there are no threads; give threads="simulated" if it only computes: it is one step of the loop then',
            )

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Refuse the calls within the block."""
        thread = threading.get_ident()

        def watched(real: Callable[P, R], call: str, instead: str) -> Callable[P, R]:
            def guarded(*arguments: P.args, **options: P.kwargs) -> R:
                if self._is_watching and threading.get_ident() == thread:
                    raise self.refuse(call, instead)
                return real(*arguments, **options)

            return guarded

        with contextlib.ExitStack() as stack:
            for owner, name, call, instead in (
                (threading.Thread, "start", "a new thread", "there are no threads; use a fake for that part"),
                (
                    time,
                    "sleep",
                    "time.sleep()",
                    "it stops every coroutine; await asyncio.sleep(), which takes no time",
                ),
                (socket.socket, "connect", "a socket's connect()", _NO_SOCKETS),
                (socket.socket, "connect_ex", "a socket's connect_ex()", _NO_SOCKETS),
                (socket.socket, "listen", "a socket's listen()", _NO_SOCKETS),
            ):
                stand_in = watched(getattr(owner, name), call, instead)
                stack.enter_context(mock.patch.object(owner, name, stand_in))
            self._is_watching = True
            try:
                yield
            finally:
                self._is_watching = False


_NO_SOCKETS = "there is no real network; only the simulated brokers can be reached, by asyncio; use a fake of the rest"


def _is_ours(function: object) -> bool:
    owner = type(getattr(function, "__self__", None)).__module__
    return any(str(name or "").startswith(_PACKAGE) for name in (getattr(function, "__module__", ""), owner))
