"""AddPartitionsToTxn (24): take partitions into a transaction, or ask whether they are in it.

versions: 0-5
kept: producers' requests (v0-3); brokers' batches of transactions (v4+), which add or verify (KIP-890)
dropped: nothing
notes: v4+ needs the right CLUSTER_ACTION. A partition that may not be written, or does not exist, keeps all others of
    its transaction out: OPERATION_NOT_ATTEMPTED. Before v2 a fenced producer hears of it as INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ...common import TopicPartition
from ...errors import KafkaError, OperationNotAttemptedError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..coordination.transaction import Addition, ProducerIdAndEpoch
from ..security.acls import Operation, ResourceType
from .coordinator_checks import check_transactional_id, fencing_code
from .leadership import find_partition, find_topic, find_topic_by_name
from .registry import Body, Response, register

__all__ = ["handle"]

BATCHED_FROM_VERSION: Final = 4
FENCED_FROM_VERSION: Final = 2

Codes = Mapping[TopicPartition, int]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """At the top from v4 on, before on every partition."""
    code = fencing_code(context, error, FENCED_FROM_VERSION)
    if context.api_version >= BATCHED_FROM_VERSION:
        return context.respond(error_code=code, results_by_transaction=[])
    topics = body.v3_and_below_topics
    return context.respond(results_by_topic_v3_and_below=_results(topics, dict.fromkeys(_partitions(topics), code)))


@register(ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each transaction by itself; of one all partitions or none are added."""
    if context.api_version >= BATCHED_FROM_VERSION:
        context.check_right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
        return context.respond(
            error_code=0,
            results_by_transaction=[
                {
                    "transactional_id": each.transactional_id,
                    "topic_results": _results(each.topics, _answer(context, each)),
                }
                for each in body.transactions
            ],
        )
    topics = body.v3_and_below_topics
    producer = ProducerIdAndEpoch(body.v3_and_below_producer_id, body.v3_and_below_producer_epoch)
    codes = _add(context, body.v3_and_below_transactional_id, producer, topics)
    return context.respond(results_by_topic_v3_and_below=_results(topics, codes))


def _answer(context: RequestContext, requested: Struct) -> Codes:
    producer = ProducerIdAndEpoch(requested.producer_id, requested.producer_epoch)
    try:
        if not requested.verify_only:
            return _add(context, requested.transactional_id, producer, requested.topics)
        check_transactional_id(context, Operation.WRITE, requested.transactional_id)
    except KafkaError as error:
        return dict.fromkeys(_partitions(requested.topics), fencing_code(context, error, FENCED_FROM_VERSION))
    codes = {}
    for partition in _partitions(requested.topics):
        try:
            context.state.transactions.verify(requested.transactional_id, producer, partition)
            codes[partition] = 0
        except KafkaError as error:
            codes[partition] = fencing_code(context, error, FENCED_FROM_VERSION)
    return codes


def _add(
    context: RequestContext, transactional_id: str, producer: ProducerIdAndEpoch, topics: Iterable[Struct]
) -> Codes:
    check_transactional_id(context, Operation.WRITE, transactional_id)
    partitions = _partitions(topics)
    refused = {partition: code for partition in partitions if (code := _refusal(context, partition))}
    if refused:
        return dict.fromkeys(partitions, OperationNotAttemptedError.code or -1) | refused
    state = context.state
    addition = Addition(transactional_id, producer, partitions)
    state.transactions.add(addition, context.now, state.timestamp_ms())
    return dict.fromkeys(partitions, 0)


def _refusal(context: RequestContext, partition: TopicPartition) -> int:
    try:
        # The brokers' requests come after the right to write was checked.
        is_batched = context.api_version >= BATCHED_FROM_VERSION
        topic = (
            find_topic_by_name(context, partition.topic)
            if is_batched
            else find_topic(context, Operation.WRITE, partition.topic)
        )
        find_partition(topic, partition.partition)
        context.check_topic(partition.topic, partition.partition)
    except KafkaError as error:
        return error.code or -1
    return 0


def _partitions(topics: Iterable[Struct]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _results(topics: Iterable[Struct], codes: Codes) -> list[dict[str, object]]:
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": codes[TopicPartition(topic.name, index)]}
                for index in topic.partitions
            ],
        }
        for topic in topics
    ]
