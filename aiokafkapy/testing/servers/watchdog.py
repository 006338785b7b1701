"""Ends child processes and removes a directory when their owner ends in any way.

A watchdog is a small process that reads from a pipe whose other end only the owner holds. When the owner closes it,
crashes or is killed with -9, the pipe ends, and the watchdog kills the registered process groups and removes the
directory. Linux's PR_SET_PDEATHSIG would kill a child when the *thread* that started it ends, which is wrong for code
that starts children from worker threads.

Rule: this file is also the watchdog's program, run by path, so it imports the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import IO

__all__ = ["Watchdog"]


class Watchdog:
    """Guards process groups, and a directory if given; ``close()`` cleans up as the owner's death would."""

    def __init__(self, directory: str = "") -> None:
        # A session of its own: Ctrl-C in a terminal must reach the owner, not the watchdog.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None  # asked for just above
        self._pipe: IO[bytes] = self._process.stdin

    def guard(self, process_group: int) -> None:
        """Kill this process group when the owner ends."""
        self._say(f"+{process_group}")

    def release(self, process_group: int) -> None:
        """Forget a group that has ended: its id may be reused."""
        self._say(f"-{process_group}")

    def close(self, timeout: float = 30.0) -> None:
        """Kill the processes that are still guarded, remove the directory, and wait until both are done. Idempotent."""
        with contextlib.suppress(OSError):
            self._pipe.close()
        self._process.wait(timeout)

    def _say(self, line: str) -> None:
        self._pipe.write(line.encode() + b"\n")
        self._pipe.flush()


def main(directory: str) -> None:
    """The watchdog's program: read commands from standard input until it ends, then clean up."""
    groups: set[int] = set()
    for line in sys.stdin:
        if line[0] == "+":
            groups.add(int(line[1:]))
        else:
            groups.discard(int(line[1:]))
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    _wait_until_gone(groups)  # a dying process might still write into the directory
    if directory:
        shutil.rmtree(directory, ignore_errors=True)


def _wait_until_gone(groups: set[int], timeout: float = 2.0) -> None:
    """Wait for the groups to end; bounded, since orphans that nothing reaps stay as zombies."""
    deadline = time.monotonic() + timeout
    for group in groups:
        with contextlib.suppress(OSError):
            while time.monotonic() < deadline:
                os.killpg(group, 0)
                time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1])
