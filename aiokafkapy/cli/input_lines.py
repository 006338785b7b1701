"""The lines of a file, of a pipe or of stdin, as bytes.

It does not know their content; ``sources`` makes records of them.

Rules:

- A line is handed on as soon as it is complete, and the last one may lack its line end.
- The input is not opened before the first line is requested: opening a FIFO waits for its writer. So it is opened,
  read and closed in one thread, which may wait in any of these steps while the program ends: no lock is held in a
  read.
- A line has an end: an input without line ends, such as ``/dev/zero``, is an error and does not fill the memory.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["MAX_LINE", "STDIN", "is_regular_file", "lines_of", "stat_of"]

STDIN: Final = "-"
MAX_LINE: Final = 64 * 1024 * 1024
"""The most bytes of a line: beyond the largest records."""
CHUNK: Final = 256 * 1024


def stat_of(name: str) -> os.stat_result:
    """The ``stat`` of an input. Raises OSError, and ValueError if stdin was closed."""
    return os.fstat(sys.stdin.fileno()) if name == STDIN else Path(name).stat()


def is_regular_file(name: str) -> bool:
    """True when opening and reading never wait for a writer."""
    return stat.S_ISREG(stat_of(name).st_mode)


def lines_of(name: str, source: str) -> Iterator[bytes]:
    """The lines with their ends. Raises ValueError, with ``source``, for a line that is too long, and OSError."""
    is_stdin = name == STDIN
    number = 1
    unfinished: list[bytes] = []
    size = 0
    # Without Python's buffer, whose lock is held while a read waits: closing it would wait for the read.
    with open(sys.stdin.fileno() if is_stdin else name, "rb", buffering=0, closefd=not is_stdin) as stream:
        while chunk := stream.read(CHUNK):
            *complete, rest = chunk.split(b"\n")
            for line in complete:
                yield b"".join((*unfinished, line, b"\n"))
                unfinished.clear()
                size = 0
                number += 1
            if rest:
                unfinished.append(rest)
                size += len(rest)
            if size > MAX_LINE:
                raise ValueError(f"{source}:{number}: a line of over {MAX_LINE // 1024 // 1024} MiB: is this text?")
    if unfinished:
        yield b"".join(unfinished)
