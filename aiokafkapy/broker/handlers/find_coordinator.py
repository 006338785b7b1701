"""FindCoordinator (10): the node that coordinates a group or a transactional id.

versions: 0-6
kept: groups and transactional ids; many keys at once (v4+)
dropped: coordinators of share groups' states, which only brokers ask for: INVALID_REQUEST with a message
notes: any node answers. The coordinator is a running node chosen by the key; when it stops, another one is chosen.
"""

from __future__ import annotations

from typing import Final

from ...errors import CoordinatorNotAvailableError, InvalidRequestError, KafkaError
from ...protocol.api import ApiKey
from ...protocol.constants import GROUP_COORDINATOR, SHARE_COORDINATOR, TRANSACTION_COORDINATOR
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]

BATCHED_FROM_VERSION: Final = 4


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every key."""
    return _respond(context, [_failed(key, error) for key in _keys(context, body)])


@register(ApiKey.FIND_COORDINATOR, versions=(0, 6), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each key by itself."""
    return _respond(
        context, [_find(context, key, getattr(body, "key_type", GROUP_COORDINATOR)) for key in _keys(context, body)]
    )


def _keys(context: RequestContext, body: Body) -> list[str]:
    return list(body.coordinator_keys) if context.api_version >= BATCHED_FROM_VERSION else [body.key]


def _find(context: RequestContext, key: str, key_type: int) -> dict[str, object]:
    try:
        if key_type == SHARE_COORDINATOR:
            context.check_right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
        else:
            resource_type = ResourceType.GROUP if key_type == GROUP_COORDINATOR else ResourceType.TRANSACTIONAL_ID
            context.check_right(Operation.DESCRIBE, resource_type, key)
        if key_type not in (GROUP_COORDINATOR, TRANSACTION_COORDINATOR):
            raise InvalidRequestError("This broker coordinates groups and transactions only.")
    except KafkaError as error:
        return _failed(key, error)
    node = context.state.coordinator_for(key)
    if node is None:
        return _failed(key, CoordinatorNotAvailableError())
    address = context.node(node.node_id)
    return {"key": key, "node_id": node.node_id, "host": address.host, "port": address.port, "error_code": 0}


def _failed(key: str, error: KafkaError) -> dict[str, object]:
    return {
        "key": key,
        "node_id": -1,
        "host": "",
        "port": -1,
        **entry_error(error),
    }


def _respond(context: RequestContext, coordinators: list[dict[str, object]]) -> Response:
    if context.api_version >= BATCHED_FROM_VERSION:
        return context.respond(coordinators=coordinators)
    del coordinators[0]["key"]
    return context.respond(**coordinators[0])
