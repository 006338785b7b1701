"""LeaveGroup (13): members go.

versions: 0-5
kept: one member (v0-2) or many (v3+), by member id or by instance id
dropped: the reason (v5), which Kafka only logs
notes: up to v2 the one member's error is the request's; from v3 on each member has its own.
"""

from __future__ import annotations

from typing import Any, Final

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation
from . import Body, register
from .coordination import check_group

__all__ = ["handle"]

MANY_FROM_VERSION: Final = 3


@register(ApiKey.LEAVE_GROUP, versions=(0, 5))
def handle(context: RequestContext, body: Body) -> Body:
    """Each member by itself."""
    check_group(context, Operation.READ, body.group_id)
    if context.api_version < MANY_FROM_VERSION:
        context.state.groups.leave(body.group_id, body.member_id)
        return context.respond(error_code=0)
    return context.respond(error_code=0, members=[_leave(context, body.group_id, member) for member in body.members])


def _leave(context: RequestContext, group_id: str, member: Any) -> dict[str, Any]:
    code: int | None = 0
    try:
        context.state.groups.leave(group_id, member.member_id, member.group_instance_id)
    except KafkaError as error:
        code = error.code
    return {"member_id": member.member_id, "group_instance_id": member.group_instance_id, "error_code": code}
