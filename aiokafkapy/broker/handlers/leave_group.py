"""LeaveGroup (13): members go.

versions: 0-5
kept: one member (v0-2) or many (v3+), by member id or by instance id
dropped: the reason (v5), which Kafka only logs
notes: up to v2 the one member's error is the request's; from v3 on each member has its own. Members of a consumer group
    (KIP-848) can be removed too, those of either protocol.
"""

from __future__ import annotations

from typing import Final

from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.classic_group import MemberIdentity
from ..security.acls import Operation
from .coordinator_checks import check_group
from .registry import Body, Response, entry_code, register

__all__ = ["handle"]

MANY_FROM_VERSION: Final = 3


@register(ApiKey.LEAVE_GROUP, versions=(0, 5))
def handle(context: RequestContext, body: Body) -> Response:
    """Each member by itself."""
    check_group(context, Operation.READ, body.group_id)
    if context.api_version < MANY_FROM_VERSION:
        (error,) = context.state.groups.leave_all([MemberIdentity(body.group_id, body.member_id)])
        return context.respond(error_code=entry_code(error))
    leaving = [MemberIdentity(body.group_id, each.member_id, each.group_instance_id) for each in body.members]
    return context.respond(
        error_code=0,
        members=[
            {
                "member_id": each.member_id,
                "group_instance_id": each.group_instance_id,
                "error_code": entry_code(error),
            }
            for each, error in zip(leaving, context.state.groups.leave_all(leaving), strict=True)
        ],
    )
