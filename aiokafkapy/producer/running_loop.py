"""``running_loop()``: the event loop that runs in this thread, or None; every record asks for it.

The answer is asyncio's own. The compiled twin, ``_running_loop.pyx``, gives it without a system call: asyncio of Python
3.11 asks for the process id each time. Java has no counterpart.
"""

from __future__ import annotations

from asyncio import _get_running_loop as running_loop
from typing import TYPE_CHECKING

from .. import _form

if _form.compiled and not TYPE_CHECKING:
    from ._running_loop import running_loop

__all__ = ["running_loop"]
