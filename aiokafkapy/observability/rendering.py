"""The structlog logger of an event, and the format of events if the application did not configure structlog.

Owns our processors: the level of the standard logger, the bound context, the variables of ``structlog.contextvars``,
secrets hidden, one line of text. It does not know handlers, which are the application's.

Rule: an event is one line: ``event key=value …``, with quotes around values with spaces. Line breaks are escaped, as
are a terminal's control characters: a value may come from a peer.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, Final

import structlog
from structlog.typing import EventDict, ProcessorReturnValue, WrappedLogger

from .secret_names import without_secrets

__all__ = ["logger_for"]

_render_fields: Final = structlog.processors.LogfmtRenderer(bool_as_flag=False)
_MEANT_FOR_LOGGING: Final = ("exc_info", "stack_info", "stacklevel")


def logger_for(logger: logging.Logger) -> Any:
    """The application's own structlog logger of this name, if it configured structlog; else ours over ``logger``."""
    if structlog.is_configured():
        bound = structlog.get_logger(logger.name).bind()
        # An AsyncBoundLogger would hand back a coroutine, and a callback of the loop cannot await.
        return getattr(bound, "sync_bl", bound)
    return _own_logger(logger)


@cache
def _own_logger(logger: logging.Logger) -> Any:
    return structlog.wrap_logger(
        logger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            _hide_secrets,
            _as_log_record,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
    )


def _hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return without_secrets(event)


def _as_log_record(logger: WrappedLogger, method: str, event: EventDict) -> ProcessorReturnValue:
    """The arguments of a method of ``logging.Logger``."""
    arguments: dict[str, object] = {name: event.pop(name) for name in _MEANT_FOR_LOGGING if name in event}
    name = event.pop("event")
    # structlog renders None as ``key=``, which looks like a missing value.
    shown = {_as_key(name): "None" if value is None else value for name, value in event.items()}
    text = _escaped(_render_fields(logger, method, shown))
    return {"msg": f"{name} {text}" if text else name, "extra": {"event": name, "fields": event}, **arguments}


def _as_key(name: str) -> str:
    """Replace characters in a name for which structlog would refuse the whole event, such as spaces."""
    return "".join("_" if each in ' ="' or not each.isprintable() else each for each in name)


def _escaped(text: str) -> str:
    # structlog escapes \n alone; other line breaks and a terminal's commands are not printable either.
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
