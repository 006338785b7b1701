"""DescribeProducers (61): the producers that a partition remembers, and their open transactions.

versions: 0-0
kept: all of it
dropped: nothing
notes: the leader answers.
"""

from __future__ import annotations

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation
from .leadership import check_leader, find_partition, find_topic
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every partition."""
    return context.respond(
        topics=[
            {"name": topic.name, "partitions": [_failed(index, error) for index in topic.partition_indexes]}
            for topic in body.topics
        ]
    )


@register(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each partition by itself."""
    return context.respond(
        topics=[
            {
                "name": topic.name,
                "partitions": [_describe(context, topic.name, index) for index in topic.partition_indexes],
            }
            for topic in body.topics
        ]
    )


def _describe(context: RequestContext, name: str, index: int) -> dict[str, object]:
    try:
        partition = find_partition(find_topic(context, Operation.READ, name), index)
        context.check_topic(name, index)
        check_leader(context, partition)
    except KafkaError as error:
        return _failed(index, error)
    return {
        "partition_index": index,
        "error_code": 0,
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": state.epoch,
                "last_sequence": state.last_sequence,
                "last_timestamp": state.last_timestamp_ms,
                "coordinator_epoch": state.coordinator_epoch,
                "current_txn_start_offset": state.transaction_offset,
            }
            for producer_id, state in partition.log.producers.producers.items()
        ],
    }


def _failed(index: int, error: KafkaError) -> dict[str, object]:
    return {
        "partition_index": index,
        **entry_error(error),
        "active_producers": [],
    }
