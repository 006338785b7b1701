"""Errors that are kept until a caller reads them, and the copies that are raised.

A traceback holds the frames that an error passed, and these hold their locals: deliveries, tables, tasks. An object
that keeps such an error keeps all of them; an object that the cyclic collector does not track (see
``produce_request_result``) keeps them for good. Java has no counterpart.
"""

from __future__ import annotations

import copy
from typing import Final, TypeVar

from ...errors import KafkaError

__all__ = ["fresh_error", "kept_error"]

E = TypeVar("E", bound=BaseException)

MOST_CAUSES: Final = 8
"""The most causes that are copied: an error may be its own cause."""


def kept_error(error: E) -> E:
    """A copy to be kept: it has no traceback, and neither have its causes.

    A note on an error of other code says where it was raised. An error that cannot be copied is kept as it is.
    """
    return _kept(error, MOST_CAUSES)


def fresh_error(error: E) -> E:
    """A copy without a traceback and with the same cause, for one reader."""
    if isinstance(error, KafkaError):
        return error.fresh()
    twin = copy.copy(error)
    twin.__cause__ = error.__cause__
    return twin.with_traceback(None)


def _kept(error: E, causes: int) -> E:
    try:
        twin = fresh_error(error)
        if not isinstance(twin, type(error)):
            return error
        place = None if isinstance(error, KafkaError) else _place_of(error)
        if place is not None:
            twin.add_note(place)
        cause = error.__cause__
        twin.__cause__ = None if cause is None or not causes else _kept(cause, causes - 1)
    except Exception:  # a class of other code, which may do anything
        return error
    return twin


def _place_of(error: BaseException) -> str | None:
    """The place where the error was raised."""
    traceback = error.__traceback__
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    return f"raised in {code.co_filename}, line {traceback.tb_lineno}, in {code.co_name}"
