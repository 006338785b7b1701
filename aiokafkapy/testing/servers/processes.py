"""Stops child processes by SIGSTOP, to simulate a machine that swaps or a virtual machine that is being migrated.

Owns the wait until a process has really stopped. It does not know the program. Java has no counterpart.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Final

__all__ = ["stop_process"]

_POLL_INTERVAL: Final = 0.001


def stop_process(pid: int, timeout: float = 10.0) -> None:
    """Send SIGSTOP to a child process and return when all its threads have stopped.

    Until the signal has reached every thread the others go on, on a busy machine long enough to answer a request.
    Harmless if the process has ended. Raises TimeoutError after ``timeout`` seconds.
    """
    try:
        os.kill(pid, signal.SIGSTOP)
        deadline = time.monotonic() + timeout
        # The parent is notified when the last thread has stopped; WNOWAIT leaves the status for other waiters.
        while os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT | os.WNOHANG) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {pid} has not stopped within {timeout:g} s of SIGSTOP")
            time.sleep(_POLL_INTERVAL)
    except (ProcessLookupError, ChildProcessError):
        pass
