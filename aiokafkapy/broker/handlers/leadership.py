"""The common part of Produce, Fetch and ListOffsets: find a partition and check that this node leads it.

Registers nothing. Kafka's counterparts are ``ReplicaManager.getPartitionOrException``,
``Partition.checkCurrentLeaderEpoch`` and ``KafkaApis.getCurrentLeader`` (KIP-951).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from ...errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ...protocol.codec import Struct
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..storage.topics import Partition, Topic
from .registry import Body, Response

__all__ = [
    "MISROUTED",
    "answer_each",
    "check_leader",
    "current_leader",
    "find_partition",
    "find_topic",
    "find_topic_by_name",
    "node_endpoints",
]

NO_EPOCH = -1
MISROUTED: Final = (NotLeaderOrFollowerError, FencedLeaderEpochError)
"""Errors that come with the leader's address."""


def answer_each(context: RequestContext, body: Body, answer: Callable[[str, Struct], dict[str, object]]) -> Response:
    """The answer of each partition of a request, by topics: ``answer`` is called with the topic's name."""
    return context.respond(
        topics=[
            {"name": topic.name, "partitions": [answer(topic.name, each) for each in topic.partitions]}
            for topic in body.topics
        ]
    )


def find_topic(context: RequestContext, operation: Operation, name: str | None, topic_id: UUID | None = None) -> Topic:
    """A topic by its name, or by its id where the version has no name, on which the client may do this.

    TopicAuthorizationFailedError, which is first, so that nobody learns which topics there are;
    UnknownTopicOrPartitionError, UnknownTopicIdError.
    """
    if name is not None:
        context.check_right(operation, ResourceType.TOPIC, name)
        return find_topic_by_name(context, name)
    topic = context.state.topics.by_id(topic_id)
    if topic is None:
        raise UnknownTopicIdError
    context.check_right(operation, ResourceType.TOPIC, topic.name)
    return topic


def find_topic_by_name(context: RequestContext, name: str) -> Topic:
    """A topic, for a client whose rights are known. UnknownTopicOrPartitionError."""
    topic = context.state.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(topic=name)
    return topic


def find_partition(topic: Topic, index: int) -> Partition:
    """One of its partitions. UnknownTopicOrPartitionError."""
    if not 0 <= index < len(topic.partitions):
        raise UnknownTopicOrPartitionError(topic=topic.name, partition=index)
    return topic.partitions[index]


def check_leader(
    context: RequestContext, partition: Partition, leader_epoch: int = NO_EPOCH, *, followers_too: bool = False
) -> None:
    """Raise unless this node leads (or, with ``followers_too``, is a replica), and the client's epoch, unless it
    is -1 (none), is the partition's.

    FencedLeaderEpochError, UnknownLeaderEpochError or NotLeaderOrFollowerError, as Java in this order.
    """
    if leader_epoch != NO_EPOCH:
        if leader_epoch < partition.leader_epoch:
            raise FencedLeaderEpochError
        if leader_epoch > partition.leader_epoch:
            raise UnknownLeaderEpochError
    is_right = partition.leader == context.node_id or (followers_too and context.node_id in partition.replicas)
    if not is_right or partition.is_deleted:
        raise NotLeaderOrFollowerError


def current_leader(partition: Partition) -> dict[str, int]:
    """The hint that goes with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH."""
    leader_id = -1 if partition.leader is None else partition.leader
    return {"leader_id": leader_id, "leader_epoch": partition.leader_epoch}


def node_endpoints(context: RequestContext, partitions: Iterable[Partition]) -> list[dict[str, object]]:
    """The addresses of these partitions' leaders, each once."""
    leaders = {partition.leader for partition in partitions}
    if not leaders:
        return []
    return [
        {"node_id": node.node_id, "host": node.host, "port": node.port, "rack": node.rack}
        for node in context.nodes()
        if node.node_id in leaders
    ]
