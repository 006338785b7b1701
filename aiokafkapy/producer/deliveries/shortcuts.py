"""The running loop and the time, which every record asks for, in the shortest way. Java has no counterpart.

- ``running_loop()``: the event loop that runs in this thread, or None. The answer is asyncio's own, which costs a
  system call in Python 3.11 (for the process id), so asyncio is asked only if its last answer may be wrong. The
  compiled form sees that in asyncio's own data; here the last loop is the answer as long as it runs and the thread is
  the same, which is wrong only if another loop runs within a turn of the first, as asyncio forbids.
- ``now_ms()``: milliseconds since the epoch, for a record's timestamp. A simulation replaces ``time`` in the module
  that this function is from.

The compiled twin is ``shortcuts.pyx``.
"""

from __future__ import annotations

import os
from asyncio import AbstractEventLoop, _get_running_loop
from collections.abc import Callable
from threading import get_ident
from time import time

__all__ = ["now_ms", "running_loop"]

# Thread, loop, and whether it runs; in one object, for threads may come in between.
_last: tuple[int, AbstractEventLoop | None, Callable[[], bool]] = (0, None, bool)


def running_loop() -> AbstractEventLoop | None:
    """Described above."""
    global _last
    thread, loop, is_running = _last
    if thread == get_ident() and is_running():
        return loop
    loop = _get_running_loop()
    if loop is not None:
        _last = (get_ident(), loop, loop.is_running)
    return loop


def forget() -> None:
    """Ask asyncio the next time: a forked child has the memory of a loop, but runs none."""
    global _last
    _last = (0, None, bool)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)


def now_ms() -> int:
    """Described above."""
    return int(time() * 1000)
