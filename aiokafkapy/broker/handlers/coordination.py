"""The common part of all group APIs: check that this node coordinates the group.

Registers nothing. All nodes share one `GroupCoordinator`; that only one of them answers for a group is kept up
because clients must learn to find it, and to follow when it stops.
"""

from __future__ import annotations

from datetime import timedelta

from ...errors import CoordinatorNotAvailableError, NotCoordinatorError
from ..context import RequestContext

__all__ = ["check_coordinator", "seconds"]


def check_coordinator(context: RequestContext, key: str) -> None:
    """Raise NotCoordinatorError unless this node coordinates the group (or transactional id)."""
    node = context.state.coordinator_for(key)
    if node is None:
        raise CoordinatorNotAvailableError
    if node.node_id != context.node_id:
        raise NotCoordinatorError


def seconds(value: timedelta) -> float:
    """kio's duration as float seconds."""
    return value.total_seconds()
