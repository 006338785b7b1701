"""Producers and forks: the copies in a child process are unusable and must not touch resources shared with the parent.

Owns the list of started producers, which are marked as forked in the child, and the objects that they inherited there.
Java has no counterpart: a JVM does not fork. A producer that is not started is not affected: it may be made before a
fork and started after it.

Rule: the child's copy of a socket and of the loop's poller are the parent's own: closing or unregistering them there
would break the parent's connections. So they are kept for ever, and never looked at.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = ["forget", "watch"]

T = TypeVar("T")

_watched: Final[weakref.WeakKeyDictionary[object, Callable[[Any], object]]] = weakref.WeakKeyDictionary()
_inherited: Final[list[object]] = []


def watch(started: T, on_fork: Callable[[T], object]) -> None:
    """Call ``on_fork(started)`` in the child after each fork, also of the child: it returns the objects that must be
    kept alive, and untouched. Holds ``started`` weakly, so ``on_fork`` must be a function, not a bound method of it.
    """
    _watched[started] = on_fork


def forget(closed: object) -> None:
    """Undo ``watch``."""
    _watched.pop(closed, None)


def _after_fork_in_child() -> None:
    for started, on_fork in list(_watched.items()):
        _inherited.append(on_fork(started))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
