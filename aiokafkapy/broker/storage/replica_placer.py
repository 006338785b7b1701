"""Places the replicas of new partitions on nodes, and refuses requests for partitions that cannot be placed.

Pure, and knows no topic. Kafka's counterparts are ``StripedReplicaPlacer`` and the checks of
``ReplicationControlManager``, with its messages.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final, TypeAlias

from ...errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    PolicyViolationError,
)

__all__ = [
    "MAX_PARTITIONS_PER_REQUEST",
    "MAX_PARTITIONS_PER_TOPIC",
    "Assignments",
    "check_new_partitions",
    "checked_assignments",
    "place_replicas",
]

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""The limit of Kafka's controller: a few bytes ask for many partitions, and each costs a kilobyte."""
MAX_PARTITIONS_PER_TOPIC: Final = 100_000
"""More is a typing error, and would fill a laptop's memory."""

Assignments: TypeAlias = Mapping[int, Sequence[int]]
"""Node ids by partition."""


def check_new_partitions(count: int) -> None:
    """PolicyViolationError when a request adds more partitions than ``MAX_PARTITIONS_PER_REQUEST``."""
    if count > MAX_PARTITIONS_PER_REQUEST:
        raise PolicyViolationError("Excessively large number of partitions per request.")


def place_replicas(
    first: int, count: int, replication_factor: int, running: Sequence[int], stopped: Sequence[int] = ()
) -> dict[int, tuple[int, ...]]:
    """Deal out the partitions from ``first`` on to the running nodes in turn, each to ``replication_factor`` of them.
    If fewer run, stopped nodes get replicas too, which are not in sync.

    Raises InvalidPartitionsError, InvalidReplicationFactorError.
    """
    if count <= 0:
        raise InvalidPartitionsError("Number of partitions was set to an invalid non-positive value.")
    if first + count > MAX_PARTITIONS_PER_TOPIC:
        raise InvalidPartitionsError(f"This broker keeps {MAX_PARTITIONS_PER_TOPIC} partitions per topic at most.")
    if replication_factor <= 0:
        raise InvalidReplicationFactorError("Replication factor must be larger than 0, or -1 to use the default value.")
    if not running:
        raise InvalidReplicationFactorError("All brokers are currently fenced.")
    if replication_factor > len(running) + len(stopped):
        raise InvalidReplicationFactorError(
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(running) + len(stopped)} broker(s) are "
            f"registered."
        )
    return {
        index: (*_turned(running, index), *_turned(stopped, index))[:replication_factor]
        for index in range(first, first + count)
    }


def _turned(nodes: Sequence[int], first: int) -> tuple[int, ...]:
    return tuple(nodes[(first + step) % len(nodes)] for step in range(len(nodes)))


def checked_assignments(
    first: int, assignments: Assignments, node_ids: Sequence[int], running: Container[int]
) -> dict[int, tuple[int, ...]]:
    """The assignments that a request names, by ascending partition; one node of each runs, so that it can lead.

    Raises InvalidReplicaAssignmentError.
    """
    if sorted(assignments) != list(range(first, first + len(assignments))):
        raise InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence")
    sizes = {len(nodes) for nodes in assignments.values()}
    for index, nodes in assignments.items():
        if not nodes or len(set(nodes)) != len(nodes) or len(sizes) != 1:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment {list(nodes)} of partition {index} is empty, names a node twice, "
                f"or has another replication factor than the others."
            )
        unknown = [node_id for node_id in nodes if node_id not in node_ids]
        if unknown:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
            )
        if not any(node_id in running for node_id in nodes):
            raise InvalidReplicaAssignmentError(
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                f"controlled shutdown."
            )
    return {index: tuple(assignments[index]) for index in sorted(assignments)}
