"""The registry: each handler with its API key, the versions that it handles, and its error response.

Owns the contract between a handler and its callers, and the fields of an error in a response. It must not know any
handler; ``dispatch_table`` imports them. Kafka's counterpart is ``KafkaApis.handle``; the registry by key is kfake's.

A handler is ``handle(context, body) -> response body``, synchronous. It may instead return
- a future: the request is parked (fetch waiting for bytes, a member waiting for its group), the KafkaRequestHandler
  is free at once, and the response goes out when the future resolves;
- ``NO_RESPONSE``: nothing is written (Produce with acks=0) and the connection goes on;
- ``CLOSE_CONNECTION``: the only way to report an error to a client that expects no response.

An exception of a handler becomes that API's own error response: ``error(context, body, exception)`` puts the code where
the schema has a place for it; the default is a top-level ``error_code``, so an API without one must register its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...common import MAX_STRING_SIZE
from ...errors import UnknownServerError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ...protocol.writer import PlainMessage

if TYPE_CHECKING:
    from ...errors import KafkaError
    from ..context import RequestContext
    from ..emulation.model import Emulation

__all__ = [
    "CLOSE_CONNECTION",
    "NO_RESPONSE",
    "Answer",
    "Body",
    "ErrorResponse",
    "FinalAnswer",
    "Handler",
    "Instruction",
    "Response",
    "entry_code",
    "entry_error",
    "error_message",
    "register",
    "registered",
    "served",
    "top_level_error_with_text",
]


class Instruction(Enum):
    """An order in place of a response body."""

    NO_RESPONSE = 1
    CLOSE_CONNECTION = 2

    def __repr__(self) -> str:
        return self.name


NO_RESPONSE: Final = Instruction.NO_RESPONSE
CLOSE_CONNECTION: Final = Instruction.CLOSE_CONNECTION

Body: TypeAlias = Struct
"""A request, in the version that the context has."""
Response: TypeAlias = PlainMessage | Struct
FinalAnswer: TypeAlias = Response | Instruction
Answer: TypeAlias = FinalAnswer | asyncio.Future[Any]
"""A future resolves to a final answer."""
Handle = Callable[["RequestContext", Body], Answer]
ErrorResponse = Callable[["RequestContext", Body, "KafkaError"], FinalAnswer]


@dataclass(slots=True, frozen=True)
class Handler:
    """One API: its key, its functions and the versions that they handle."""

    api_key: int
    min_version: int
    max_version: int
    handle: Handle
    error: ErrorResponse

    def supports(self, version: int) -> bool:
        """Whether a request of this version may be given to ``handle``."""
        return self.min_version <= version <= self.max_version


_REGISTERED: dict[int, Handler] = {}


def register(
    api_key: ApiKey, *, versions: tuple[int, int], error: ErrorResponse | None = None
) -> Callable[[Handle], Handle]:
    """Decorator: this function handles ``api_key`` in ``versions`` (both inclusive).

    ``error(context, body, exception)`` builds the response for an exception (its ``code``, its text) and for
    ``controls.fail_next``; without it the response's top-level ``error_code`` is set.
    """

    def decorate(handle: Handle) -> Handle:
        if api_key in _REGISTERED and _REGISTERED[api_key].handle.__module__ != handle.__module__:
            raise ValueError(f"two handlers for {api_key.name}")
        _REGISTERED[int(api_key)] = Handler(int(api_key), versions[0], versions[1], handle, error or _top_level_error)
        return handle

    return decorate


def registered() -> Mapping[int, Handler]:
    """The handlers by API key, of the modules imported so far: all, once ``dispatch_table`` has been asked for."""
    return MappingProxyType(_REGISTERED)


def served(handlers: Mapping[int, Handler], emulation: Emulation | None) -> Mapping[int, Handler]:
    """The handlers by API key, each with the versions that a broker with this emulation serves."""
    if emulation is None:
        return handlers
    found: dict[int, Handler] = {}
    for key, handler in handlers.items():
        versions = emulation.narrowed(key, handler.min_version, handler.max_version)
        if versions is not None:
            found[key] = replace(handler, min_version=versions[0], max_version=versions[1])
    return MappingProxyType(found)


def error_message(error: KafkaError) -> str:
    """The error's text for a response.

    A text with a long name in it may not fit; UnknownServerError then, for the whole request, as in Kafka.
    """
    text = str(error)
    if len(text.encode()) > MAX_STRING_SIZE:
        raise UnknownServerError(f"An error message of {len(text.encode())} bytes, which no response can have.")
    return text


def entry_error(error: KafkaError | None) -> dict[str, object]:
    """The fields of an error, or of none, in an entry of a response."""
    if error is None:
        return {"error_code": 0, "error_message": None}
    return {"error_code": error.code, "error_message": error_message(error)}


def entry_code(error: KafkaError | None) -> int | None:
    """The code of an error, or of none, in an entry of a response that has no text."""
    return 0 if error is None else error.code


def top_level_error_with_text(context: RequestContext, body: object, error: KafkaError) -> Response:
    """The error at the top, with its text."""
    return context.respond(**entry_error(error))


def _top_level_error(context: RequestContext, body: object, error: KafkaError) -> Response:
    return context.respond(error_code=error.code)
