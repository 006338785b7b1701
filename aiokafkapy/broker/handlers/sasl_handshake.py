"""SaslHandshake (17): agree on a mechanism.

versions: 0-1
kept: all of it; after version 0 the tokens come without requests around them
dropped: nothing
notes: a mechanism that is not enabled is answered with those that are, and then the connection ends. On a live session
    it begins a re-authentication (KIP-368).
"""

from __future__ import annotations

from ...errors import IllegalSaslStateError, KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from .registry import Body, Response, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error, and the enabled mechanisms."""
    session = context.connection.session
    return context.respond(error_code=error.code, mechanisms=[] if session is None else session.mechanism_names)


@register(ApiKey.SASL_HANDSHAKE, versions=(0, 1), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """The mechanisms that are enabled; the one asked for is among them."""
    session = context.connection.session
    if session is None:
        raise IllegalSaslStateError(f"the listener {context.connection.listener} has no SASL")
    session.handshake(body.mechanism, has_frames=context.api_version >= 1)
    return context.respond(error_code=0, mechanisms=session.mechanism_names)
