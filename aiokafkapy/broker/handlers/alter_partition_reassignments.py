"""AlterPartitionReassignments (45): give partitions other replicas.

versions: 0-1
kept: new replicas, at once; whether their number may change (v1)
dropped: the time-out, and reassignments that go on: replicas share a log, so there is nothing to copy
notes: there is never a reassignment to cancel (null replicas): NO_REASSIGNMENT_IN_PROGRESS. One to stopped nodes only
    is INVALID_REPLICA_ASSIGNMENT; Kafka goes on with the old replicas until a new one has caught up.
"""

from __future__ import annotations

from ...errors import (
    InvalidReplicationFactorError,
    KafkaError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error at the top, and no topics."""
    return context.respond(**entry_error(error), responses=[])


@register(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each partition by itself."""
    context.check_right(Operation.ALTER, ResourceType.CLUSTER)
    may_change = getattr(body, "allow_replication_factor_change", True)
    return context.respond(
        error_code=0,
        allow_replication_factor_change=may_change,
        responses=[
            {
                "name": topic.name,
                "partitions": [_answer(context, topic.name, each, may_change=may_change) for each in topic.partitions],
            }
            for topic in body.topics
        ],
    )


def _answer(context: RequestContext, name: str, requested: Struct, *, may_change: bool) -> dict[str, object]:
    answer = {"partition_index": requested.partition_index, "error_code": 0, "error_message": None}
    try:
        _reassign(context, name, requested, may_change=may_change)
    except KafkaError as error:
        answer |= entry_error(error)
    return answer


def _reassign(context: RequestContext, name: str, requested: Struct, *, may_change: bool) -> None:
    context.check_topic(name, requested.partition_index)
    partition = context.state.topics.partition(name, requested.partition_index)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"Unable to find a topic or partition {name}-{requested.partition_index}.")
    if requested.replicas is None:
        raise NoReassignmentInProgressError
    if not may_change and len(requested.replicas) != len(partition.replicas):
        raise InvalidReplicationFactorError(
            f"The replication factor is changed from {len(partition.replicas)} to {len(requested.replicas)}"
        )
    context.state.topics.reassign(name, requested.partition_index, requested.replicas)
