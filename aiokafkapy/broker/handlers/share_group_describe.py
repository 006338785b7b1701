"""ShareGroupDescribe (77): a share group's state, epochs and members, with their partitions (KIP-932).

versions: 1-1
kept: all of it
dropped: nothing
notes: a group of another kind is GROUP_ID_NOT_FOUND, as one that does not exist. A group with topics that the client
    may not describe is TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.share_group import SHARE_ASSIGNOR
from .modern_groups import describe_each, described_group, described_member, error_of_every_group
from .registry import Body, Response, register
from .share_group_heartbeat import check_share_version

__all__ = ["handle"]


@register(ApiKey.SHARE_GROUP_DESCRIBE, versions=(1, 1), error=error_of_every_group)
def handle(context: RequestContext, body: Body) -> Response:
    """Each group by itself."""
    check_share_version(context)
    return describe_each(context, body, _describe)


def _describe(context: RequestContext, body: Body, group_id: str) -> dict[str, object]:
    group = context.state.groups.share_groups.find(group_id)
    topics = {name for member in group.members.values() for name in member.topics}
    members = (described_member(context, member) for member in group.members.values())
    return described_group(context, body, group, topics, SHARE_ASSIGNOR, members)
