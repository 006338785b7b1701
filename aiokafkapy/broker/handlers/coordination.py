"""The common part of all group APIs: check the client's right, and that this node coordinates the group.

Registers nothing. All nodes share one ``GroupCoordinator``; that only one of them answers for a group is kept up
because clients must learn to find it, and to follow when it stops.
"""

from __future__ import annotations

from datetime import timedelta

from ...errors import CoordinatorNotAvailableError, NotCoordinatorError
from ..context import RequestContext
from ..security.acls import Operation, ResourceType

__all__ = ["check_group", "seconds"]


def check_group(context: RequestContext, operation: Operation, group_id: str) -> None:
    """Raise GroupAuthorizationFailedError, or NotCoordinatorError when another node coordinates the group."""
    context.check_right(operation, ResourceType.GROUP, group_id)
    node = context.state.coordinator_for(group_id)
    if node is None:
        raise CoordinatorNotAvailableError
    if node.node_id != context.node_id:
        raise NotCoordinatorError


def seconds(value: timedelta) -> float:
    """kio's duration as float seconds."""
    return value.total_seconds()
