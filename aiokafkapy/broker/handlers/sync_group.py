"""SyncGroup (14): the leader sends all assignments, each member gets its own.

versions: 0-5
kept: all of it
dropped: nothing
notes: the answer waits for the leader's. v3+ have the instance id, v5 the protocol, which must be given, and be the
    group's.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ...errors import InconsistentGroupProtocolError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.classic_group import MemberIdentity, SyncRequest, SyncResult
from ..security.acls import Operation
from .coordinator_checks import check_group
from .registry import Body, Response, register

__all__ = ["handle"]

PROTOCOL_FROM_VERSION: Final = 5


@register(ApiKey.SYNC_GROUP, versions=(0, 5))
def handle(context: RequestContext, body: Body) -> asyncio.Future[Response]:
    """A future that resolves when the leader has assigned."""
    if context.api_version >= PROTOCOL_FROM_VERSION and None in (body.protocol_type, body.protocol_name):
        raise InconsistentGroupProtocolError
    check_group(context, Operation.READ, body.group_id)
    future = context.state.loop.create_future()

    def respond(result: SyncResult) -> None:
        if not future.done():
            future.set_result(context.respond(**result._asdict()))

    identity = MemberIdentity(
        body.group_id, body.member_id, getattr(body, "group_instance_id", None), body.generation_id
    )
    request = SyncRequest(
        identity,
        {each.member_id: each.assignment for each in body.assignments},
        getattr(body, "protocol_type", None),
        getattr(body, "protocol_name", None),
    )
    context.state.groups.sync(request, respond)
    return future
