"""OffsetDelete (47): forget some of a group's offsets.

versions: 0-0
kept: all of it but the check below; a consumer group (KIP-848) keeps the offsets of topics that members subscribe to
dropped: subscriptions of classic members are not looked into: their group keeps all its offsets
    (GROUP_SUBSCRIBED_TO_TOPIC), where Kafka keeps those of the topics that they subscribe to
notes: deleting an offset that was never committed is not an error, as in Kafka.
"""

from __future__ import annotations

from ...common import TopicPartition
from ...errors import GroupIdNotFoundError, GroupSubscribedToTopicError, KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.share_group import ShareGroup
from ..security.acls import Operation
from .coordinator_checks import check_group
from .leadership import find_partition, find_topic
from .registry import Body, Response, register

__all__ = ["handle"]


@register(ApiKey.OFFSET_DELETE, versions=(0, 0))
def handle(context: RequestContext, body: Body) -> Response:
    """Each partition by itself."""
    check_group(context, Operation.DELETE, body.group_id)
    groups = context.state.groups
    group = groups.get(body.group_id)
    if group is None or isinstance(group, ShareGroup):
        raise GroupIdNotFoundError
    deleted: list[TopicPartition] = []
    topics = []
    for topic in body.topics:
        partitions = []
        for each in topic.partitions:
            place = TopicPartition(topic.name, each.partition_index)
            code: int | None = 0
            try:
                find_partition(find_topic(context, Operation.READ, topic.name), each.partition_index)
                if group.is_subscribed_to(topic.name):
                    raise GroupSubscribedToTopicError
                deleted.append(place)
            except KafkaError as error:
                code = error.code
            partitions.append({"partition_index": each.partition_index, "error_code": code})
        topics.append({"name": topic.name, "partitions": partitions})
    groups.offsets.forget(body.group_id, deleted)
    return context.respond(error_code=0, topics=topics)
