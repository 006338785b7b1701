"""stdin, stdout and stderr of our programs: all three open, and able to take any text.

It knows no command. Rules:

- A stream that the caller has closed is ``/dev/null``. Otherwise the next socket or file would get its number: results
  would be written to a broker, and libuv ends the process when it has to close such a number.
- Characters that stdout's encoding lacks are escaped: a name in another script must not end the program. JSON lines
  are UTF-8, whatever the locale (RFC 8259).
"""

from __future__ import annotations

import io
import os
import sys
from typing import Final, TextIO

__all__ = ["prepare_streams", "utf8_stdout"]

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def prepare_streams() -> None:
    """Open closed streams, and let stdout escape; called once, before any file is opened."""
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
