"""stdin, stdout and stderr of our programs: all three there, and able to take any text.

Knows no command. Rules:

- A stream that the caller has closed is ``/dev/null``. Its number would be that of the next socket or file otherwise:
  results would be written to a broker, and libuv ends the process where it is to close such a number.
- What stdout's encoding does not have is escaped: a name in another script is no reason to end. JSON lines are UTF-8,
  whatever the locale (RFC 8259).
"""

from __future__ import annotations

import io
import os
import sys
from typing import Final, TextIO

__all__ = ["prepare_streams", "utf8_stdout"]

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def prepare_streams() -> None:
    """Open those that are closed, and let stdout escape; called once, before anything else is opened."""
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def utf8_stdout() -> TextIO:
    """stdout for JSON lines."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    return sys.stdout
