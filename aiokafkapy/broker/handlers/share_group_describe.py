"""ShareGroupDescribe (77): a share group's state, epochs and members, with their partitions (KIP-932).

versions: 1-1
kept: all of it
dropped: nothing
notes: a group of another kind is GROUP_ID_NOT_FOUND, as one that does not exist. A group with topics that the client
    may not describe is TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from typing import Any

from ...errors import KafkaError, TopicAuthorizationFailedError
from ...protocol.api import ApiKey
from ..context import NOT_ASKED, RequestContext
from ..coordination.share_group import SHARE_ASSIGNOR, ShareGroupMember
from ..security.acls import Operation, ResourceType
from . import Body, error_message, register
from .consumer_group_describe import assignment_of
from .coordination import check_group
from .share_group_heartbeat import check_share_version

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Body:
    """The error on every group."""
    return context.respond(groups=[_failed(group_id, error) for group_id in body.group_ids])


@register(ApiKey.SHARE_GROUP_DESCRIBE, versions=(1, 1), error=error_response)
def handle(context: RequestContext, body: Body) -> Body:
    """Each group by itself."""
    check_share_version(context)
    return context.respond(groups=[_describe(context, body, group_id) for group_id in body.group_ids])


def _describe(context: RequestContext, body: Body, group_id: str) -> dict[str, Any]:
    try:
        check_group(context, Operation.DESCRIBE, group_id)
        group = context.state.groups.share.find(group_id)
        topics = {name for member in group.members.values() for name in member.topics}
        if not all(context.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
            raise TopicAuthorizationFailedError(
                "The group has described topic(s) that the client is not authorized to describe."
            )
    except KafkaError as error:
        return _failed(group_id, error)
    wants_operations = body.include_authorized_operations
    return {
        "error_code": 0,
        "group_id": group_id,
        "group_state": group.state.value,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": SHARE_ASSIGNOR,
        "members": [_member(context, member) for member in group.members.values()],
        "authorized_operations": (
            context.authorized_operations(ResourceType.GROUP, group_id) if wants_operations else NOT_ASKED
        ),
    }


def _member(context: RequestContext, member: ShareGroupMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.topics),
        "assignment": assignment_of(context, member.assigned),
    }


def _failed(group_id: str, error: KafkaError) -> dict[str, Any]:
    return {"group_id": group_id, "error_code": error.code, "error_message": error_message(error)}
