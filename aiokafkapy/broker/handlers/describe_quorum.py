"""DescribeQuorum (55): the leader and the voters of the cluster's metadata.

versions: 0-2
kept: the leader, which is the controller, and the nodes as voters that are caught up; their addresses (v2)
dropped: the log: its end is the number of changes of topics, and there are no directory ids
notes: only the partition 0 of __cluster_metadata is known. Nodes of the dev broker share one state: there is no vote.
"""

from __future__ import annotations

from typing import Final

from ...common import Node
from ...errors import KafkaError, UnknownTopicOrPartitionError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]

METADATA_TOPIC: Final = "__cluster_metadata"
_LISTENER: Final = "CONTROLLER"


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error at the top."""
    return context.respond(**entry_error(error), topics=[], nodes=[])


@register(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """The one partition."""
    context.check_right(Operation.DESCRIBE, ResourceType.CLUSTER)
    wanted = [(topic.topic_name, each.partition_index) for topic in body.topics for each in topic.partitions]
    if wanted != [(METADATA_TOPIC, 0)]:
        return context.respond(error_code=0, topics=[_unknown(topic) for topic in body.topics])
    state = context.state
    end = state.topics.version
    now_ms = state.timestamp_ms()
    voters = [
        {
            "replica_id": node_id,
            "log_end_offset": end,
            "last_fetch_timestamp": now_ms,
            "last_caught_up_timestamp": now_ms,
        }
        for node_id in state.running_node_ids
    ]
    partition = {
        "partition_index": 0,
        "error_code": 0,
        "leader_id": state.controller_id,
        "leader_epoch": 1,
        "high_watermark": end,
        "current_voters": voters,
        "observers": [],
    }
    return context.respond(
        error_code=0,
        topics=[{"topic_name": METADATA_TOPIC, "partitions": [partition]}],
        nodes=[_node(node) for node in context.nodes()],
    )


def _unknown(topic: Struct) -> dict[str, object]:
    error = UnknownTopicOrPartitionError(f"Only {METADATA_TOPIC}-0, by itself, has a quorum")
    failure = entry_error(error)
    partitions = [{"partition_index": each.partition_index, **failure} for each in topic.partitions]
    return {"topic_name": topic.topic_name, "partitions": partitions}


def _node(node: Node) -> dict[str, object]:
    return {"node_id": node.node_id, "listeners": [{"name": _LISTENER, "host": node.host, "port": node.port}]}
