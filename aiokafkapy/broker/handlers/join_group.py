"""JoinGroup (11): become a member of a group, or stay one, and learn the new generation.

versions: 0-9
kept: all of the classic protocol: member ids first (v4+, KIP-394), static members (v5+, KIP-345), skipped assignment
    (v9)
dropped: the reason (v8+), which Kafka only logs
notes: the answer waits until all members have come. v0 has one time-out for session and rebalance. Up to v6 the
    protocol's name cannot be null: an error has the empty string.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.classic_group import JoinRequest, JoinResult
from ..security.acls import Operation
from .coordinator_checks import check_group
from .registry import Body, Response, register

__all__ = ["handle"]

KNOWN_MEMBER_ID_FROM_VERSION: Final = 4
NULLABLE_PROTOCOL_FROM_VERSION: Final = 7
SKIP_ASSIGNMENT_FROM_VERSION: Final = 9


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error, with the member id of the request."""
    return _respond(context, JoinResult(error_code=error.code or -1, member_id=body.member_id))


@register(ApiKey.JOIN_GROUP, versions=(0, 9), error=error_response)
def handle(context: RequestContext, body: Body) -> asyncio.Future[Response]:
    """A future that resolves when the group is complete."""
    check_group(context, Operation.READ, body.group_id)
    future = context.state.loop.create_future()

    def respond(result: JoinResult) -> None:
        if not future.done():
            future.set_result(_respond(context, result))

    session_timeout = body.session_timeout.total_seconds()
    request = JoinRequest(
        group_id=body.group_id,
        member_id=body.member_id,
        group_instance_id=getattr(body, "group_instance_id", None),
        client_id=context.client_id,
        client_host=f"/{context.connection.remote_host}",
        session_timeout=session_timeout,
        rebalance_timeout=session_timeout if context.api_version == 0 else body.rebalance_timeout.total_seconds(),
        protocol_type=body.protocol_type,
        protocols=[(protocol.name, protocol.metadata) for protocol in body.protocols],
        requires_known_member_id=context.api_version >= KNOWN_MEMBER_ID_FROM_VERSION,
        supports_skipping_assignment=context.api_version >= SKIP_ASSIGNMENT_FROM_VERSION,
    )
    context.state.groups.join(request, respond)
    return future


def _respond(context: RequestContext, result: JoinResult) -> Response:
    protocol_name = result.protocol_name
    if protocol_name is None and context.api_version < NULLABLE_PROTOCOL_FROM_VERSION:
        protocol_name = ""
    return context.respond(
        error_code=result.error_code,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[member._asdict() for member in result.members],
    )
