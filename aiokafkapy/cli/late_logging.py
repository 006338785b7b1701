"""Logging of a program that is to start quickly: configured with the first line of the log.

Owns the moment; ``observability.programs`` has the form. Most runs of a broker log nothing, and structlog takes as long
to import as the broker to start.
"""

from __future__ import annotations

import logging

__all__ = ["configure_late"]


def configure_late() -> None:
    """Configure logging, as the command line does without options, when something is first logged."""
    logging.getLogger().addHandler(_FirstRecord())


class _FirstRecord(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        from ..observability.programs import LogFormat, LogLevel, configure_logging

        logging.getLogger().removeHandler(self)
        configure_logging(LogFormat.CONSOLE, LogLevel.WARNING)
        logging.getLogger(record.name).handle(record)
