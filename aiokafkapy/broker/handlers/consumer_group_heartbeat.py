"""ConsumerGroupHeartbeat (68): join a consumer group, stay in it, rebalance, leave (KIP-848).

versions: 0-1
kept: epochs and fencing, static members, the assignors uniform and range, expressions (v1), full and partial requests
dropped: racks, which no assignor of Kafka's looks at either
notes: from v1 on the member makes its id itself (KIP-1082). A client needs the right to read the group and to describe
    the topics that it names; an expression stands for those that it may describe.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ...errors import UnsupportedVersionError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..coordination.assignors import Assignment, TopicIdPartition
from ..coordination.consumer_group_manager import ConsumerGroupHeartbeat
from ..features import GROUP_VERSION
from ..security.acls import Operation
from .coordinator_checks import check_group
from .modern_groups import check_topics, heartbeat_response, may_describe
from .registry import Body, Response, register, top_level_error_with_text

__all__ = ["check_group_version", "handle"]

IDS_OF_MEMBERS_FROM_VERSION = 1


@register(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), error=top_level_error_with_text)
def handle(context: RequestContext, body: Body) -> Response:
    """The member's epoch, and its partitions if they have changed."""
    check_group_version(context)
    check_group(context, Operation.READ, body.group_id)
    check_topics(context, body.subscribed_topic_names)
    rebalance_timeout = body.rebalance_timeout.total_seconds()
    result = context.state.groups.consumer_groups.heartbeat(
        ConsumerGroupHeartbeat(
            group_id=body.group_id,
            member_id=body.member_id,
            member_epoch=body.member_epoch,
            instance_id=body.instance_id,
            rack_id=body.rack_id,
            rebalance_timeout=None if rebalance_timeout < 0 else rebalance_timeout,
            subscribed_topic_names=body.subscribed_topic_names,
            subscribed_topic_regex=getattr(body, "subscribed_topic_regex", None),
            server_assignor=body.server_assignor,
            owned=_owned(body.topic_partitions),
            client_id=context.client_id,
            client_host=f"/{context.connection.remote_host}",
            requires_member_id=context.api_version >= IDS_OF_MEMBERS_FROM_VERSION,
            may_describe=partial(may_describe, context),
        )
    )
    return heartbeat_response(context, result)


def check_group_version(context: RequestContext) -> None:
    """Raise UnsupportedVersionError while consumer groups are disabled, by ``group_version=0`` or UpdateFeatures."""
    if context.state.features[GROUP_VERSION] < 1:
        raise UnsupportedVersionError


def _owned(topic_partitions: Iterable[Struct] | None) -> Assignment | None:
    if topic_partitions is None:
        return None
    return frozenset(TopicIdPartition(topic.topic_id, each) for topic in topic_partitions for each in topic.partitions)
