"""DescribeCluster (60): the cluster's id, its controller and its nodes.

versions: 0-2
kept: authorized operations; the running nodes; with ``include_fenced_brokers`` (v2) also those that are stopped
dropped: controller endpoints
notes: endpoint type 2 (controllers) is refused as by a Kafka broker.
"""

from __future__ import annotations

from ...errors import MismatchedEndpointTypeError
from ...protocol.api import ApiKey
from ..context import RequestContext
from .metadata import cluster_operations
from .registry import Body, Response, register

__all__ = ["handle"]

_BROKERS = 1


@register(ApiKey.DESCRIBE_CLUSTER, versions=(0, 2))
def handle(context: RequestContext, body: Body) -> Response:
    """The running nodes."""
    state = context.state
    if getattr(body, "endpoint_type", _BROKERS) != _BROKERS:
        raise MismatchedEndpointTypeError("This is a broker, not a controller.")
    shown = state.all_nodes if getattr(body, "include_fenced_brokers", False) else state.running_nodes
    return context.respond(
        cluster_id=state.cluster_id,
        controller_id=state.controller_id,
        endpoint_type=_BROKERS,
        brokers=[
            {
                "broker_id": node.node_id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack,
                "is_fenced": node.node_id not in state.running_nodes,
            }
            for node in map(context.node, sorted(shown))
        ],
        cluster_authorized_operations=cluster_operations(context, is_wanted=body.include_cluster_authorized_operations),
    )
