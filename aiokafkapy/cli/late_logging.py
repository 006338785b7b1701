"""Logging for a program that must start quickly: configured with the first line of the log.

Owns the moment; ``observability.programs`` has the format. Most commands do not log, and structlog, with the parts of
rich that it uses, takes as long to import as one of our commands.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..observability.events import before_first_event
from ..observability.programs import LogFormat, LogLevel, configure_logging

__all__ = ["configure_late"]


def configure_late(log_format: str = LogFormat.CONSOLE, level: str = LogLevel.WARNING) -> Callable[[], None]:
    """As ``configure_logging``, at the first log event; the level is in force at once."""
    ours = logging.getLogger("aiokafkapy")
    level_before = ours.level
    first_record = _FirstRecord(LogFormat(log_format), LogLevel(level))
    ours.setLevel(first_record.threshold.upper())
    logging.getLogger().addHandler(first_record)
    before_first_event(first_record.configure)

    def restore() -> None:
        first_record.end()
        ours.setLevel(level_before)

    return restore


class _FirstRecord(logging.Handler):
    """Replaced by the handler of ``configure_logging`` at the first event."""

    def __init__(self, log_format: LogFormat, threshold: LogLevel) -> None:
        super().__init__()
        self.log_format = log_format
        self.threshold = threshold
        self._restore: Callable[[], None] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.configure()
        logging.getLogger(record.name).handle(record)

    def configure(self) -> None:
        """Configure logging, once: several threads may log at the same time."""
        assert self.lock is not None
        with self.lock:
            if self._restore is None:
                self._restore = configure_logging(self.log_format, self.threshold)
                self._leave()  # only now: events that other threads log meanwhile wait here

    def end(self) -> None:
        """Restore the previous settings."""
        self._leave()
        if self._restore is not None:
            self._restore()

    def _leave(self) -> None:
        logging.getLogger().removeHandler(self)
        before_first_event(None)
