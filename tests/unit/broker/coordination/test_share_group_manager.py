"""Share groups in virtual time: members, epochs, shared partitions, and groups of other kinds (KIP-932)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker.coordination.assignors import Assignment, TopicIdPartition
from aiokafkapy.broker.coordination.classic_group import MemberIdentity
from aiokafkapy.broker.coordination.consumer_group_manager import ConsumerGroupHeartbeat, HeartbeatResult
from aiokafkapy.broker.coordination.group_offsets import CommittedOffset
from aiokafkapy.broker.coordination.share_group import ShareGroup
from aiokafkapy.broker.coordination.share_group_manager import ShareGroupHeartbeat
from aiokafkapy.errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    NonEmptyGroupError,
    UnknownMemberIdError,
)

from .callers import A, Groups, error


class ShareGroups(Groups):
    def __init__(self, partitions: int = 3, **config: Any) -> None:
        super().__init__(**config)
        if "t" not in self.topics:
            self.topics.create("t", partitions)

    @property
    def group(self) -> ShareGroup:
        found = self.coordinator.get("g")
        assert isinstance(found, ShareGroup)
        return found

    def beat(self, member: str, epoch: int, /, *topics: str, **fields: Any) -> HeartbeatResult:
        request: dict[str, Any] = {"group_id": "g", "member_id": member, "member_epoch": epoch}
        request |= {"subscribed_topic_names": topics or None}
        return self.coordinator.share_groups.heartbeat(ShareGroupHeartbeat(**{**request, **fields}))

    def of(self, *partitions: int, topic: str = "t") -> Assignment:
        found = self.topics.get(topic)
        assert found is not None
        return frozenset(TopicIdPartition(found.topic_id, each) for each in partitions)


@pytest.fixture
def groups() -> ShareGroups:
    return ShareGroups()


def test_the_first_member_gets_everything_at_once(groups: ShareGroups) -> None:
    assert groups.beat("m", 0, "t") == HeartbeatResult("m", 1, 500, groups.of(0, 1, 2))
    assert groups.beat("m", 1) == HeartbeatResult("m", 1, 500, None)
    assert groups.beat("m", 1, "t").assignment == groups.of(0, 1, 2)
    assert groups.group.state.value == "Stable"


def test_the_second_gets_its_part_at_once_and_the_first_hears_of_it_later(groups: ShareGroups) -> None:
    groups.beat("m", 0, "t")
    second = groups.beat("n", 0, "t")
    assert (second.member_epoch, len(second.assignment or ())) == (2, 1)
    first = groups.beat("m", 1)
    assert (first.member_epoch, len(first.assignment or ())) == (2, 2)
    assert (first.assignment or frozenset()) | (second.assignment or frozenset()) == groups.of(0, 1, 2)


@pytest.mark.parametrize("members", [1, 2, 3, 4, 5, 7])
def test_every_partition_has_a_member_and_every_member_a_partition(members: int) -> None:
    groups = ShareGroups(partitions=3)
    for number in range(members):
        groups.beat(f"m{number}", 0, "t")
    target = list(groups.group.target.values())
    sizes = [len(each) for each in target]
    assert frozenset().union(*target) == groups.of(0, 1, 2)
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    sharing = [sum(partition in each for each in target) for partition in groups.of(0, 1, 2)]
    assert set(sharing) == {-(-members // 3)}


def test_members_keep_their_partitions_when_others_come(groups: ShareGroups) -> None:
    for name in "abc":
        groups.beat(name, 0, "t")
    before = dict(groups.group.target)
    groups.beat("d", 0, "t")
    assert all(before[name] <= groups.group.target[name] for name in "abc")


def test_members_of_different_topics_get_their_own(groups: ShareGroups) -> None:
    groups.topics.create("u", 1)
    groups.beat("m", 0, "t", "none")
    groups.beat("n", 0, "t", "u")
    target = groups.group.target
    assert groups.of(0, topic="u") <= target["n"]
    assert not target["m"] & groups.of(0, topic="u")
    assert (target["m"] | target["n"]) >= groups.of(0, 1, 2)


def test_a_member_hears_of_a_topic_that_is_made_later_and_of_partitions(groups: ShareGroups) -> None:
    assert groups.beat("m", 0, "later").assignment == frozenset()
    groups.topics.create("later", 1)
    assert groups.beat("m", 1) == HeartbeatResult("m", 2, 500, groups.of(0, topic="later"))
    groups.topics.add_partitions("later", 2)
    assert groups.beat("m", 2).assignment == groups.of(0, 1, topic="later")


def test_another_epoch_is_fenced_but_the_one_before_is_believed(groups: ShareGroups) -> None:
    groups.beat("m", 0, "t")
    groups.beat("n", 0, "t")
    groups.beat("m", 1)
    assert groups.beat("m", 1).member_epoch == 2
    with pytest.raises(FencedMemberEpochError, match=r"greater member epoch \(3\) than .* \(2\)"):
        groups.beat("m", 3)
    groups.beat("n", 2, "t", "u")
    groups.beat("m", 2)
    with pytest.raises(FencedMemberEpochError, match=r"smaller member epoch \(1\) .* \(3\), .* epoch \(2\)"):
        groups.beat("m", 1)


def test_members_leave_and_are_forgotten_without_heartbeats(groups: ShareGroups) -> None:
    groups.beat("m", 0, "t")
    groups.beat("n", 0, "t")
    assert groups.beat("m", -1) == HeartbeatResult("m", -1)
    with pytest.raises(UnknownMemberIdError, match="Member m is not a member of group g"):
        groups.beat("m", 1)
    groups.scheduler.advance(44.9)
    assert list(groups.group.members) == ["n"]
    groups.scheduler.advance(0.2)
    assert groups.group.state.value == "Empty"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"subscribed_topic_names": None}, "SubscribedTopicNames must be set in first request."),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
    ],
)
def test_an_invalid_heartbeat_changes_nothing(groups: ShareGroups, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        groups.beat("m", 0, **{"subscribed_topic_names": ["t"], **changes})
    assert groups.coordinator.get("g") is None


def test_a_full_group_takes_nobody_else() -> None:
    groups = ShareGroups(group_share_max_size=1)
    groups.beat("m", 0, "t")
    with pytest.raises(GroupMaxSizeReachedError, match="maximum capacity of 1 members"):
        groups.beat("n", 0, "t")
    groups.beat("m", 0, "t")


def test_a_group_that_there_is_not_is_not_found(groups: ShareGroups) -> None:
    with pytest.raises(GroupIdNotFoundError, match="Share group g not found"):
        groups.beat("m", 1)
    with pytest.raises(GroupIdNotFoundError, match=r"^Group g not found"):
        groups.beat("m", -1)


def test_a_share_group_is_not_a_group_of_another_kind(groups: ShareGroups) -> None:
    groups.beat("m", 0, "t")
    groups.beat("m", -1)
    fields: dict[str, Any] = {"rebalance_timeout": 60.0, "subscribed_topic_names": ["t"], "owned": frozenset()}
    with pytest.raises(GroupIdNotFoundError, match="Group g is not a consumer group"):
        groups.coordinator.consumer_groups.heartbeat(
            ConsumerGroupHeartbeat(group_id="g", member_id="n", member_epoch=0, **fields)
        )
    assert error(groups.join()) == "InconsistentGroupProtocolError"
    with pytest.raises(GroupIdNotFoundError, match="Group g is not a consumer group"):
        groups.commit()
    with pytest.raises(GroupIdNotFoundError, match="Group g is not a consumer group"):
        groups.coordinator.commit_in_transaction(MemberIdentity("g", ""), 1, {A: CommittedOffset(1)})


def test_a_group_of_another_kind_is_not_a_share_group(groups: ShareGroups) -> None:
    groups.alone()
    with pytest.raises(GroupIdNotFoundError, match="Group g is not a share group"):
        groups.beat("m", 0, "t")


def test_a_group_with_members_is_not_deleted_and_one_without_is_forgotten(groups: ShareGroups) -> None:
    groups.beat("m", 0, "t")
    with pytest.raises(NonEmptyGroupError):
        groups.coordinator.delete("g")
    groups.beat("m", -1)
    groups.coordinator.delete("g")
    assert groups.coordinator.get("g") is None
    assert groups.coordinator.share_partitions.groups() == []


def test_a_share_group_does_not_expire(groups: ShareGroups) -> None:
    groups.beat("m", 0, "t")
    groups.beat("m", -1)
    groups.coordinator.expire(0)
    groups.coordinator.expire(10**15)
    assert groups.group.is_empty


def test_groups_survive_a_restart_without_their_members(tmp_path: Path) -> None:
    groups = ShareGroups(data_dir=tmp_path)
    groups.beat("m", 0, "t")
    groups.coordinator.close()
    again = ShareGroups(data_dir=tmp_path)
    assert again.group.state.value == "Empty"
    assert again.beat("m", 0, "t").member_epoch == 1


def test_an_option_of_the_group_is_its_members_interval_and_time_out(groups: ShareGroups) -> None:
    options = {"share.heartbeat.interval.ms": "1000", "share.session.timeout.ms": "2000"}
    groups.coordinator.configs.alter("g", options)
    assert groups.beat("m", 0, "t").heartbeat_interval_ms == 1000
    groups.scheduler.advance(2.1)
    assert groups.group.is_empty


def test_without_a_coordinator_no_session_ends_and_a_new_one_begins_them_anew(groups: ShareGroups) -> None:
    groups.beat("m", 0, "t")
    groups.scheduler.advance(44)
    groups.coordinator.pause("g")
    groups.scheduler.advance(1_000)
    groups.coordinator.begin_sessions("g")
    groups.scheduler.advance(44)
    assert list(groups.group.members) == ["m"]
    groups.scheduler.advance(1)
    assert groups.group.is_empty
