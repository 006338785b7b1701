"""ConsumerGroupDescribe (69): a consumer group's state, epochs and members, with their assignments (KIP-848).

versions: 0-1
kept: all of it; the protocol of each member (v1)
dropped: nothing
notes: a classic group is GROUP_ID_NOT_FOUND, as a group that does not exist; clients ask DescribeGroups then. A group
    with topics that the client may not describe is TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from typing import Final

from ...errors import GroupIdNotFoundError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.consumer_group import ConsumerGroup, ConsumerGroupMember
from .consumer_group_heartbeat import check_group_version
from .modern_groups import assignment_of, describe_each, described_group, described_member, error_of_every_group
from .registry import Body, Response, register

__all__ = ["handle"]

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


@register(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), error=error_of_every_group)
def handle(context: RequestContext, body: Body) -> Response:
    """Each group by itself."""
    check_group_version(context)
    return describe_each(context, body, _describe)


def _describe(context: RequestContext, body: Body, group_id: str) -> dict[str, object]:
    group = context.state.groups.get(group_id)
    if group is None:
        raise GroupIdNotFoundError(f"Group {group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
    topics = {name for member in group.members.values() for name in member.subscribed_topic_names}
    members = (_member(context, group, member) for member in group.members.values())
    return described_group(context, body, group, topics, group.assignor, members)


def _member(context: RequestContext, group: ConsumerGroup, member: ConsumerGroupMember) -> dict[str, object]:
    return {
        **described_member(context, member),
        "instance_id": member.instance_id,
        "subscribed_topic_regex": member.regex,
        "target_assignment": assignment_of(context, group.target.get(member.member_id, frozenset())),
        "member_type": CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    }
