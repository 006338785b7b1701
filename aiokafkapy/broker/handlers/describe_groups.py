"""DescribeGroups (15): a group's state and members.

versions: 0-6
kept: state, protocol, members with their metadata and assignments; authorized operations (v3+)
dropped: nothing
notes: a group that does not exist, or is one of KIP-848, is "Dead" up to v5 and GROUP_ID_NOT_FOUND in v6 (KIP-1043).
"""

from __future__ import annotations

from typing import Final

from ...errors import GroupIdNotFoundError, KafkaError
from ...protocol.api import ApiKey
from ...protocol.constants import AUTHORIZED_OPERATIONS_OMITTED
from ..context import RequestContext
from ..coordination.classic_group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from ..security.acls import Operation, ResourceType
from .coordinator_checks import check_group
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]

NOT_FOUND_FROM_VERSION: Final = 6


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every group."""
    return context.respond(groups=[_failed(group_id, error) for group_id in body.groups])


@register(ApiKey.DESCRIBE_GROUPS, versions=(0, 6), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each group by itself."""
    return context.respond(groups=[_describe(context, body, group_id) for group_id in body.groups])


def _describe(context: RequestContext, body: Body, group_id: str) -> dict[str, object]:
    try:
        check_group(context, Operation.DESCRIBE, group_id)
        group = context.state.groups.get(group_id)
        if not isinstance(group, ClassicGroup) and context.api_version >= NOT_FOUND_FROM_VERSION:
            problem = "not found" if group is None else "is not a classic group"
            raise GroupIdNotFoundError(f"Group {group_id} {problem}.")
    except KafkaError as error:
        return _failed(group_id, error)
    if not isinstance(group, ClassicGroup):
        return {"group_id": group_id, "error_code": 0, "group_state": ClassicGroupState.DEAD.value}
    wants_operations = getattr(body, "include_authorized_operations", False)
    return {
        "error_code": 0,
        "group_id": group_id,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol_data": group.protocol_name or "" if group.state is ClassicGroupState.STABLE else "",
        "members": [_member(group, member) for member in group.members.values()],
        "authorized_operations": (
            context.authorized_operations(ResourceType.GROUP, group_id)
            if wants_operations
            else AUTHORIZED_OPERATIONS_OMITTED
        ),
    }


def _member(group: ClassicGroup, member: ClassicGroupMember) -> dict[str, object]:
    is_stable = group.state is ClassicGroupState.STABLE
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.metadata(group.protocol_name) if is_stable else b"",
        "member_assignment": member.assignment if is_stable else b"",
    }


def _failed(group_id: str, error: KafkaError) -> dict[str, object]:
    return {
        "group_id": group_id,
        **entry_error(error),
        "group_state": ClassicGroupState.DEAD.value,
    }
