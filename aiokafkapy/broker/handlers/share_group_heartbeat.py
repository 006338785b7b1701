"""ShareGroupHeartbeat (76): join a share group, stay in it, leave (KIP-932).

versions: 1-1
kept: epochs and fencing, the simple assignor, full and partial requests
dropped: racks, which the assignor does not look at in Kafka either
notes: a partition is to be had as soon as somebody subscribes to its topic; in Kafka the share coordinator must have
    heard of it, so that the first answers have no partitions. A client needs the right to read the group and to
    describe the topics that it names.
"""

from __future__ import annotations

from ...errors import KafkaError, TopicAuthorizationFailedError, UnsupportedVersionError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.share_groups import ShareGroupHeartbeat
from ..features import SHARE_VERSION
from ..security.acls import Operation, ResourceType
from . import Body, error_message, register
from .consumer_group_heartbeat import by_topic_id
from .coordination import check_group

__all__ = ["check_share_version", "handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Body:
    """The error, with its text."""
    return context.respond(error_code=error.code, error_message=error_message(error))


@register(ApiKey.SHARE_GROUP_HEARTBEAT, versions=(1, 1), error=error_response)
def handle(context: RequestContext, body: Body) -> Body:
    """The member's epoch, and its partitions where they are others than before."""
    check_share_version(context)
    check_group(context, Operation.READ, body.group_id)
    names = body.subscribed_topic_names
    hidden = [name for name in names or () if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name)]
    if hidden:
        raise TopicAuthorizationFailedError(f"{context.connection.principal} may not DESCRIBE the topics {hidden}")
    result = context.state.groups.share.heartbeat(
        ShareGroupHeartbeat(
            group_id=body.group_id,
            member_id=body.member_id,
            member_epoch=body.member_epoch,
            rack_id=body.rack_id,
            subscribed_topic_names=names,
            client_id=context.client_id,
            client_host=f"/{context.connection.remote_host}",
        )
    )
    return context.respond(
        error_code=0,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval=result.heartbeat_interval_ms,
        assignment=None if result.assignment is None else {"topic_partitions": by_topic_id(result.assignment)},
    )


def check_share_version(context: RequestContext) -> None:
    """Raise UnsupportedVersionError while share groups are taken away, by ``share_version=0`` or UpdateFeatures."""
    if context.state.features[SHARE_VERSION] < 1:
        raise UnsupportedVersionError
