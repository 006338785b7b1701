"""ShareGroupHeartbeat (76): join a share group, stay in it, leave (KIP-932).

versions: 1-1
kept: epochs and fencing, the simple assignor, full and partial requests
dropped: racks, which the assignor does not look at in Kafka either
notes: a partition is available as soon as a member subscribes to its topic; in Kafka the share coordinator must have
    heard of it, so that the first answers have no partitions. A client needs the right to read the group and to
    describe the topics that it names.
"""

from __future__ import annotations

from ...errors import UnsupportedVersionError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.share_group_manager import ShareGroupHeartbeat
from ..features import SHARE_VERSION
from ..security.acls import Operation
from .coordinator_checks import check_group
from .modern_groups import check_topics, heartbeat_response
from .registry import Body, Response, register, top_level_error_with_text

__all__ = ["check_share_version", "handle"]


@register(ApiKey.SHARE_GROUP_HEARTBEAT, versions=(1, 1), error=top_level_error_with_text)
def handle(context: RequestContext, body: Body) -> Response:
    """The member's epoch, and its partitions if they have changed."""
    check_share_version(context)
    check_group(context, Operation.READ, body.group_id)
    check_topics(context, body.subscribed_topic_names)
    result = context.state.groups.share_groups.heartbeat(
        ShareGroupHeartbeat(
            group_id=body.group_id,
            member_id=body.member_id,
            member_epoch=body.member_epoch,
            rack_id=body.rack_id,
            subscribed_topic_names=body.subscribed_topic_names,
            client_id=context.client_id,
            client_host=f"/{context.connection.remote_host}",
        )
    )
    return heartbeat_response(context, result)


def check_share_version(context: RequestContext) -> None:
    """Raise UnsupportedVersionError while share groups are disabled, by ``share_version=0`` or UpdateFeatures."""
    if context.state.features[SHARE_VERSION] < 1:
        raise UnsupportedVersionError
