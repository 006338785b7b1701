"""The loggers of the package: ``_logger = get_logger(__name__)``, ``_logger.warning("connection.lost", node_id=1)``.

Owns the choice between the application's structlog and our own, and the rule that logging never raises. Does not know
the format of a line. Kafka's counterpart is slf4j's ``Logger``.

Rule: structlog takes 50 ms and 7 MB to import, so it is imported with the first event that is not filtered out.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Final

from .secret_names import without_secrets

__all__ = ["EventLogger", "before_first_event", "describe_error", "get_logger"]

_ROOT: Final = "aiokafkapy"
_METHODS: Final = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warning",
    logging.ERROR: "error",
}

_before_first_event: Callable[[], object] | None = None


def before_first_event(configure: Callable[[], object] | None) -> None:
    """For our own programs: call this before the first event is logged, to configure logging; None ends that."""
    global _before_first_event
    _before_first_event = configure


def get_logger(name: str = _ROOT, **context: object) -> EventLogger:
    """The logger of a module (pass ``__name__``); ``context`` goes into each of its events."""
    return EventLogger(logging.getLogger(name), context)


class EventLogger:
    """Logs an event with fields, through structlog."""

    __slots__ = ("_context", "_logger")

    def __init__(self, logger: logging.Logger, context: Mapping[str, object]) -> None:
        self._logger = logger
        self._context = dict(context)

    def bind(self, **context: object) -> EventLogger:
        """A logger with more context."""
        return EventLogger(self._logger, self._context | context)

    def debug(self, event: str, **fields: object) -> None:
        """Log an event that matters only in a search for a fault."""
        self.log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log an event that an operator may want to know of."""
        self.log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log a failure that is being retried."""
        self.log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log a failure that is not retried, or a bug."""
        self.log(logging.ERROR, event, fields)

    def log(self, level: int, event: str, fields: Mapping[str, object]) -> None:
        """Log at one of these four levels of ``logging``. A field ``exc_info`` keeps its usual meaning."""
        if not self._logger.isEnabledFor(level) and not _has_structlog_configured():
            return
        try:
            configure = _before_first_event  # another thread may remove it
            if configure is not None:
                configure()
            from .rendering import logger_for

            shown = without_secrets(self._context | dict(fields))
            getattr(logger_for(self._logger), _METHODS[level])(event, **shown)
        except Exception:
            # Processors and ``__str__`` may be the application's: their errors must not reach the network layer, which
            # calls this.
            self._logger.log(level, "%s (its fields could not be logged)", event, exc_info=True)


def describe_error(error: BaseException) -> str:
    """The text of an error of an application's code, even if its ``__str__`` fails."""
    try:
        text = str(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        text = "its text cannot be made"
    return f"{type(error).__name__}: {text}"


def _has_structlog_configured() -> bool:
    # An application that configured structlog has imported it, and may want events that standard loggers would drop.
    # A structlog that another thread is just importing may lack this function, and is then not configured.
    is_configured = getattr(sys.modules.get("structlog"), "is_configured", None)
    return is_configured is not None and bool(is_configured())
