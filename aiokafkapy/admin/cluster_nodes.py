"""The brokers of a Metadata response, and the cluster's controller, which with KRaft is not in such a response.

Owns the question for the controller; its caller sends. Kafka's counterpart is ``kafka-metadata-quorum``.

Rule: with KRaft, brokers name any of themselves as the controller, since each forwards (KIP-590). The controller is the
leader of the metadata's quorum (KIP-595), which need not be a broker. If brokers do not offer that request, as with
ZooKeeper, the controller that they name is the real one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..cluster.metadata_answer import node_of
from ..common import Node
from ..errors import UnsupportedVersionError, make
from ..protocol.api import ApiKey
from ..protocol.codec import Message, Struct
from ..protocol.messages import build_request

__all__ = ["active_controller", "nodes_of"]


def nodes_of(metadata: Struct) -> dict[int, Node]:
    """The brokers of a Metadata response, by id."""
    return {each.node_id: node_of(each) for each in metadata.brokers}


async def active_controller(
    ask: Callable[[ApiKey, Callable[[int], Message]], Awaitable[Struct]], metadata: Struct
) -> Node | None:
    """The controller of the cluster that answered ``metadata``; None if there is no controller. A controller that is
    not a broker has no address if the brokers are older than Kafka 3.9.

    Raises ClusterAuthorizationFailedError if we may not describe the cluster, and the errors of ``ask``, which sends
    a request to any broker: while there is no controller, perhaps none answers.
    """

    def build(version: int) -> Message:
        topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        return build_request(ApiKey.DESCRIBE_QUORUM, version, topics=topics)

    brokers = nodes_of(metadata)
    try:
        body = await ask(ApiKey.DESCRIBE_QUORUM, build)
    except UnsupportedVersionError:
        return brokers.get(getattr(metadata, "controller_id", -1))
    quorums = [partition for topic in body.topics for partition in topic.partitions]
    for answer in (body, *quorums):
        if answer.error_code:
            raise make(answer.error_code, getattr(answer, "error_message", None))
    leader = quorums[0].leader_id if quorums else -1
    if leader < 0 or leader in brokers:
        return brokers.get(leader)
    listeners = [each for node in getattr(body, "nodes", ()) if node.node_id == leader for each in node.listeners]
    return Node(leader, listeners[0].host, listeners[0].port) if listeners else Node(leader, "", -1)
