"""DeleteShareGroupOffsets (92): have an empty share group forget topics (KIP-932).

versions: 0-0
kept: all of it
dropped: nothing
notes: when the group subscribes to such a topic again, share.auto.offset.reset says where it begins.
"""

from __future__ import annotations

from ...errors import KafkaError, NonEmptyGroupError, UnknownTopicOrPartitionError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation
from .coordinator_checks import check_group
from .leadership import find_topic
from .registry import Body, Response, entry_error, register, top_level_error_with_text
from .share_group_heartbeat import check_share_version

__all__ = ["handle"]


@register(ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions=(0, 0), error=top_level_error_with_text)
def handle(context: RequestContext, body: Body) -> Response:
    """Each topic by itself."""
    check_share_version(context)
    check_group(context, Operation.DELETE, body.group_id)
    group = context.state.groups.share_groups.find(body.group_id)
    if not group.is_empty:
        raise NonEmptyGroupError("The group is not empty.")
    return context.respond(error_code=0, responses=[_delete(context, body, topic.topic_name) for topic in body.topics])


def _delete(context: RequestContext, body: Body, name: str) -> dict[str, object]:
    topic_id = None
    error: KafkaError | None = None
    try:
        topic = find_topic(context, Operation.READ, name)
        if context.state.groups.share_partitions.forget(body.group_id, topic.topic_id):
            topic_id = topic.topic_id
        else:
            error = UnknownTopicOrPartitionError("There is no offset information to delete.")
    except UnknownTopicOrPartitionError:
        error = UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    except KafkaError as refused:
        error = refused
    return {
        "topic_name": name,
        "topic_id": topic_id,
        **entry_error(error),
    }
