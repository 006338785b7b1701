"""ConsumerGroupDescribe (69): a consumer group's state, epochs and members, with their assignments (KIP-848).

versions: 0-1
kept: all of it; the kind of each member (v1), which is always the new protocol's
dropped: nothing
notes: a classic group is GROUP_ID_NOT_FOUND, as a group that does not exist; clients ask DescribeGroups then. A group
    with topics that the client may not describe is TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from typing import Any, Final

from ...errors import GroupIdNotFoundError, KafkaError, TopicAuthorizationFailedError
from ...protocol.api import ApiKey
from ..context import NOT_ASKED, RequestContext
from ..coordination.assignors import Assignment
from ..coordination.consumer_group import ConsumerGroup, ConsumerGroupMember
from ..security.acls import Operation, ResourceType
from . import Body, error_message, register
from .consumer_group_heartbeat import by_topic_id, check_group_version
from .coordination import check_group

__all__ = ["assignment_of", "handle"]

CONSUMER_MEMBER: Final = 1


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Body:
    """The error on every group."""
    return context.respond(groups=[_failed(group_id, error) for group_id in body.group_ids])


@register(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), error=error_response)
def handle(context: RequestContext, body: Body) -> Body:
    """Each group by itself."""
    check_group_version(context)
    return context.respond(groups=[_describe(context, body, group_id) for group_id in body.group_ids])


def _describe(context: RequestContext, body: Body, group_id: str) -> dict[str, Any]:
    try:
        check_group(context, Operation.DESCRIBE, group_id)
        group = context.state.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        topics = {name for member in group.members.values() for name in member.subscribed_topic_names}
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
        "assignor_name": group.assignor,
        "members": [_member(context, group, member) for member in group.members.values()],
        "authorized_operations": (
            context.authorized_operations(ResourceType.GROUP, group_id) if wants_operations else NOT_ASKED
        ),
    }


def _member(context: RequestContext, group: ConsumerGroup, member: ConsumerGroupMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.subscribed_topic_names),
        "subscribed_topic_regex": member.regex,
        "assignment": assignment_of(context, member.assigned),
        "target_assignment": assignment_of(context, group.target.get(member.member_id, frozenset())),
        "member_type": CONSUMER_MEMBER,
    }


def assignment_of(context: RequestContext, assignment: Assignment) -> dict[str, Any]:
    """By topics; those that were deleted since are left out."""
    topics = [(context.state.topics.by_id(each["topic_id"]), each) for each in by_topic_id(assignment)]
    return {"topic_partitions": [{**each, "topic_name": topic.name} for topic, each in topics if topic is not None]}


def _failed(group_id: str, error: KafkaError) -> dict[str, Any]:
    return {"group_id": group_id, "error_code": error.code, "error_message": error_message(error)}
