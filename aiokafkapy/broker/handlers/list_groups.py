"""ListGroups (16): the groups that this node coordinates.

versions: 0-5
kept: filters by state (v4+) and by type (v5+)
dropped: nothing
notes: tools ask every node and put the answers together.
"""

from __future__ import annotations

from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.classic_group import ClassicGroup
from ..coordination.consumer_group import ConsumerGroup
from ..security.acls import Operation, ResourceType
from .registry import Body, Response, register

__all__ = ["handle"]

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"
"""Types of groups. Consumer and share groups have the type as their protocol type, a classic group its members'."""


@register(ApiKey.LIST_GROUPS, versions=(0, 5))
def handle(context: RequestContext, body: Body) -> Response:
    """Filters are taken without regard to case, as in Kafka; an empty one lets everything pass."""
    states = {state.lower() for state in getattr(body, "states_filter", ())}
    types = {name.lower() for name in getattr(body, "types_filter", ())}
    sees_all = context.may(Operation.DESCRIBE, ResourceType.CLUSTER)
    groups = []
    for group in context.state.groups:
        if not sees_all and not context.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            continue
        node = context.state.coordinator_for(group.group_id)
        if node is None or node.node_id != context.node_id:
            continue
        group_type = (
            CLASSIC if isinstance(group, ClassicGroup) else CONSUMER if isinstance(group, ConsumerGroup) else SHARE
        )
        if (states and group.state.value.lower() not in states) or (types and group_type not in types):
            continue
        groups.append(
            {
                "group_id": group.group_id,
                "protocol_type": (group.protocol_type or "") if isinstance(group, ClassicGroup) else group_type,
                "group_state": group.state.value,
                "group_type": group_type,
            }
        )
    return context.respond(error_code=0, groups=groups)
