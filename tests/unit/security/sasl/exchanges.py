"""Two halves of an authentication that talk to each other, and a look into a traceback as a tool would print it."""

from __future__ import annotations

import traceback

from aiokafkapy.security.sasl.mechanism import SaslClientExchange, SaslServerExchange

__all__ = ["authenticate", "everything_shown_of"]


def authenticate(client: SaslClientExchange, server: SaslServerExchange) -> list[bytes]:
    """Carry messages until both are complete; returns them, in order. Raises the error of either half."""
    messages: list[bytes] = []
    response = client.respond(b"")
    while response is not None:
        messages.append(response)
        challenge = server.respond(response)
        messages.append(challenge)
        if server.is_complete and client.is_complete:
            break
        response = client.respond(challenge)
    assert client.is_complete
    assert server.is_complete
    return messages


def everything_shown_of(error: BaseException) -> str:
    """Messages, causes, and the variables of the product's frames."""
    lines = []
    for frame in traceback.TracebackException.from_exception(error, capture_locals=True).stack:
        if "/aiokafkapy/" in frame.filename:
            lines += [f"{name}={value}" for name, value in (frame.locals or {}).items()]
    return "\n".join([str(error), repr(error), repr(error.__cause__), *lines])
