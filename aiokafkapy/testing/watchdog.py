"""Child processes and a directory that outlive their owner by no more than a moment, however the owner ends.

A watchdog is a small process of its own that reads from a pipe whose other end only the owner holds. When the owner
closes it, crashes or is killed with -9, the pipe ends, and the watchdog kills what it was told of and removes the
directory. Linux's PR_SET_PDEATHSIG would kill when the *thread* that started the child ends, which is no use to code
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
    """Guards any number of process groups, and a directory if given; `close()` does what our death would do."""

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
        """Kill this group when the owner is gone."""
        self._say(f"+{process_group}")

    def release(self, process_group: int) -> None:
        """Forget a group that has ended: its number may come to mean somebody else."""
        self._say(f"-{process_group}")

    def close(self, timeout: float = 30.0) -> None:
        """Kill what is still guarded, remove the directory, and wait until both are done. Idempotent."""
        with contextlib.suppress(OSError):
            self._pipe.close()
        self._process.wait(timeout)

    def _say(self, line: str) -> None:
        self._pipe.write(line.encode() + b"\n")
        self._pipe.flush()


def main(directory: str) -> None:
    """The watchdog's program: take orders from standard input until it ends, then clean up."""
    groups: set[int] = set()
    for line in sys.stdin:
        if line[0] == "+":
            groups.add(int(line[1:]))
        else:
            groups.discard(int(line[1:]))
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    _wait_until_gone(groups)  # one that is still dying might write into the directory
    if directory:
        shutil.rmtree(directory, ignore_errors=True)


def _wait_until_gone(groups: set[int], timeout: float = 2.0) -> None:
    """Bounded, because where nobody reaps orphans they stay as zombies."""
    deadline = time.monotonic() + timeout
    for group in groups:
        with contextlib.suppress(OSError):
            while time.monotonic() < deadline:
                os.killpg(group, 0)
                time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1])
