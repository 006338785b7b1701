"""DescribeTopicPartitions (75): topics in pages of partitions (KIP-966).

versions: 0
kept: authorized operations; topics by name or all, in order of name; the limit and the cursor
dropped: eligible leader replicas
notes: never creates a topic. Java's admin client of 4.x asks this before Metadata.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import KafkaError, UnknownTopicOrPartitionError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..storage.topics import Partition, Topic
from .metadata import describe_partition
from .registry import Body, Response, register

__all__ = ["handle"]

# Kafka's max.request.partition.size.limit.
MAX_PARTITIONS = 2_000


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every topic that was named."""
    return context.respond(topics=[{"name": topic.name, "error_code": error.code} for topic in body.topics])


@register(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """From the cursor on, up to the limit; the next request goes on from the cursor in the answer."""
    names = sorted({topic.name for topic in body.topics} or _all_names(context))
    first_name, first_index = (body.cursor.topic_name, body.cursor.partition_index) if body.cursor else ("", 0)
    room = max(1, min(body.response_partition_limit, MAX_PARTITIONS))
    described: list[dict[str, object]] = []
    for name in names:
        if name < first_name:
            continue
        start = first_index if name == first_name else 0
        if not room:
            return context.respond(topics=described, next_cursor={"topic_name": name, "partition_index": start})
        try:
            topic = _find(context, name)
        except KafkaError as error:
            described.append({"name": name, "error_code": error.code})
            continue
        page = topic.partitions[start : start + room]
        described.append(_describe(context, topic, page))
        room -= len(page)
        if start + len(page) < len(topic.partitions):
            cursor = {"topic_name": name, "partition_index": start + len(page)}
            return context.respond(topics=described, next_cursor=cursor)
    return context.respond(topics=described, next_cursor=None)


def _all_names(context: RequestContext) -> set[str]:
    names = (topic.name for topic in context.state.topics)
    return {name for name in names if context.may(Operation.DESCRIBE, ResourceType.TOPIC, name)}


def _find(context: RequestContext, name: str) -> Topic:
    context.check_right(Operation.DESCRIBE, ResourceType.TOPIC, name)
    topic = context.state.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"This server does not host the topic {name}.", topic=name)
    context.check_topic(name)
    return topic


def _describe(context: RequestContext, topic: Topic, page: Iterable[Partition]) -> dict[str, object]:
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "topic_authorized_operations": context.authorized_operations(ResourceType.TOPIC, topic.name),
        # Empty, not null (the schema's default): Java's admin client cannot read null here.
        "partitions": [
            {**describe_partition(context, partition), "eligible_leader_replicas": [], "last_known_elr": []}
            for partition in page
        ],
    }
