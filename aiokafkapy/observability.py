"""Events for people and machines: structured, rate-limited in outages, silent unless the application wants them.

Owns the loggers of the package. Knows nothing of what happened: callers give an event's name and its fields.

Rules:

- The package configures neither structlog nor logging. An application that configured structlog gets the events through
  its own processors; every other gets them through the standard loggers ``aiokafkapy.*``, which have a NullHandler: the
  text is ``event key=value …`` and the fields are the record's ``fields`` attribute.
- Event names are stable; they are in the table below. Nothing is logged per record or per request.
- A value whose name says that it is a secret is never shown.
- Where an outage could repeat an event for ever, ``RateLimitedLogger`` lets about ten a minute through for each key,
  and says how many it kept back.

============================  =======  =================================================================================
event                         level    when; fields
============================  =======  =================================================================================
connection.ready              debug    a broker can be used; info after a failure was logged; node_id, address,
                                       suppressed
connection.closed             debug    a connection ended with nothing in flight, or by us; node_id, address, reason
connection.failed             warning  an attempt to connect failed; node_id, address, error
connection.lost               warning  a connection ended with requests in flight; node_id, address, error, in_flight
connection.authentication     error    the broker refused the credentials; node_id, error
connection.api_versions       warning  the broker did not say what it speaks; node_id, error
protocol.violation            error    bytes that are not what the protocol says; node_id, address, error
request.timed_out             warning  no answer in time, the connection is closed; node_id, address, api, seconds
request.callback_failed       error    a callback raised: a bug; api
metadata.updated              debug    an answer was taken; nodes, topics, partial
metadata.failed               warning  an answer did not come or could not be used; error
metadata.topic_errors         warning  an answer has errors for topics, info when they may pass; count, errors
metadata.rebootstrap          warning  start again from the bootstrap addresses; reason, addresses
============================  =======  =================================================================================

A limited event has ``suppressed`` when some were kept back before it. The producer's events are listed in ``producer``.
"""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, Final

__all__ = ["EventLogger", "RateLimitedLogger", "get_logger", "is_secret_name"]

_ROOT: Final = "aiokafkapy"
_SECRET_WORDS: Final = ("password", "secret", "token", "jaas", "credential", "private_key", "authorization")
# Three at once, then one in eight seconds: ten in the first minute of an outage, and seven or eight in each one after.
_BURST: Final = 3
_SECONDS_PER_LINE: Final = 8.0
# Keys are brokers and partitions; beyond this many the one silent for longest is forgotten.
_MAX_KEYS: Final = 1_024

logging.getLogger(_ROOT).addHandler(logging.NullHandler())


def get_logger(name: str = _ROOT, **context: Any) -> EventLogger:
    """The logger of a module (pass ``__name__``); ``context`` goes into each of its events."""
    return EventLogger(logging.getLogger(name), context)


def is_secret_name(name: str) -> bool:
    """True for the name of an option or field whose value must not be shown."""
    lowered = name.lower()
    return any(word in lowered for word in _SECRET_WORDS)


class EventLogger:
    """Logs an event with fields, by whichever of structlog and logging the application has set up."""

    __slots__ = ("_context", "_logger")

    def __init__(self, logger: logging.Logger, context: Mapping[str, Any]) -> None:
        self._logger = logger
        self._context = dict(context)

    def bind(self, **context: Any) -> EventLogger:
        """A logger with more context."""
        return EventLogger(self._logger, self._context | context)

    def debug(self, event: str, **fields: Any) -> None:
        """Log what is only of interest when looking for a fault."""
        self.log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log what an operator may want to know."""
        self.log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log what went wrong and is being retried."""
        self.log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log what went wrong and is not retried, or is a bug."""
        self.log(logging.ERROR, event, fields)

    def log(self, level: int, event: str, fields: Mapping[str, Any]) -> None:
        """Log at a level of ``logging``. A field ``exc_info`` keeps its usual meaning."""
        # Not imported: who has configured it has done so. With it comes rich, 70 modules for the collector to visit.
        structlog = sys.modules.get("structlog")
        if structlog is not None and structlog.is_configured():
            shown = _without_secrets(self._context | dict(fields))
            structlog.get_logger(self._logger.name).log(level, event, **shown)
        elif self._logger.isEnabledFor(level):
            shown = _without_secrets(self._context | dict(fields))
            exc_info = shown.pop("exc_info", None)
            text = " ".join([event, *(f"{name}={_text(value)}" for name, value in shown.items())])
            self._logger.log(level, "%s", text, exc_info=exc_info, extra={"event": event, "fields": shown})


class RateLimitedLogger:
    """Lets about ten events a minute through for each key; the next one says how many were suppressed. ``now`` is loop
    time.
    """

    __slots__ = ("_budgets", "_logger")

    def __init__(self, logger: EventLogger) -> None:
        self._logger = logger
        self._budgets: OrderedDict[Hashable, _Budget] = OrderedDict()

    def log(self, key: Hashable, now: float, level: int, event: str, **fields: Any) -> bool:
        """Log the event unless its key used up its lines; True when it was logged."""
        budget = self._budgets.get(key)
        if budget is None:
            budget = self._budgets[key] = _Budget(now)
            if len(self._budgets) > _MAX_KEYS:
                self._budgets.popitem(last=False)
        else:
            self._budgets.move_to_end(key)
        if not budget.take(now):
            return False
        if budget.suppressed:
            fields["suppressed"] = budget.suppressed
            budget.suppressed = 0
        self._logger.log(level, event, fields)
        return True

    def suppressed(self, key: Hashable) -> int:
        """How many events of the key were kept back since the last that went through."""
        budget = self._budgets.get(key)
        return 0 if budget is None else budget.suppressed

    def settle(self, key: Hashable) -> int | None:
        """The outage behind the key is over: forget it. Returns how many events were kept back since the last that went
        through, or None when there was no outage."""
        budget = self._budgets.pop(key, None)
        return None if budget is None else budget.suppressed


class _Budget:
    """A token bucket."""

    __slots__ = ("lines", "suppressed", "updated")

    def __init__(self, now: float) -> None:
        self.lines = float(_BURST)
        self.updated = now
        self.suppressed = 0

    def take(self, now: float) -> bool:
        self.lines = min(float(_BURST), self.lines + (now - self.updated) / _SECONDS_PER_LINE)
        self.updated = now
        if self.lines < 1:
            self.suppressed += 1
            return False
        self.lines -= 1
        return True


def _without_secrets(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: "<hidden>" if is_secret_name(name) else value for name, value in fields.items()}


def _text(value: Any) -> str:
    text = str(value)
    return f'"{text}"' if not text or any(character in text for character in ' "=') else text
