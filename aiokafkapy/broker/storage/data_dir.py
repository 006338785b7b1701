"""A broker's data folder as a whole: the lock on it, and the id of the cluster whose data it has.

Owns the files ``.lock`` and ``meta.properties`` and nothing else of the folder. Kafka's counterparts are ``FileLock``
on the ``.lock`` of each log directory, and ``MetaProperties``.

Rules: two brokers that write to one folder would each destroy records that the other acknowledged, so the second is
refused. The lock belongs to the open file: it ends with the process, even with one that is killed. A system without
``flock`` has no lock.
"""

from __future__ import annotations

import base64
import os
import uuid
from pathlib import Path
from typing import Final

from ...errors import IllegalStateError
from .checkpoint_file import DamagedFileError, read_checkpoint, write_checkpoint

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["DataDirLock", "load_cluster_id"]

_REMEDY: Final = "delete it: the cluster then gets a new id"


class DataDirLock:
    """Held from ``acquire`` to ``release``; without a folder both do nothing."""

    __slots__ = ("_descriptor", "_folder")

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._descriptor = -1

    def acquire(self) -> None:
        """Make the folder if it is missing, and lock it.

        Raises IllegalStateError when another broker has it, and OSError when it cannot be made.
        """
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


def load_cluster_id(folder: Path | None) -> str:
    """The id in ``meta.properties``, or a new one in Kafka's form (22 characters). Raises DamagedFileError, OSError."""
    new_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    if folder is None:
        return new_id
    path = folder / "meta.properties"
    content = read_checkpoint(path, _REMEDY)
    if content is None:
        write_checkpoint(path, f"version=1\ncluster.id={new_id}\n".encode())
        return new_id
    for line in content.decode().splitlines():
        if line.startswith("cluster.id="):
            return line.removeprefix("cluster.id=").strip()
    raise DamagedFileError(path, "it has no line cluster.id=", _REMEDY)
