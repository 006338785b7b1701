"""ShareAcknowledge (79): acknowledge acquired records, or give them back to be delivered again (KIP-932).

versions: 1-1
kept: the epochs of the share session, accept, release, reject and gap; the end of the session (epoch -1), which gives
    back the member's other records
dropped: renewal of locks (v2), which Kafka 4.1 does not have either
notes: a partition's acknowledgements are taken whole or not at all.
"""

from __future__ import annotations

from uuid import UUID

from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.share_sessions import FINAL_EPOCH
from ..security.acls import Operation, ResourceType
from ..storage.topics import Partition
from .leadership import MISROUTED, current_leader, node_endpoints
from .registry import Body, Response, entry_code, register
from .share_acknowledgements import acknowledge_all, own_words
from .share_group_heartbeat import check_share_version

__all__ = ["handle"]


@register(ApiKey.SHARE_ACKNOWLEDGE, versions=(1, 1))
def handle(context: RequestContext, body: Body) -> Response:
    """Each partition by itself."""
    check_share_version(context)
    context.check_right(Operation.READ, ResourceType.GROUP, body.group_id)
    sessions = context.state.share_sessions_of(context.node_id)
    session = sessions.begin_acknowledge(body.group_id, body.member_id, body.share_session_epoch)
    topics: dict[UUID, list[dict[str, object]]] = {}
    misrouted: list[Partition] = []
    for place, error in acknowledge_all(context, body).items():
        answer: dict[str, object] = {
            "partition_index": place.partition,
            "error_code": entry_code(error),
            "error_message": own_words(error),
        }
        topic = context.state.topics.by_id(place.topic_id)
        if topic is not None and isinstance(error, MISROUTED):
            misrouted.append(topic.partitions[place.partition])
            answer["current_leader"] = current_leader(misrouted[-1])
        topics.setdefault(place.topic_id, []).append(answer)
    if body.share_session_epoch == FINAL_EPOCH:
        sessions.end(session)
    return context.respond(
        error_code=0,
        responses=[{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()],
        node_endpoints=node_endpoints(context, misrouted),
    )
