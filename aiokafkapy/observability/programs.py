"""The logging configuration of our own programs: the command line, the demo's service, the examples.

Owns the format of a program's log. A library must not configure logging, so only our programs call this; an application
may. Kafka's counterpart is ``config/tools-log4j2.yaml``.

Rules:

- the log goes to stderr; stdout is the program's result;
- ``console`` is coloured on a terminal (unless ``NO_COLOR`` is set) and plain elsewhere, ``json`` is one object per
  line;
- the level applies to our events; of every other library warnings and errors are shown, in the same form;
- structlog is imported when it is used, so that a program that does not log need not wait for it
  (``cli.late_logging``).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import Processor

__all__ = ["LogFormat", "LogLevel", "configure_logging"]


class LogFormat(StrEnum):
    """The form of a line of the log."""

    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """The lowest shown level of our events."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure_logging(log_format: str = LogFormat.CONSOLE, level: str = LogLevel.INFO) -> Callable[[], None]:
    """Configure structlog and logging for this process; returns a function that restores the old settings.

    Raises ValueError for an unknown format or level.
    """
    chosen, threshold = LogFormat(log_format), LogLevel(level).upper()
    import structlog

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    handler = _StandardError()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(chosen)],
        )
    )
    root, ours = logging.getLogger(), logging.getLogger("aiokafkapy")
    before = structlog.get_config() if structlog.is_configured() else None
    level_before = ours.level

    def restore() -> None:
        root.removeHandler(handler)
        ours.setLevel(level_before)
        if before is None:
            structlog.reset_defaults()
        else:
            structlog.configure(**before)

    root.addHandler(handler)
    ours.setLevel(threshold)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=logging.getLogger,
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return restore


class _StandardError(logging.Handler):
    """Writes to the current ``sys.stderr``, which progress bars and tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


def _renderers(log_format: LogFormat) -> list[Processor]:
    import structlog

    if log_format is LogFormat.JSON:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    has_colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return [
        structlog.dev.ConsoleRenderer(
            colors=has_colors, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
        )
    ]
