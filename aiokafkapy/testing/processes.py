"""Child processes that stand still for a while, as a machine does that swaps, or a virtual one that is being moved.

Owns the waiting until one really does. Knows nothing of what it runs. Java has no counterpart.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Final

__all__ = ["stop_process"]

_POLL_INTERVAL: Final = 0.001


def stop_process(pid: int, timeout: float = 10.0) -> None:
    """SIGSTOP to a child process; returns when it stands still: until the signal has reached each thread, the others go
    on, and on a busy machine that is time enough for an answer.

    Harmless when it has ended. Raises TimeoutError after ``timeout`` seconds.
    """
    try:
        os.kill(pid, signal.SIGSTOP)
        deadline = time.monotonic() + timeout
        # The parent is told when the last thread has stopped; WNOWAIT leaves that to whoever else asks.
        while os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT | os.WNOHANG) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {pid} has not stopped within {timeout:g} s of SIGSTOP")
            time.sleep(_POLL_INTERVAL)
    except (ProcessLookupError, ChildProcessError):
        pass
