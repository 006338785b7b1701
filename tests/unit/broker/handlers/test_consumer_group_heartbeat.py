"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, and other APIs' answers about a consumer group (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.broker.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from aiokafkapy.broker.security.authorizer import Authorizer
from aiokafkapy.protocol.api import ApiKey
from tests.embedded_protocol import subscription

from ..support import topic_of
from .group_requests import call, versions
from .harness import Harness, OpenHarness

TOPIC, GROUP, GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION = 29, 30, 69, 35


def beat(harness: Harness, epoch: int = 0, version: int = 1, **fields: Any) -> Any:
    whole: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": epoch, "topic_partitions": None}
    if epoch == 0:
        whole |= {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return call(harness, ApiKey.CONSUMER_GROUP_HEARTBEAT, version, **{**whole, **fields})


def describe(harness: Harness, version: int = 1, **fields: Any) -> Any:
    return call(harness, ApiKey.CONSUMER_GROUP_DESCRIBE, version, group_ids=["g"], **fields).groups[0]


def allow(harness: Harness, *rights: tuple[Operation, ResourceType, str]) -> None:
    """Give these rights and no others."""
    harness.state.authorizer = Authorizer(
        bindings=[
            AclBinding(kind, name, PatternType.LITERAL, harness.connection.principal, "*", operation, Permission.ALLOW)
            for operation, kind, name in rights
        ]
    )


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_HEARTBEAT))
async def test_a_member_joins_lives_and_leaves_in_every_version(harness: Harness, version: int) -> None:
    answer = beat(harness, version=version, member_id="" if version == 0 else "m")
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval.total_seconds()) == (0, 1, 0.5)
    (assigned,) = answer.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (topic_of(harness.topics).topic_id, (0, 1))
    member_id = answer.member_id
    again = beat(harness, 1, version, member_id=member_id)
    assert (again.error_code, again.assignment) == (0, None)
    assert beat(harness, -1, version, member_id=member_id).member_epoch == -1
    unknown = beat(harness, 1, version, member_id=member_id)
    assert (unknown.error_code, unknown.error_message) == (25, f"Member {member_id} is not a member of group g.")


async def test_an_expression_comes_with_version_1(harness: Harness) -> None:
    fields: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "[s-u]"}
    assert beat(harness, **fields).assignment.topic_partitions[0].partitions == (0, 1)
    assert describe(harness).members[0].subscribed_topic_regex == "[s-u]"
    assert beat(harness, version=0, **fields).error_code == 42


async def test_only_the_coordinator_answers(harness: Harness) -> None:
    other = harness.coordinator_id("g") % 3 + 1
    fields = {"group_id": "g", "member_id": "m", "member_epoch": 1}
    assert harness.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, node_id=other, **fields).error_code == 16


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_DESCRIBE))
async def test_a_group_is_described_in_every_version(harness: Harness, version: int) -> None:
    beat(harness, instance_id="i", rack_id="r")
    group = describe(harness, version, include_authorized_operations=True)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 1, 1)
    assert (group.assignor_name, group.authorized_operations) == ("uniform", 0b110101001000)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 1)
    assert (member.client_id, member.client_host, member.subscribed_topic_names) == ("client", "/127.0.0.1", ("t",))
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == ("t", (0, 1))
    assert member.target_assignment == member.assignment
    assert getattr(member, "member_type", 1) == 1
    harness.topics.delete("t")
    assert describe(harness, version).members[0].assignment.topic_partitions == ()


async def test_a_classic_member_is_described_as_one(harness: Harness) -> None:
    beat(harness)
    protocols = [{"name": "range", "metadata": subscription("t", rack_id="r")}]
    timeouts = {"session_timeout": 10_000, "rebalance_timeout": 10_000}
    me = {"group_id": "g", "member_id": "c", "protocol_type": "consumer", "protocols": protocols}
    joined = call(harness, ApiKey.JOIN_GROUP, 7, **me, **timeouts)
    assert (joined.error_code, joined.member_id, joined.generation_id, joined.leader) == (0, "c", 2, "")
    members = describe(harness).members
    assert [(each.member_id, each.member_type, each.rack_id) for each in members] == [("m", 1, None), ("c", 0, "r")]


