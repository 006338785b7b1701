"""DeleteGroups (42): forget groups and their offsets.

versions: 0-2
kept: all of it
dropped: nothing
notes: a group with members is NON_EMPTY_GROUP.
"""

from __future__ import annotations

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation
from .coordinator_checks import check_group
from .registry import Body, Response, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every group."""
    return context.respond(results=[{"group_id": group_id, "error_code": error.code} for group_id in body.groups_names])


@register(ApiKey.DELETE_GROUPS, versions=(0, 2), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each group by itself."""
    return context.respond(
        results=[{"group_id": group_id, "error_code": _delete(context, group_id)} for group_id in body.groups_names]
    )


def _delete(context: RequestContext, group_id: str) -> int | None:
    try:
        check_group(context, Operation.DELETE, group_id)
        context.state.groups.delete(group_id)
    except KafkaError as error:
        return error.code
    return 0
