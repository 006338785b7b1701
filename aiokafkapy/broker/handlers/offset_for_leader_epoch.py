"""OffsetForLeaderEpoch (23): the end offset of a leader's epoch, by which a client sees that a log was cut.

versions: 2-4
kept: all of it for consumers (KIP-320)
dropped: the replica id: there is no replication
notes: a log here is only ever cut by the death of the machine, never by a leader that moved.
"""

from __future__ import annotations

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..storage.topics import Topic
from .leadership import check_leader, find_partition, find_topic, find_topic_by_name
from .registry import Body, Response, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every partition."""
    return context.respond(
        topics=[
            {
                "topic": topic.topic,
                "partitions": [{"partition": each.partition, "error_code": error.code} for each in topic.partitions],
            }
            for topic in body.topics
        ]
    )


@register(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each partition by itself."""
    return context.respond(
        topics=[
            {"topic": topic.topic, "partitions": [_answer(context, topic.topic, each) for each in topic.partitions]}
            for topic in body.topics
        ]
    )


def _answer(context: RequestContext, name: str, requested: Struct) -> dict[str, object]:
    try:
        partition = find_partition(_find_topic(context, name), requested.partition)
        context.check_topic(name, partition.index)
        check_leader(context, partition, requested.current_leader_epoch)
    except KafkaError as error:
        return {"partition": requested.partition, "error_code": error.code}
    epoch, end_offset = partition.log.end_offset_for_epoch(requested.leader_epoch, partition.leader_epoch)
    return {"partition": partition.index, "error_code": 0, "leader_epoch": epoch, "end_offset": end_offset}


def _find_topic(context: RequestContext, name: str) -> Topic:
    # It was a request among brokers before it was one of consumers, so CLUSTER_ACTION is enough (KafkaApis).
    if context.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        return find_topic_by_name(context, name)
    return find_topic(context, Operation.DESCRIBE, name)
