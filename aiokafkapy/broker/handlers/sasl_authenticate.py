"""SaslAuthenticate (36): a token of the mechanism that was agreed on, and the answer to it.

versions: 0-2
kept: all of it; the session's lifetime (v1+) with the answer that completes it
dropped: nothing
notes: a refusal has the words for the client, and then the connection ends.
"""

from __future__ import annotations

from ...protocol.api import ApiKey
from ..context import RequestContext
from .registry import Body, Response, register, top_level_error_with_text

__all__ = ["handle"]


@register(ApiKey.SASL_AUTHENTICATE, versions=(0, 2), error=top_level_error_with_text)
def handle(context: RequestContext, body: Body) -> Response:
    """The mechanism's answer."""
    state = context.state
    answer, lifetime_ms = context.connection.authenticate(body.auth_bytes, state.now(), state.timestamp_ms())
    return context.respond(error_code=0, auth_bytes=answer, session_lifetime=lifetime_ms)
