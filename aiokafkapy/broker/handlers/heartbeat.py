"""Heartbeat (12): a member is alive, and learns whether it must join again.

versions: 0-4
kept: all of it
dropped: nothing
notes: v3+ have the instance id.
"""

from __future__ import annotations

from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.classic_group import MemberIdentity
from ..security.acls import Operation
from .coordinator_checks import check_group
from .registry import Body, Response, register

__all__ = ["handle"]


@register(ApiKey.HEARTBEAT, versions=(0, 4))
def handle(context: RequestContext, body: Body) -> Response:
    """REBALANCE_IN_PROGRESS is an error here, and the usual way to hear of a rebalance."""
    check_group(context, Operation.READ, body.group_id)
    identity = MemberIdentity(
        body.group_id, body.member_id, getattr(body, "group_instance_id", None), body.generation_id
    )
    context.state.groups.heartbeat(identity)
    return context.respond(error_code=0)
