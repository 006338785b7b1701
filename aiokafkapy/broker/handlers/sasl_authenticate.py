"""SaslAuthenticate (36): a token of the mechanism that was agreed on, and the answer to it.

versions: 0-2
kept: all of it; the session's lifetime (v1+) with the answer that completes it
dropped: nothing
notes: a refusal has the words for the client, and then the connection ends.
"""

from __future__ import annotations

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from . import Body, Response, error_message, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error and its words."""
    return context.respond(error_code=error.code, error_message=error_message(error))


@register(ApiKey.SASL_AUTHENTICATE, versions=(0, 2), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """The mechanism's answer."""
    state = context.state
    answer, lifetime_ms = context.connection.authenticate(body.auth_bytes, state.now(), state.timestamp_ms())
    return context.respond(error_code=0, auth_bytes=answer, session_lifetime=lifetime_ms)
