"""Metadata (3): the running nodes, the topics and the leader of each partition.

versions: 0-13
kept: topics by name or (v12+) by id, auto creation, ids, leader epochs, offline replicas, only running nodes,
    authorized operations (v8+), racks (v1+)
dropped: nothing
notes: v0 asks for all topics with an empty list, later ones with null. A topic made by the request is in its answer at
    once; Kafka says UNKNOWN_TOPIC_OR_PARTITION or LEADER_NOT_AVAILABLE first. v13 has an error of its own at the top.
    The bytes of a topic are kept until it changes, or a node starts or stops: there may be ten thousand. Authorized
    operations are the client's own, so an answer with them is made anew.
"""

from __future__ import annotations

from uuid import UUID

from ...common import NO_LEADER
from ...errors import (
    InvalidRequestError,
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ...protocol.constants import AUTHORIZED_OPERATIONS_OMITTED
from ...protocol.writer import encode_element
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..storage.topics import Partition, Topic, validate_topic_name
from .registry import Body, Response, register

__all__ = ["cluster_operations", "describe_partition", "handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every topic that was asked for, and at the top where there is a place (v13)."""
    topics = [_failed(requested.name, getattr(requested, "topic_id", None), error) for requested in body.topics or ()]
    if context.api_version < 12:
        topics = [topic for topic in topics if topic["name"] is not None]  # before v12 a name cannot be null
    return context.respond(**_cluster(context), topics=topics, error_code=error.code)


@register(ApiKey.METADATA, versions=(0, 13), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """The cluster, and the topics asked for."""
    wants_all = body.topics is None or (context.api_version == 0 and not body.topics)
    if wants_all:
        topics = [_topic(context, body, topic) for topic in context.state.topics if _may_see(context, topic.name)]
    else:
        if context.api_version < 12 and any(requested.name is None for requested in body.topics):
            raise InvalidRequestError("Topics are asked for by id from version 12 on.")
        may_create = context.state.config.auto_create_topics_enable and getattr(body, "allow_auto_topic_creation", True)
        topics = [_requested_topic(context, body, requested, may_create=may_create) for requested in body.topics]
    wants_operations = getattr(body, "include_cluster_authorized_operations", False)
    operations = cluster_operations(context, is_wanted=wants_operations)
    return context.respond(**_cluster(context), topics=topics, cluster_authorized_operations=operations)


def cluster_operations(context: RequestContext, *, is_wanted: bool) -> int:
    """The operations that the client may do with the cluster: a bit field, 0 when it lacks the right to ask."""
    if not is_wanted:
        return AUTHORIZED_OPERATIONS_OMITTED
    if not context.may(Operation.DESCRIBE, ResourceType.CLUSTER):
        return 0
    return context.authorized_operations(ResourceType.CLUSTER)


def _cluster(context: RequestContext) -> dict[str, object]:
    return {
        "brokers": [
            {"node_id": node.node_id, "host": node.host, "port": node.port, "rack": node.rack}
            for node in context.nodes()
        ],
        "cluster_id": context.state.cluster_id,
        "controller_id": context.state.controller_id,
    }


def _may_see(context: RequestContext, name: str) -> bool:
    return context.may(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _requested_topic(
    context: RequestContext, body: Body, requested: Struct, *, may_create: bool
) -> dict[str, object] | bytes:
    topic_id = getattr(requested, "topic_id", None)
    try:
        topic = _find(context, requested.name, topic_id, may_create=may_create)
        context.check_topic(topic.name)
    except KafkaError as error:
        return _failed(requested.name, topic_id, error)
    return _topic(context, body, topic)


def _find(context: RequestContext, name: str | None, topic_id: UUID | None, *, may_create: bool) -> Topic:
    topics = context.state.topics
    if name is None:
        by_id = topics.by_id(topic_id)
        if by_id is None:
            raise UnknownTopicIdError(f"There is no topic of id {topic_id}.")
        context.check_right(Operation.DESCRIBE, ResourceType.TOPIC, by_id.name)
        return by_id
    context.check_right(Operation.DESCRIBE, ResourceType.TOPIC, name)
    topic = topics.get(name)
    if topic is not None:
        return topic
    validate_topic_name(name)
    if not may_create:
        raise UnknownTopicOrPartitionError(f"This server does not host the topic {name}.")
    if not context.may(Operation.CREATE, ResourceType.CLUSTER):
        context.check_right(Operation.CREATE, ResourceType.TOPIC, name)
    return topics.create(name)


def _failed(name: str | None, topic_id: UUID | None, error: KafkaError) -> dict[str, object]:
    return {"error_code": error.code, "name": name, "topic_id": topic_id}


def _topic(context: RequestContext, body: Body, topic: Topic) -> dict[str, object] | bytes:
    """The topic, or the bytes that it has in an answer."""
    if getattr(body, "include_topic_authorized_operations", False):
        return _described(context, topic, context.authorized_operations(ResourceType.TOPIC, topic.name))
    version, running = context.api_version, context.state.running_stamp
    kept = topic.descriptions.get(version)
    if kept is not None and kept[0] is running:
        return kept[1]
    encoded = encode_element(
        ApiKey.METADATA, version, "topics", _described(context, topic, AUTHORIZED_OPERATIONS_OMITTED)
    )
    topic.descriptions[version] = (running, encoded)
    return encoded


def _described(context: RequestContext, topic: Topic, operations: int) -> dict[str, object]:
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [describe_partition(context, partition) for partition in topic.partitions],
        "topic_authorized_operations": operations,
    }


def describe_partition(context: RequestContext, partition: Partition) -> dict[str, object]:
    """One partition, as Metadata and DescribeTopicPartitions write it."""
    replicas, in_sync = partition.replicas, context.state.in_sync_replicas(partition)
    are_all_in_sync = len(in_sync) == len(replicas)
    return {
        "error_code": LeaderNotAvailableError.code if partition.leader is None else 0,
        "partition_index": partition.index,
        "leader_id": NO_LEADER if partition.leader is None else partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": replicas,
        "isr_nodes": in_sync,
        "offline_replicas": () if are_all_in_sync else [each for each in replicas if each not in in_sync],
    }
