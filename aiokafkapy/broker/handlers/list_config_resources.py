"""ListConfigResources (74): the things that have options (KIP-1142).

versions: 0-1
kept: subscriptions to clients' metrics (v0); topics, brokers and groups (v1)
dropped: loggers of brokers, which have no options here
notes: v0 is ListClientMetricsResources, KIP-714's. Without types all are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ...errors import KafkaError, UnsupportedVersionError
from ...protocol.api import ApiKey
from ...protocol.constants import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from ..context import BrokerState, RequestContext
from ..security.acls import Operation, ResourceType
from .registry import Body, Response, register

__all__ = ["handle"]

_NAMES: Final[dict[int, Callable[[BrokerState], Iterable[str]]]] = {
    TOPIC_RESOURCE: lambda state: (topic.name for topic in state.topics),
    BROKER_RESOURCE: lambda state: map(str, sorted(state.all_nodes)),
    BROKER_LOGGER_RESOURCE: lambda state: (),
    CLIENT_METRICS_RESOURCE: lambda state: state.telemetry.subscriptions,
    GROUP_RESOURCE: lambda state: state.groups.configs,
}


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error at the top."""
    return context.respond(error_code=error.code, config_resources=[])


@register(ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """The resources of the types that are asked for."""
    context.check_right(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
    wanted = [CLIENT_METRICS_RESOURCE] if context.api_version == 0 else list(body.resource_types) or list(_NAMES)
    if not set(wanted) <= set(_NAMES):
        raise UnsupportedVersionError(f"there are the resource types {sorted(_NAMES)}")
    return context.respond(
        error_code=0,
        config_resources=[
            {"resource_name": name, "resource_type": kind} for kind in wanted for name in _NAMES[kind](context.state)
        ],
    )
