"""Calls with only a topic and a value, in the shortest way.

- ``shorten(enqueue, finish, yield_after, send_nowait, admitted_at_once, accept)``: let the calls take the short way;
  ``accept`` is that of ``send``.

Interpreted, it does nothing: Python's own coroutines cost less than anything written in Python. The compiled twin,
``short_calls.pyx``, saves the search for arguments by name and the objects of a compiled coroutine. Java has no
counterpart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["shorten"]


def shorten(
    enqueue: Callable[..., Any],
    finish: Callable[..., Any],
    yield_after: int,
    send_nowait: Callable[..., Any],
    admitted_at_once: Callable[..., Any],
    accept: Callable[..., Any],
) -> None:
    """Described above."""
