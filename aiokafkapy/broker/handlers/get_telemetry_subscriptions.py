"""GetTelemetrySubscriptions (71): the metrics that a client is to push, with their interval and form (KIP-714).

versions: 0
kept: an instance id for a client that has none; one subscription for all clients; the codecs, the limit in bytes
dropped: subscriptions that match clients by id, software or address; the quota on the request
notes: advertised once ``DevBroker.telemetry.subscribe`` was called, as Kafka with a receiver's plug-in.
"""

from __future__ import annotations

from ...protocol.api import ApiKey
from ..context import RequestContext
from .registry import Body, Response, register

__all__ = ["handle"]


@register(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=(0, 0))
def handle(context: RequestContext, body: Body) -> Response:
    """The subscription in force."""
    telemetry = context.state.telemetry
    return context.respond(
        client_instance_id=telemetry.instance_id(body.client_instance_id),
        subscription_id=telemetry.subscription_id,
        accepted_compression_types=[int(codec) for codec in telemetry.compressions],
        push_interval=telemetry.push_interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=telemetry.delta_temporality,
        requested_metrics=list(telemetry.metrics),
    )
