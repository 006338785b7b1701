"""A lock between processes, on a file.

Owns the lock while it is held. Knows nothing of the guarded thing. Java's counterpart is ``FileLock``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

__all__ = ["locked"]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of this file, making the file if it is missing; blocks until the lock is free.

    It is released when its process ends, however that ends. Windows has no such lock: there no process waits.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
