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
from typing import Final, Protocol

__all__ = ["ForkAware", "forget", "watch"]


class ForkAware(Protocol):
    """A producer, or what stands for one, as seen from here."""

    def _forked(self) -> object:
        """This is the child; return the objects that must be kept alive, and untouched."""


_watched: Final[weakref.WeakSet[ForkAware]] = weakref.WeakSet()
_inherited: Final[list[object]] = []


def watch(started: ForkAware) -> None:
    """Call ``started._forked()`` in the child after each fork, also of the child. Holds ``started`` weakly."""
    _watched.add(started)


def forget(closed: ForkAware) -> None:
    """Undo ``watch``."""
    _watched.discard(closed)


def _after_fork_in_child() -> None:
    for producer in list(_watched):
        _inherited.append(producer._forked())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
