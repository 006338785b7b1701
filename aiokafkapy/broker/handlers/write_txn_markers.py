"""WriteTxnMarkers (27): end transactions in partitions, as brokers do among themselves and administrators by hand.

versions: 1-2
kept: all of it; ``kafka-transactions abort`` sends it to end a transaction that no coordinator knows
dropped: markers of ``__consumer_offsets``, which does not exist here; the transaction version (v2): the epoch of a
    marker may be the producer's own or a higher one in either
notes: needs the right CLUSTER_ACTION, or ALTER of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import ClusterAuthorizationFailedError, KafkaError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ...record.batch import ControlType
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..storage.producer_state import Marker
from .leadership import check_leader, find_partition, find_topic_by_name
from .registry import Body, Response, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every partition."""
    return _respond(context, body, lambda marker, topic, index: error.code or -1)


@register(ApiKey.WRITE_TXN_MARKERS, versions=(1, 2), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each partition by itself."""
    if not any(context.may(right, ResourceType.CLUSTER) for right in (Operation.ALTER, Operation.CLUSTER_ACTION)):
        raise ClusterAuthorizationFailedError
    return _respond(context, body, lambda marker, topic, index: _write(context, marker, topic, index))


def _write(context: RequestContext, marker: Struct, topic: str, index: int) -> int:
    try:
        partition = find_partition(find_topic_by_name(context, topic), index)
        context.check_topic(topic, index)
        check_leader(context, partition)
        ending = Marker(
            ControlType.COMMIT if marker.transaction_result else ControlType.ABORT,
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
        )
        partition.log.append_marker(ending, partition.leader_epoch, context.state.timestamp_ms())
    except KafkaError as error:
        return error.code or -1
    context.state.purgatory.check(partition)
    return 0


def _respond(context: RequestContext, body: Body, code: Callable[[Struct, str, int], int]) -> Response:
    return context.respond(
        markers=[
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {"partition_index": index, "error_code": code(marker, topic.name, index)}
                            for index in topic.partition_indexes
                        ],
                    }
                    for topic in marker.topics
                ],
            }
            for marker in body.markers
        ]
    )
