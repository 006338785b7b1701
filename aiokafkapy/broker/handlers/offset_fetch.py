"""OffsetFetch (9): the committed offsets of groups.

versions: 1-9
kept: one group (v1-7) or many (v8+), chosen partitions or all (null, v2+), leader epochs (v5+), the member's epoch
    (v9, KIP-848), and require_stable (v7+): UNSTABLE_OFFSET_COMMIT while an open transaction has an offset of the
    partition
dropped: nothing
notes: a partition without a commit, or of a topic deleted since, has offset -1 and no error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...common import TopicPartition
from ...errors import KafkaError, TopicAuthorizationFailedError, UnstableOffsetCommitError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..coordination.consumer_group import ConsumerGroup
from ..coordination.group_offsets import CommittedOffset
from ..security.acls import Operation, ResourceType
from .coordinator_checks import check_group
from .registry import Body, Response, register

__all__ = ["handle"]

MANY_FROM_VERSION: Final = 8
MEMBER_EPOCHS_FROM_VERSION: Final = 9
TOP_ERROR_FROM_VERSION: Final = 2
NOTHING: Final = CommittedOffset(-1)


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """At the top of the request or of each group; in v1 on every partition."""
    if context.api_version >= MANY_FROM_VERSION:
        groups = [{"group_id": group.group_id, "topics": [], "error_code": error.code} for group in body.groups]
        return context.respond(groups=groups)
    if context.api_version >= TOP_ERROR_FROM_VERSION:
        return context.respond(error_code=error.code, topics=[])
    topics = [
        {"name": each.name, "partitions": [_partition(index, NOTHING, error.code) for index in each.partition_indexes]}
        for each in body.topics
    ]
    return context.respond(topics=topics)


@register(ApiKey.OFFSET_FETCH, versions=(1, 9), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each group by itself."""
    if context.api_version >= MANY_FROM_VERSION:
        return context.respond(groups=[_group(context, body, group) for group in body.groups])
    check_group(context, Operation.DESCRIBE, body.group_id)
    return context.respond(error_code=0, topics=_topics(context, body, body.group_id, body.topics))


def _group(context: RequestContext, body: Body, requested: Struct) -> dict[str, object]:
    try:
        check_group(context, Operation.DESCRIBE, requested.group_id)
        group = context.state.groups.get(requested.group_id)
        if isinstance(group, ConsumerGroup) and context.api_version >= MEMBER_EPOCHS_FROM_VERSION:
            group.check_fetch(requested.member_id, requested.member_epoch)
    except KafkaError as error:
        return {"group_id": requested.group_id, "topics": [], "error_code": error.code}
    topics = _topics(context, body, requested.group_id, requested.topics)
    return {"group_id": requested.group_id, "topics": topics, "error_code": 0}


def _topics(
    context: RequestContext, body: Body, group_id: str, requested: Iterable[Struct] | None
) -> list[dict[str, object]]:
    must_be_stable = bool(getattr(body, "require_stable", False))
    if requested is None:
        wanted: dict[str, list[int]] = {}
        for place in sorted(context.state.groups.offsets.get(group_id)):
            if _may_see(context, place.topic) and _committed(context, group_id, place) is not None:
                wanted.setdefault(place.topic, []).append(place.partition)
    else:
        wanted = {topic.name: topic.partition_indexes for topic in requested}
    return [
        {
            "name": name,
            "partitions": [
                _answer(context, group_id, TopicPartition(name, index), must_be_stable=must_be_stable)
                for index in indexes
            ],
        }
        for name, indexes in wanted.items()
    ]


def _may_see(context: RequestContext, topic: str) -> bool:
    return context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _answer(
    context: RequestContext, group_id: str, place: TopicPartition, *, must_be_stable: bool
) -> dict[str, object]:
    if not _may_see(context, place.topic):
        return _partition(place.partition, NOTHING, TopicAuthorizationFailedError.code)
    if must_be_stable and context.state.groups.offsets.is_pending(group_id, place):
        return _partition(place.partition, NOTHING, UnstableOffsetCommitError.code)
    return _partition(place.partition, _committed(context, group_id, place) or NOTHING, 0)


def _committed(context: RequestContext, group_id: str, place: TopicPartition) -> CommittedOffset | None:
    topic = context.state.topics.get(place.topic)
    if topic is None:
        return None
    return context.state.groups.offsets.fetch(group_id, place, topic.topic_id)


def _partition(index: int, committed: CommittedOffset, code: int | None) -> dict[str, object]:
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": code,
    }
