"""Callbacks for a producer's close, for exporters that hold the producer only weakly.

Owns the list. It knows nothing of a producer. Kafka's counterpart is ``MetricsReporter.close``.

Rule: they are called on the producer's event loop, at the end of ``close()``, while the producer still counts as open.
A callback that raises stops neither the others nor the close.

Events: ``producer.closing_untold`` (error; error).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

from ..observability import get_logger

__all__ = ["call_before_closed", "tell_before_closed"]

_logger = get_logger(__name__)

_told: Final[WeakKeyDictionary[object, list[Callable[[], object]]]] = WeakKeyDictionary()


def call_before_closed(producer: object, tell: Callable[[], object]) -> None:
    """Call ``tell`` when the producer closes; its errors are logged. The producer is not kept alive."""
    _told.setdefault(producer, []).append(tell)


def tell_before_closed(producer: object) -> None:
    """Call the callbacks of a producer that closes."""
    for tell in _told.pop(producer, ()):
        try:
            tell()
        except Exception as error:  # perhaps a user's callback
            _logger.error("producer.closing_untold", error=repr(error), exc_info=error)
