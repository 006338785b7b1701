"""DescribeShareGroupOffsets (90): the start offsets of share groups in their partitions (KIP-932).

versions: 0-0
kept: chosen partitions, or all (null) that the group has
dropped: nothing
notes: -1 stands for a partition that the group has never written about, or that does not exist; a group that does
    not exist is no error either. Kafka writes a new start with the next change only, so its answer may be behind.
"""

from __future__ import annotations

from ...errors import KafkaError, TopicAuthorizationFailedError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..coordination.assignors import TopicIdPartition
from ..coordination.share_partition_manager import NO_OFFSET, ShareState
from ..security.acls import Operation, ResourceType
from .coordinator_checks import check_group
from .registry import Body, Response, entry_error, register
from .share_group_heartbeat import check_share_version

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every group."""
    return context.respond(groups=[_failed(group.group_id, error) for group in body.groups])


@register(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions=(0, 0), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each group by itself."""
    check_share_version(context)
    return context.respond(groups=[_describe(context, group) for group in body.groups])


def _describe(context: RequestContext, requested: Struct) -> dict[str, object]:
    try:
        check_group(context, Operation.DESCRIBE, requested.group_id)
    except KafkaError as error:
        return _failed(requested.group_id, error)
    offsets = context.state.groups.share_partitions.offsets(requested.group_id)
    wanted: dict[str, list[int]] = {}
    if requested.topics is None:
        for place in sorted(offsets):
            topic = context.state.topics.by_id(place.topic_id)
            if topic is not None and context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
                wanted.setdefault(topic.name, []).append(place.partition)
    else:
        wanted = {topic.topic_name: list(topic.partitions) for topic in requested.topics}
    topics = [_topic(context, name, indexes, offsets) for name, indexes in wanted.items()]
    return {"group_id": requested.group_id, "topics": topics, "error_code": 0}


def _topic(
    context: RequestContext, name: str, indexes: list[int], offsets: dict[TopicIdPartition, ShareState]
) -> dict[str, object]:
    topic = context.state.topics.get(name)
    error: KafkaError | None = None
    if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
        error, topic = TopicAuthorizationFailedError(), None
    partitions = []
    for index in indexes:
        state = ShareState() if topic is None else offsets.get(TopicIdPartition(topic.topic_id, index), ShareState())
        is_there = topic is not None and 0 <= index < len(topic.partitions) and state.start_offset != NO_OFFSET
        partitions.append(
            {
                "partition_index": index,
                "start_offset": state.start_offset,
                "leader_epoch": topic.partitions[index].leader_epoch if topic is not None and is_there else 0,
                **entry_error(error),
            }
        )
    return {"topic_name": name, "topic_id": None if topic is None else topic.topic_id, "partitions": partitions}


def _failed(group_id: str, error: KafkaError) -> dict[str, object]:
    return {"group_id": group_id, "topics": [], **entry_error(error)}
