"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments: the replicas of partitions."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey

from ..support import topic_of
from .group_requests import versions
from .harness import Harness

UNKNOWN, PREFERRED_NOT_AVAILABLE, ELIGIBLE_NOT_AVAILABLE, NOT_NEEDED, NO_REASSIGNMENT = 3, 80, 83, 84, 85


def elect(harness: Harness, *places: tuple[str, int], version: int = 2, election_type: int = 0) -> Any:
    wanted = [{"topic": name, "partitions": [index]} for name, index in places] or None
    body = harness.call(ApiKey.ELECT_LEADERS, version, election_type=election_type, topic_partitions=wanted)
    return {
        (topic.topic, each.partition_id): int(each.error_code)
        for topic in body.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.parametrize("version", versions(ApiKey.ELECT_LEADERS))
async def test_the_preferred_replica_leads_again(harness: Harness, version: int) -> None:
    harness.topics.set_leader("t", 0, 3)
    assert elect(harness, ("t", 0), ("t", 1), ("t", 7), ("no", 0), version=version) == {
        ("t", 0): 0,
        ("t", 1): NOT_NEEDED,
        ("t", 7): UNKNOWN,
        ("no", 0): UNKNOWN,
    }
    partition = topic_of(harness.topics).partitions[0]
    assert (partition.leader, partition.leader_epoch) == (1, 2)


async def test_only_partitions_that_needed_an_election_are_answered(harness: Harness) -> None:
    harness.topics.set_leader("t", 1, 1)
    assert elect(harness) == {("t", 1): 0}
    assert elect(harness) == {}


async def test_a_partition_without_a_leader_gets_one(harness: Harness) -> None:
    harness.topics.set_leader("t", 0, None)
    del harness.state.running_nodes[1]
    assert elect(harness, ("t", 0)) == {("t", 0): PREFERRED_NOT_AVAILABLE}
    assert elect(harness, ("t", 0), election_type=1) == {("t", 0): 0}
    assert topic_of(harness.topics).partitions[0].leader == 2
    assert elect(harness, ("t", 0), election_type=1) == {("t", 0): NOT_NEEDED}
    harness.topics.set_leader("t", 0, None)
    harness.state.running_nodes.clear()
    assert elect(harness, ("t", 0), election_type=1) == {("t", 0): ELIGIBLE_NOT_AVAILABLE}


async def test_an_election_of_no_kind_is_refused(harness: Harness) -> None:
    body = harness.call(ApiKey.ELECT_LEADERS, 2, election_type=5, topic_partitions=None)
    assert body.error_code == 42


def reassign(harness: Harness, replicas: Any, index: int = 0, version: int = 1, **fields: Any) -> tuple[int, Any]:
    topics = [{"name": "t", "partitions": [{"partition_index": index, "replicas": replicas}]}]
    body = harness.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, topics=topics, **fields)
    (answer,) = body.responses[0].partitions
    return int(answer.error_code), answer.error_message


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_PARTITION_REASSIGNMENTS))
async def test_replicas_are_others_at_once(harness: Harness, version: int) -> None:
    told: list[Any] = []
    harness.topics.on_change = told.append
    assert reassign(harness, [3, 2], version=version, allow_replication_factor_change=True) == (0, None)
    partition = topic_of(harness.topics).partitions[0]
    assert (partition.replicas, partition.leader, told) == ((3, 2), 3, [partition])
    assert reassign(harness, [2, 3], version=version, allow_replication_factor_change=True) == (0, None)
    assert (partition.replicas, partition.leader) == ((2, 3), 3)
    body = harness.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None)
    assert (body.error_code, body.topics) == (0, ())


async def test_an_invalid_reassignment_changes_nothing(harness: Harness) -> None:
    allowed = {"allow_replication_factor_change": True}
    for replicas in ([], [1, 1], [9]):
        assert reassign(harness, replicas, **allowed)[0] == 39
    assert reassign(harness, [1], index=9, **allowed)[0] == UNKNOWN
    assert reassign(harness, None, **allowed)[0] == NO_REASSIGNMENT
    assert reassign(harness, [1], allow_replication_factor_change=False)[0] == 38
    assert topic_of(harness.topics).partitions[0].replicas == (1, 2, 3)
