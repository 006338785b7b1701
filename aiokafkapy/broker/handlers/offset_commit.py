"""OffsetCommit (8): remember how far a group has come.

versions: 2-9
kept: commits of members and from outside of a generation (-1), leader epochs (v6+), member epochs (v9+), metadata up
    to offset.metadata.max.bytes; kept on disk with a data_dir
dropped: the retention time (v2-4): the broker's own counts
notes: a partition that does not exist is refused by itself; a wrong member or generation fails every partition.
"""

from __future__ import annotations

from typing import Final

from ...common import TopicPartition
from ...errors import KafkaError, OffsetMetadataTooLargeError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..coordination.classic_group import MemberIdentity
from ..coordination.group_offsets import CommittedOffset
from ..security.acls import Operation
from .coordinator_checks import check_group
from .leadership import find_partition, find_topic
from .registry import Body, Response, register

__all__ = ["error_response", "handle", "offsets_of", "respond"]

MEMBER_EPOCHS_FROM_VERSION: Final = 9


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every partition."""
    return respond(context, body, {}, error.code or -1)


@register(ApiKey.OFFSET_COMMIT, versions=(2, 9), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Commit the offsets that pass the checks, all at once."""
    check_group(context, Operation.READ, body.group_id)
    offsets, codes = offsets_of(context, body)
    identity = MemberIdentity(
        body.group_id,
        body.member_id,
        getattr(body, "group_instance_id", None),
        body.generation_id_or_member_epoch,
    )
    knows_member_epochs = context.api_version >= MEMBER_EPOCHS_FROM_VERSION
    context.state.groups.commit(identity, offsets, knows_member_epochs=knows_member_epochs)
    return respond(context, body, codes, 0)


def offsets_of(
    context: RequestContext, body: Body
) -> tuple[dict[TopicPartition, CommittedOffset], dict[TopicPartition, int]]:
    """The offsets of a request that pass the checks, and the error codes of the others."""
    offsets: dict[TopicPartition, CommittedOffset] = {}
    codes: dict[TopicPartition, int] = {}
    for topic in body.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            try:
                offsets[partition] = _committed(context, partition, each)
            except KafkaError as error:
                codes[partition] = error.code or -1
    return offsets, codes


def _committed(context: RequestContext, partition: TopicPartition, requested: Struct) -> CommittedOffset:
    topic = find_topic(context, Operation.READ, partition.topic)
    find_partition(topic, partition.partition)
    context.check_topic(partition.topic, partition.partition)
    metadata = requested.committed_metadata or ""
    if len(metadata.encode()) > context.state.config.offset_metadata_max_bytes:
        raise OffsetMetadataTooLargeError
    epoch = getattr(requested, "committed_leader_epoch", -1)
    return CommittedOffset(requested.committed_offset, epoch, metadata, topic.topic_id)


def respond(context: RequestContext, body: Body, codes: dict[TopicPartition, int], default: int) -> Response:
    """The answer, with ``default`` for each partition that has no code of its own."""
    return context.respond(
        topics=[
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": each.partition_index,
                        "error_code": codes.get(TopicPartition(topic.name, each.partition_index), default),
                    }
                    for each in topic.partitions
                ],
            }
            for topic in body.topics
        ]
    )
