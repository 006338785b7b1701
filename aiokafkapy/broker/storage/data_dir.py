"""The lock on a broker's data folder: two that write to one would each destroy what the other acknowledged.

Owns the file ``.lock`` and nothing else of the folder. Kafka's counterpart is ``org.apache.kafka.storage.internals``'s
``FileLock`` on the ``.lock`` of each log directory.

Rules: the lock belongs to the open file, so the death of the process ends it whatever kills it; where the system has no
``flock`` there is no lock.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import IllegalStateError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["DataDirLock"]


class DataDirLock:
    """Held from ``acquire`` to ``release``; without a folder both do nothing."""

    __slots__ = ("_descriptor", "_folder")

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._descriptor = -1

    def acquire(self) -> None:
        """Make the folder if need be and lock it. IllegalStateError when another broker has it, OSError otherwise."""
        if self._folder is None or fcntl is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise IllegalStateError(f"{self._folder} is in use: another broker has its data there") from None
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the folder back; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
