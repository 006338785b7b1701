"""PushTelemetry (72): a client's metrics, as OpenTelemetry has them (KIP-714).

versions: 0
kept: the subscription's id, the codec and the limit in bytes are checked; the metrics are decoded and kept
dropped: the check that a client keeps to its interval, so that tests need not wait
notes: the pushes are in ``DevBroker.telemetry.pushes``.
"""

from __future__ import annotations

from ...protocol.api import ApiKey
from ..context import RequestContext
from .registry import Body, Response, register

__all__ = ["handle"]


@register(ApiKey.PUSH_TELEMETRY, versions=(0, 0))
def handle(context: RequestContext, body: Body) -> Response:
    """Take the push, or answer with the reason for its refusal."""
    context.state.telemetry.push(
        body.client_instance_id,
        context.client_id,
        body.subscription_id,
        terminating=body.terminating,
        compression_type=int(body.compression_type),
        data=body.metrics,
    )
    return context.respond()
