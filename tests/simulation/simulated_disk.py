"""The machine's disk, where the spools of a run are: real files in a folder of its own, and everything that goes wrong.

Owns the folders, the writes to them, and a process's death as its disk sees it: ``copy`` gives the next process the
files of that moment, and a death may be in the middle of a write. It knows no producers and no records.

Faults: a full disk refuses writes, after a part of one; a write may be short at any time.

Rule: every choice is made by the one ``random.Random`` given. Names and times of real files have no say.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from aiokafkapy.producer.spool import spool_segment

__all__ = ["SimulatedDisk"]


class SimulatedDisk:
    """The disk of one run; ``close`` removes it."""

    def __init__(self, chance: random.Random) -> None:
        self.is_full = False
        self.refused = 0  # writes
        self._chance = chance
        self._root: Path | None = None
        self._folders = 0
        self._write_at = spool_segment.write_at
        self._deaths: dict[Path, tuple[int, Callable[[Path], object]]] = {}

    def new_folder(self) -> Path:
        """A folder that is not there yet."""
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="simulated-disk-"))
        self._folders += 1
        return self._root / str(self._folders)

    def copy(self, folder: Path) -> Path:
        """A copy of the folder as it is now."""
        found = self.new_folder()
        if folder.exists():
            shutil.copytree(folder, found)
        return found

    def die_in_write(self, folder: Path, number: int, on_death: Callable[[Path], object]) -> None:
        """Call back in the middle of a write to this folder, the ``number``th from now, with a copy of it."""
        self._deaths[folder] = number, on_death

    def forget_death(self, folder: Path) -> None:
        """The process of this folder is gone otherwise."""
        self._deaths.pop(folder, None)

    def heal(self) -> None:
        """All is well from here on."""
        self.is_full = False

    def close(self) -> None:
        """Remove all of it; idempotent."""
        root, self._root = self._root, None
        if root is not None:
            shutil.rmtree(root)

    # in place of the product's calls

    def write_at(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        """Stands for ``spool_segment.write_at``."""
        part = self._chance.randint(1, len(data)) if self._chance.random() < 0.2 else len(data)
        if self.is_full:
            if part < len(data):
                return self._write_at(descriptor, data[:part], position)
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        folder = self._dying_folder(descriptor)
        if folder is None:
            return self._write_at(descriptor, data[:part], position)
        _, on_death = self._deaths.pop(folder)
        part = self._chance.randint(0, len(data))
        if part:
            self._write_at(descriptor, data[:part], position)
        on_death(self.copy(folder))
        return self._write_at(descriptor, data, position)

    # internals

    def _dying_folder(self, descriptor: int) -> Path | None:
        """The folder whose process dies in this write."""
        for folder, (number, on_death) in self._deaths.items():
            if folder.exists() and any(_is(descriptor, file) for file in folder.iterdir()):
                if number <= 1:
                    return folder
                self._deaths[folder] = number - 1, on_death
        return None


def _is(descriptor: int, file: Path) -> bool:
    return os.path.samestat(os.fstat(descriptor), file.stat())
