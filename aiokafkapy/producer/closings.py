"""Who is told when a producer closes: exporters of its numbers, which hold it weakly and would find it gone.

Owns the list. It knows nothing of a producer. Kafka's counterpart is ``MetricsReporter.close``.

Rule: they are told when ``close()`` has done all and the producer still counts as open, on its event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

__all__ = ["call_before_closed", "tell_before_closed"]

_told: Final[WeakKeyDictionary[object, list[Callable[[], object]]]] = WeakKeyDictionary()


def call_before_closed(producer: object, tell: Callable[[], object]) -> None:
    """Call ``tell``, which must not raise, when the producer closes. The producer is not kept alive."""
    _told.setdefault(producer, []).append(tell)


def tell_before_closed(producer: object) -> None:
    """The producer closes."""
    for tell in _told.pop(producer, ()):
        tell()
