"""AlterShareGroupOffsets (91): have an empty share group begin somewhere else (KIP-932).

versions: 0-0
kept: all of it
dropped: nothing
notes: the states of single records are forgotten with it.
"""

from __future__ import annotations

from ...errors import KafkaError, NonEmptyGroupError, UnknownTopicOrPartitionError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..coordination.assignors import TopicIdPartition
from ..security.acls import Operation
from .coordinator_checks import check_group
from .leadership import find_partition, find_topic
from .registry import Body, Response, entry_error, register, top_level_error_with_text
from .share_group_heartbeat import check_share_version

__all__ = ["handle"]


@register(ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions=(0, 0), error=top_level_error_with_text)
def handle(context: RequestContext, body: Body) -> Response:
    """Each partition by itself."""
    check_share_version(context)
    check_group(context, Operation.READ, body.group_id)
    group = context.state.groups.share_groups.find(body.group_id)
    if not group.is_empty:
        raise NonEmptyGroupError("The group is not empty.")
    starts: dict[TopicIdPartition, int] = {}
    responses = [_alter(context, topic, starts) for topic in body.topics]
    context.state.groups.share_partitions.begin_at(body.group_id, starts)
    return context.respond(error_code=0, responses=responses)


def _alter(context: RequestContext, requested: Struct, starts: dict[TopicIdPartition, int]) -> dict[str, object]:
    partitions = []
    topic_id = None
    for each in requested.partitions:
        error: KafkaError | None = None
        try:
            topic = find_topic(context, Operation.READ, requested.topic_name)
            find_partition(topic, each.partition_index)
            topic_id = topic.topic_id
            starts[TopicIdPartition(topic.topic_id, each.partition_index)] = each.start_offset
        except UnknownTopicOrPartitionError:
            error = UnknownTopicOrPartitionError("This server does not host this topic-partition.")
        except KafkaError as refused:
            error = refused
        partitions.append(
            {
                "partition_index": each.partition_index,
                **entry_error(error),
            }
        )
    return {"topic_name": requested.topic_name, "topic_id": topic_id, "partitions": partitions}
