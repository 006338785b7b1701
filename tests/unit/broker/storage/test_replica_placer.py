"""The nodes that get new partitions; the refusals that a client meets are tested with ``topics``."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.storage.replica_placer import (
    MAX_PARTITIONS_PER_REQUEST,
    check_new_partitions,
    checked_assignments,
    place_replicas,
)
from aiokafkapy.errors import InvalidReplicaAssignmentError, InvalidReplicationFactorError, PolicyViolationError


def test_partitions_go_round_the_running_nodes_from_any_first_one() -> None:
    assert place_replicas(0, 3, 2, [1, 2, 5]) == {0: (1, 2), 1: (2, 5), 2: (5, 1)}
    assert place_replicas(4, 2, 1, [1, 2, 5]) == {4: (2,), 5: (5,)}


def test_stopped_nodes_get_the_replicas_that_are_left() -> None:
    assert place_replicas(0, 2, 2, [1, 2], [3, 5]) == {0: (1, 2), 1: (2, 1)}
    assert place_replicas(0, 2, 3, [1, 2], [3, 5]) == {0: (1, 2, 3), 1: (2, 1, 5)}
    with pytest.raises(InvalidReplicationFactorError, match="only 4"):
        place_replicas(0, 1, 5, [1, 2], [3, 5])
    with pytest.raises(InvalidReplicationFactorError, match="fenced"):
        place_replicas(0, 1, 1, [], [1, 2])


def test_assignments_are_taken_as_they_are_in_the_order_of_partitions() -> None:
    assert checked_assignments(3, {4: [2, 1], 3: [1, 2]}, (1, 2), {2}) == {3: (1, 2), 4: (2, 1)}
    with pytest.raises(InvalidReplicaAssignmentError, match="includes broker 7"):
        checked_assignments(0, {0: [7]}, (1, 2), {1, 2})
    with pytest.raises(InvalidReplicaAssignmentError, match="for partition 1 are fenced"):
        checked_assignments(0, {0: [2], 1: [1]}, (1, 2), {2})


def test_a_request_adds_so_many_partitions_and_no_more() -> None:
    check_new_partitions(MAX_PARTITIONS_PER_REQUEST)
    with pytest.raises(PolicyViolationError):
        check_new_partitions(MAX_PARTITIONS_PER_REQUEST + 1)
