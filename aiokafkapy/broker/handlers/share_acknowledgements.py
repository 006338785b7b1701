"""The common part of ShareFetch and ShareAcknowledge: a member's acknowledgements of its acquired records (KIP-932).

Registers nothing. Kafka's counterparts are ``KafkaApis.handleAcknowledgements`` and ``validateAcknowledgementBatches``.
"""

from __future__ import annotations

from uuid import UUID

from ...errors import InvalidRequestError, KafkaError, UnknownTopicIdError
from ...protocol.codec import Struct
from ..context import RequestContext
from ..coordination.assignors import TopicIdPartition
from ..coordination.share_partition import AcknowledgementBatch, AcknowledgeType
from ..security.acls import Operation
from ..storage.topics import Partition
from .leadership import check_leader, find_partition, find_topic
from .registry import Body, error_message

__all__ = ["acknowledge_all", "find_led_partition", "own_words"]


def acknowledge_all(context: RequestContext, body: Body) -> dict[TopicIdPartition, KafkaError | None]:
    """Take a request's acknowledgements, each partition by itself; the partitions that have some, with their errors."""
    return {
        TopicIdPartition(topic.topic_id, each.partition_index): _acknowledge(context, body, topic.topic_id, each)
        for topic in body.topics
        for each in topic.partitions
        if each.acknowledgement_batches
    }


def find_led_partition(context: RequestContext, place: TopicIdPartition) -> Partition:
    """A partition that this node leads and the client may read. UnknownTopicIdError and others."""
    partition = find_partition(find_topic(context, Operation.READ, None, place.topic_id), place.partition)
    context.check_topic(partition.topic_name, partition.index)
    check_leader(context, partition)
    return partition


def own_words(error: KafkaError | None) -> str | None:
    """An error's text, None when it says no more than the code: Kafka sends none then."""
    return None if error is None or str(error) == error.summary() else error_message(error)


def _acknowledge(context: RequestContext, body: Body, topic_id: UUID, wanted: Struct) -> KafkaError | None:
    try:
        place = TopicIdPartition(topic_id, wanted.partition_index)
        if context.state.topics.by_id(topic_id) is None:
            raise UnknownTopicIdError
        batches = [
            AcknowledgementBatch(each.first_offset, each.last_offset, each.acknowledge_types)
            for each in wanted.acknowledgement_batches
        ]
        _check(batches)
        find_led_partition(context, place)
        context.state.groups.share_partitions.acknowledge(body.group_id, place, body.member_id, batches)
    except KafkaError as error:
        return error
    return None


def _check(batches: list[AcknowledgementBatch]) -> None:
    end = -1
    known = set(AcknowledgeType)
    for batch in batches:
        size = batch.last_offset - batch.first_offset + 1
        if size < 1 or batch.first_offset < end or len(batch.types) not in (1, size) or not set(batch.types) <= known:
            raise InvalidRequestError
        end = batch.last_offset
