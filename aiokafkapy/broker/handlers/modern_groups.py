"""The common part of the APIs of consumer groups (KIP-848) and share groups (KIP-932).

Registers nothing. ``coordinator_checks`` has the part that they have in common with classic groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from ...errors import KafkaError, TopicAuthorizationFailedError
from ...protocol.constants import AUTHORIZED_OPERATIONS_OMITTED
from ..context import RequestContext
from ..coordination.assignors import Assignment
from ..coordination.consumer_group import ConsumerGroup
from ..coordination.consumer_group_manager import HeartbeatResult
from ..coordination.modern_group import ModernGroupMember
from ..coordination.share_group import ShareGroup
from ..security.acls import Operation, ResourceType
from .coordinator_checks import check_group
from .registry import Body, Response, entry_error

__all__ = [
    "assignment_of",
    "check_topics",
    "describe_each",
    "described_group",
    "described_member",
    "error_of_every_group",
    "heartbeat_response",
    "may_describe",
]


# heartbeats


def heartbeat_response(context: RequestContext, result: HeartbeatResult) -> Response:
    """The member's epoch, and its partitions if they have changed."""
    return context.respond(
        error_code=0,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval=result.heartbeat_interval_ms,
        assignment=None if result.assignment is None else {"topic_partitions": _by_topic_id(result.assignment)},
    )


def check_topics(context: RequestContext, names: Iterable[str] | None) -> None:
    """Raise TopicAuthorizationFailedError for topics that a member names and may not describe."""
    hidden = [name for name in names or () if not may_describe(context, name)]
    if hidden:
        raise TopicAuthorizationFailedError(f"{context.connection.principal} may not DESCRIBE the topics {hidden}")


def may_describe(context: RequestContext, topic: str) -> bool:
    """Whether the client has the right to describe a topic."""
    return context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)


# descriptions


def describe_each(
    context: RequestContext, body: Body, describe: Callable[[RequestContext, Body, str], dict[str, object]]
) -> Response:
    """Each group by itself: its description, or the error that ``describe`` raises."""
    groups = []
    for group_id in body.group_ids:
        try:
            check_group(context, Operation.DESCRIBE, group_id)
            groups.append(describe(context, body, group_id))
        except KafkaError as error:
            groups.append(_failed(group_id, error))
    return context.respond(groups=groups)


def error_of_every_group(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every group."""
    return context.respond(groups=[_failed(group_id, error) for group_id in body.group_ids])


def described_group(
    context: RequestContext,
    body: Body,
    group: ConsumerGroup | ShareGroup,
    topics: Iterable[str],
    assignor: str,
    members: Iterable[dict[str, object]],
) -> dict[str, object]:
    """The entry of a group, with those of its members; raises TopicAuthorizationFailedError when the client may not
    describe one of ``topics``.
    """
    if not all(may_describe(context, name) for name in topics):
        raise TopicAuthorizationFailedError(
            "The group has described topic(s) that the client is not authorized to describe."
        )
    wants_operations = body.include_authorized_operations
    return {
        "error_code": 0,
        "group_id": group.group_id,
        "group_state": group.state.value,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": assignor,
        "members": list(members),
        "authorized_operations": (
            context.authorized_operations(ResourceType.GROUP, group.group_id)
            if wants_operations
            else AUTHORIZED_OPERATIONS_OMITTED
        ),
    }


def described_member(context: RequestContext, member: ModernGroupMember) -> dict[str, object]:
    """The fields of a member of either kind."""
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.subscribed_topic_names),
        "assignment": assignment_of(context, member.assigned),
    }


def assignment_of(context: RequestContext, assignment: Assignment) -> dict[str, object]:
    """The partitions by topics; topics that were deleted since are left out."""
    topics = [(context.state.topics.by_id(each["topic_id"]), each) for each in _by_topic_id(assignment)]
    return {"topic_partitions": [{**each, "topic_name": topic.name} for topic, each in topics if topic is not None]}


# internals


def _failed(group_id: str, error: KafkaError) -> dict[str, object]:
    return {"group_id": group_id, **entry_error(error)}


def _by_topic_id(assignment: Assignment) -> list[dict[str, Any]]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(assignment):
        topics.setdefault(topic_id, []).append(partition)
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]