async def test_other_groups_are_not_described(harness: Harness) -> None:
    absent = describe(harness)
    assert (absent.error_code, absent.error_message) == (GROUP_ID_NOT_FOUND, "Group g not found.")
    call(harness, ApiKey.OFFSET_COMMIT, 8, group_id="g", topics=[])
    classic = describe(harness)
    assert (classic.error_code, classic.error_message) == (GROUP_ID_NOT_FOUND, "Group g is not a consumer group.")


async def test_other_apis_know_its_kind(harness: Harness) -> None:
    beat(harness)
    for version, expected in ((5, 0), (6, GROUP_ID_NOT_FOUND)):
        (classic,) = call(harness, ApiKey.DESCRIBE_GROUPS, version, groups=["g"]).groups
        assert (classic.error_code, classic.group_state) == (expected, "Dead")
    for types, count in ((["consumer"], 1), (["classic"], 0), ([], 1)):
        groups = call(harness, ApiKey.LIST_GROUPS, 5, types_filter=types).groups
        assert [(each.group_id, each.protocol_type, each.group_type) for each in groups] == [
            ("g", "consumer", "consumer")
        ] * count


async def test_offsets_are_committed_and_fetched_with_the_members_epoch(harness: Harness) -> None:
    beat(harness)
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]

    def commit(version: int, epoch: int) -> int:
        me = {"group_id": "g", "member_id": "m", "generation_id_or_member_epoch": epoch}
        body = call(harness, ApiKey.OFFSET_COMMIT, version, **me, topics=topics)
        return int(body.topics[0].partitions[0].error_code)

    def fetch(epoch: int) -> int:
        wanted = {"group_id": "g", "member_id": "m", "member_epoch": epoch, "topics": None}
        return int(call(harness, ApiKey.OFFSET_FETCH, 9, groups=[wanted]).groups[0].error_code)

    assert [commit(8, 1), commit(9, 2), commit(9, 1)] == [UNSUPPORTED_VERSION, 113, 0]
    assert [fetch(1), fetch(2)] == [0, 113]

    def delete(topic: str) -> int:
        partitions = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        body = call(harness, ApiKey.OFFSET_DELETE, 0, group_id="g", topics=partitions)
        return int(body.topics[0].partitions[0].error_code)

    harness.topics.create("u", 1)
    assert [delete("t"), delete("u")] == [86, 0]


async def test_without_the_feature_there_are_no_consumer_groups(open_harness: OpenHarness) -> None:
    harness = open_harness(group_version=0)
    assert beat(harness).error_code == UNSUPPORTED_VERSION
    assert describe(harness).error_code == UNSUPPORTED_VERSION
    software: dict[str, Any] = {"client_software_name": "a", "client_software_version": "1"}
    told = harness.call(ApiKey.API_VERSIONS, 4, **software)
    assert "group.version" not in [each.name for each in told.finalized_features]
    told = open_harness().call(ApiKey.API_VERSIONS, 4, **software)
    assert ("group.version", 1) in [(each.name, each.max_version_level) for each in told.finalized_features]


async def test_a_member_needs_the_group_and_its_topics_and_sees_no_others(harness: Harness) -> None:
    harness.topics.create("secret", 1)
    allow(harness)
    assert beat(harness).error_code == GROUP
    allow(harness, (Operation.READ, ResourceType.GROUP, "g"))
    assert beat(harness).error_code == TOPIC
    assert harness.state.groups.get("g") is None
    read_t = (Operation.READ, ResourceType.TOPIC, "t")
    allow(harness, (Operation.READ, ResourceType.GROUP, "g"), read_t)
    answer = beat(harness, subscribed_topic_names=None, subscribed_topic_regex=".*")
    assert [each.topic_id for each in answer.assignment.topic_partitions] == [topic_of(harness.topics).topic_id]
    beat(harness, 1, subscribed_topic_names=["t"])
    assert describe(harness).error_code == 0
    allow(harness, (Operation.READ, ResourceType.GROUP, "g"))
    refused = describe(harness)
    assert (refused.error_code, refused.members) == (TOPIC, ())
    allow(harness)
    assert describe(harness).error_code == GROUP
