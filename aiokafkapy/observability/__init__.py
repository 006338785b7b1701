"""Events for people and machines: structured, and rate-limited in outages.

An event's name and fields come in; a log line goes out. ``events`` has the loggers, ``rate_limit`` keeps an outage from
filling the log, ``secret_names`` says which values are hidden, ``rendering`` is the part for structlog, imported with
the first event that is not filtered out, and ``programs`` configures logging for our own programs. Beside them are the
base of metrics (``window``) and the observers of a client's events (``observer``). Kafka's counterpart is slf4j with
the ``LogContext`` of a client.

Rules:

- The package configures neither structlog nor logging. If the application configured structlog, events go through its
  processors. Otherwise structlog renders them as one line of text, ``event key=value …``, with the variables of
  ``structlog.contextvars``, for the standard loggers ``aiokafkapy.*``; ``fields`` of the log record has the values.
- There is no NullHandler: without any configuration, logging's last resort writes warnings and errors to stderr.
- Event names are stable; their one table is in ``docs/logging.md``, and a test compares it with the source. No event
  is logged per record or per request.
- A value with the name of a secret is never shown.
- An error while an event is written, in a processor of the application or in a value's ``__str__``, ends here.
"""

from __future__ import annotations

from .events import EventLogger, describe_error, get_logger
from .rate_limit import RateLimitedLogger
from .secret_names import is_secret_name

__all__ = ["EventLogger", "RateLimitedLogger", "describe_error", "get_logger", "is_secret_name"]
