"""Consumer groups of KIP-848 in virtual time: joining, reconciling, fencing, static members, expressions, time-outs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker.coordination.classic_group import MemberIdentity
from aiokafkapy.broker.coordination.consumer_group import MemberState
from aiokafkapy.broker.coordination.consumer_group_manager import HeartbeatResult
from aiokafkapy.broker.coordination.group_offsets import CommittedOffset
from aiokafkapy.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    KafkaError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from tests.unit.broker.coordination.consumer_groups import NOTHING, ConsumerGroups

from .callers import A, Groups, error


@pytest.fixture
def groups() -> ConsumerGroups:
    return ConsumerGroups()


# joining and reconciling


def test_the_first_member_gets_everything_at_once(groups: ConsumerGroups) -> None:
    answer = groups.join_new("m")
    assert answer == HeartbeatResult("m", 1, 500, groups.of(0, 1, 2, 3, 4, 5))
    assert groups.group.state.value == "Stable"


def test_an_unchanged_assignment_is_not_sent_again(groups: ConsumerGroups) -> None:
    groups.join_new("m")
    assert groups.beat("m", 1) == HeartbeatResult("m", 1, 500, None)
    full = {"rebalance_timeout": 60.0, "subscribed_topic_names": ["t"], "owned": groups.of(0)}
    assert groups.beat("m", 1, **full).assignment == groups.of(0, 1, 2, 3, 4, 5)


def test_partitions_go_to_the_next_member_when_the_last_one_says_it_gave_them_up(groups: ConsumerGroups) -> None:
    everything = groups.join_new("m").assignment or NOTHING
    assert groups.join_new("n") == HeartbeatResult("n", 2, 500, NOTHING)
    told = groups.beat("m", 1)
    assert (told.member_epoch, len(told.assignment or ())) == (1, 3)
    assert groups.group.members["m"].state is MemberState.UNREVOKED_PARTITIONS
    assert groups.group.state.value == "Reconciling"
    assert groups.beat("n", 2).assignment is None
    assert groups.beat("m", 1, owned=everything).member_epoch == 1
    assert groups.beat("m", 1).member_epoch == 1  # it has not said so
    assert groups.beat("m", 1, owned=told.assignment).member_epoch == 2
    assert groups.beat("n", 2).assignment == everything - (told.assignment or NOTHING)
    assert groups.group.state.value == "Stable"


def test_a_member_that_leaves_makes_room_at_once(groups: ConsumerGroups) -> None:
    groups.join_new("m")
    groups.join_new("n")
    assert groups.beat("m", -1) == HeartbeatResult("m", -1)
    assert groups.group.state.value == "Assigning"
    assert groups.beat("n", 2).assignment == groups.of(0, 1, 2, 3, 4, 5)
    groups.beat("n", -1)
    assert groups.group.state.value == "Empty"


def test_a_member_hears_of_new_partitions_and_of_topics_that_come_and_go(groups: ConsumerGroups) -> None:
    groups.join_new("m", "t", "later")
    groups.topics.add_partitions("t", 8)
    assert len(groups.beat("m", 1).assignment or ()) == 8
    groups.topics.create("later", 2)
    assert len(groups.beat("m", 2).assignment or ()) == 10
    groups.topics.create("unwanted", 1)
    assert groups.beat("m", 3) == HeartbeatResult("m", 3, 500, None)
    left = groups.of(0, 1, topic="later")
    groups.topics.delete("t")
    assert groups.beat("m", 3).assignment == left
    assert groups.beat("m", 3, owned=left).member_epoch == 4


def test_another_subscription_is_another_epoch(groups: ConsumerGroups) -> None:
    groups.topics.create("u", 1)
    groups.join_new("m")
    told = groups.beat("m", 1, subscribed_topic_names=["u"])
    assert (told.member_epoch, told.assignment, groups.group.group_epoch) == (1, NOTHING, 2)
    assert groups.beat("m", 1, owned=NOTHING).assignment == groups.of(0, topic="u")
    groups.beat("m", 2, subscribed_topic_names=["u"])
    assert groups.group.group_epoch == 2


def test_a_member_that_leaves_with_its_topic_is_one_epoch(groups: ConsumerGroups) -> None:
    groups.topics.create("u", 1)
    groups.join_new("m")
    groups.join_new("n", "u")
    groups.beat("n", -1)
    assert groups.group.group_epoch == 3
    assert groups.beat("m", 1).member_epoch == 3
    groups.topics.create("v", 1)
    groups.beat("m", 3)
    assert groups.group.group_epoch == 3


def test_a_member_without_topics_is_a_member(groups: ConsumerGroups) -> None:
    assert groups.join_new("m", subscribed_topic_names=[]) == HeartbeatResult("m", 1, 500, NOTHING)
    assert groups.join_new("n", subscribed_topic_names=[]) == HeartbeatResult("n", 1, 500, NOTHING)


def test_the_assignor_that_most_prefer_is_used(groups: ConsumerGroups) -> None:
    groups.join_new("m")
    assert groups.group.assignor == "uniform"
    groups.join_new("n", server_assignor="range")
    assert groups.group.assignor == "range"


def test_version_0_makes_the_members_id(groups: ConsumerGroups) -> None:
    answer = groups.join_new("", requires_member_id=False)
    assert groups.beat(answer.member_id, 1).member_epoch == 1


# expressions


def test_an_expression_stands_for_topics_that_are_there_and_that_come(groups: ConsumerGroups) -> None:
    groups.topics.create("orders-eu", 2)
    told = groups.join_new("m", subscribed_topic_names=None, subscribed_topic_regex="orders-.*")
    assert told.assignment == groups.of(0, 1, topic="orders-eu")
    assert groups.group.is_subscribed_to("orders-eu")
    groups.topics.create("orders-us", 1)
    assert len(groups.beat("m", 1).assignment or ()) == 3
    groups.beat("m", 2, subscribed_topic_regex="orders-.*")
    assert groups.group.group_epoch == 2
    groups.beat("m", 2, subscribed_topic_regex="", subscribed_topic_names=["t"])
    assert groups.beat("m", 2, owned=NOTHING).assignment == groups.of(0, 1, 2, 3, 4, 5)


def test_an_expression_does_not_stand_for_topics_that_may_not_be_seen(groups: ConsumerGroups) -> None:
    groups.topics.create("secret", 1)
    told = groups.join_new(
        "m", subscribed_topic_names=None, subscribed_topic_regex=".*", may_describe=lambda name: name != "secret"
    )
    assert told.assignment == groups.of(0, 1, 2, 3, 4, 5)


def test_an_invalid_expression_changes_nothing(groups: ConsumerGroups) -> None:
    with pytest.raises(InvalidRegularExpressionError):
        groups.join_new("m", subscribed_topic_names=None, subscribed_topic_regex="(")
    assert groups.coordinator.get("g") is None


# fencing


def test_another_epoch_than_the_members_own_is_fenced(groups: ConsumerGroups) -> None:
    groups.join_new("m")
    with pytest.raises(FencedMemberEpochError, match="greater member epoch \\(2\\)"):
        groups.beat("m", 2)
    groups.topics.add_partitions("t", 7)
    groups.beat("m", 1)
    groups.topics.add_partitions("t", 8)
    groups.beat("m", 2)
    with pytest.raises(FencedMemberEpochError, match="smaller member epoch \\(1\\)"):
        groups.beat("m", 1, owned=NOTHING)


def test_the_epoch_before_is_believed_when_the_answer_may_have_been_lost(groups: ConsumerGroups) -> None:
    groups.join_new("m")
    groups.topics.add_partitions("t", 7)
    groups.beat("m", 1)
    with pytest.raises(FencedMemberEpochError):
        groups.beat("m", 1)  # it may have anything
    assert groups.beat("m", 1, owned=groups.of(0)).member_epoch == 2


@pytest.mark.parametrize(("epoch", "expected"), [(1, GroupIdNotFoundError), (-1, GroupIdNotFoundError)])
def test_a_group_is_made_by_a_member_that_joins(groups: ConsumerGroups, epoch: int, expected: type[KafkaError]) -> None:
    with pytest.raises(expected):
        groups.beat("m", epoch)
    groups.join_new("n")
    with pytest.raises(UnknownMemberIdError):
        groups.beat("m", epoch)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"member_id": ""}, InvalidRequestError),
        ({"group_id": ""}, InvalidRequestError),
        ({"instance_id": ""}, InvalidRequestError),
        ({"rack_id": ""}, InvalidRequestError),
        ({"rebalance_timeout": None}, InvalidRequestError),
        ({"owned": None}, InvalidRequestError),
        ({"subscribed_topic_names": None}, InvalidRequestError),
        ({"member_epoch": -3}, InvalidRequestError),
        ({"member_epoch": -2}, InvalidRequestError),
        ({"server_assignor": "sticky"}, UnsupportedAssignorError),
    ],
)
def test_an_invalid_request_is_refused(
    groups: ConsumerGroups, fields: dict[str, Any], expected: type[KafkaError]
) -> None:
    fields = {"member_id": "m", **fields}
    with pytest.raises(expected):
        groups.join_new(fields.pop("member_id"), **fields)
    with pytest.raises(InvalidRequestError):
        groups.join_new("m", owned=groups.of(0))
    assert groups.coordinator.get("g") is None


def test_a_full_group_takes_nobody() -> None:
    groups = ConsumerGroups(group_consumer_max_size=1)
    groups.join_new("m")
    with pytest.raises(GroupMaxSizeReachedError):
        groups.join_new("n")
    groups.beat("m", 1)


# time-outs


def test_a_member_that_is_not_heard_of_is_removed(groups: ConsumerGroups) -> None:
    groups.join_new("m")
    groups.join_new("n")
    groups.scheduler.advance(44)
    groups.beat("n", 2)
    groups.scheduler.advance(1)
    assert groups.beat("n", 2).assignment == groups.of(0, 1, 2, 3, 4, 5)
    with pytest.raises(UnknownMemberIdError):
        groups.beat("m", 1)


def test_a_member_that_keeps_partitions_too_long_is_removed(groups: ConsumerGroups) -> None:
    everything = groups.join_new("m", rebalance_timeout=20.0).assignment
    groups.join_new("n")
    for _ in range(4):
        groups.beat("m", 1, owned=everything)
        groups.beat("n", 2)
        groups.scheduler.advance(5)
    with pytest.raises(UnknownMemberIdError):
        groups.beat("m", 1, owned=everything)
    assert groups.beat("n", 2).assignment == everything


def test_a_member_that_gave_partitions_up_in_time_stays(groups: ConsumerGroups) -> None:
    groups.join_new("m", rebalance_timeout=20.0)
    groups.join_new("n")
    told = groups.beat("m", 1)
    groups.scheduler.advance(19)
    groups.beat("m", 1, owned=told.assignment)
    groups.scheduler.advance(20)
    assert groups.beat("m", 2).member_epoch == 2


def test_a_group_that_is_closed_leaves_no_timer(groups: ConsumerGroups) -> None:
    groups.join_new("m")
    groups.join_new("n")
    groups.beat("m", 1)
    groups.coordinator.close()
    assert groups.scheduler.pending == 0


# static members


def test_a_static_member_that_comes_back_finds_its_partitions_and_nobody_is_rebalanced(groups: ConsumerGroups) -> None:
    everything = groups.join_new("m", instance_id="i").assignment
    assert groups.beat("m", -2, instance_id="i") == HeartbeatResult("m", -2)
    assert groups.join_new("n", instance_id="i") == HeartbeatResult("n", 1, 500, everything)
    assert groups.group.group_epoch == 1
    with pytest.raises(FencedInstanceIdError):
        groups.beat("m", 1, instance_id="i")
    with pytest.raises(UnknownMemberIdError):
        groups.beat("m", 1)


def test_a_static_member_that_is_there_is_not_replaced(groups: ConsumerGroups) -> None:
    groups.join_new("m", instance_id="i")
    with pytest.raises(UnreleasedInstanceIdError):
        groups.join_new("n", instance_id="i")
    with pytest.raises(UnknownMemberIdError):
        groups.beat("m", 1, instance_id="j")
    groups.beat("m", -1, instance_id="i")
    assert groups.join_new("n", instance_id="i").member_epoch == 3


def test_a_member_may_take_an_instance_id_and_give_it_another(groups: ConsumerGroups) -> None:
    groups.join_new("m")
    groups.join_new("m", instance_id="i")
    groups.join_new("m", instance_id="j")
    assert groups.group.static_members == {"j": "m"}
    assert groups.owned_by("m") == 6
    groups.beat("m", -1, instance_id="j")
    assert list(groups.group.owners()) == []


def test_a_static_member_that_takes_the_id_of_another_member_puts_it_out(groups: ConsumerGroups) -> None:
    groups.join_new("m", instance_id="i")
    groups.join_new("n")
    groups.beat("m", -2, instance_id="i")
    assert groups.join_new("n", instance_id="i").member_epoch == 3
    assert list(groups.group.members) == ["n"]
    assert groups.owned_by("n") == 6


def test_a_static_member_that_stays_away_is_removed(groups: ConsumerGroups) -> None:
    groups.join_new("m", instance_id="i")
    groups.beat("m", -2, instance_id="i")
    groups.join_new("n")
    groups.scheduler.advance(44)
    assert groups.beat("n", 2).assignment is None
    groups.scheduler.advance(1)
    assert len(groups.beat("n", 2).assignment or ()) == 6


# offsets


def test_members_commit_in_their_epoch_only(groups: ConsumerGroups) -> None:
    groups.join_new("m")
    groups.commit(7, member_id="m", generation_id=1)
    assert groups.coordinator.offsets.get("g") == {A: CommittedOffset(7)}
    for identity, expected in (
        ({"member_id": "m", "generation_id": 2}, StaleMemberEpochError),
        ({"member_id": "n", "generation_id": 1}, UnknownMemberIdError),
        ({}, UnknownMemberIdError),
    ):
        with pytest.raises(expected):
            groups.commit(8, **identity)
    me = MemberIdentity("g", "m", None, 1)
    with pytest.raises(UnsupportedVersionError):
        groups.coordinator.commit(me, {}, knows_member_epochs=False)
    groups.coordinator.commit_in_transaction(me, 5, {A: CommittedOffset(9)})
    with pytest.raises(IllegalGenerationError):
        groups.coordinator.commit_in_transaction(MemberIdentity("g", "m", None, 2), 5, {})
    groups.beat("m", -1)
    groups.commit(10)


def test_offsets_are_asked_for_in_the_members_epoch_or_by_nobody(groups: ConsumerGroups) -> None:
    groups.join_new("m")
    groups.group.check_fetch(None, -1)
    groups.group.check_fetch("m", 1)
    with pytest.raises(StaleMemberEpochError):
        groups.group.check_fetch("m", 0)
    with pytest.raises(UnknownMemberIdError):
        groups.group.check_fetch("n", -1)


# groups of both protocols


def test_an_empty_group_changes_its_protocol_and_keeps_its_offsets(groups: ConsumerGroups) -> None:
    groups.commit(3)
    groups.join_new("m")
    assert error(groups.join(protocol_type="connect")) == InconsistentGroupProtocolError.__name__
    groups.beat("m", -1)
    Groups.join(groups)
    with pytest.raises(GroupIdNotFoundError, match="Cannot upgrade classic group g"):
        groups.join_new("m")
    assert groups.coordinator.offsets.get("g") == {A: CommittedOffset(3)}


def test_requests_of_the_classic_protocol_know_no_consumer_group(groups: ConsumerGroups) -> None:
    groups.join_new("m")
    with pytest.raises(UnknownMemberIdError):
        groups.coordinator.heartbeat(MemberIdentity("g", "m", None, 1))
    with pytest.raises(UnknownMemberIdError):
        groups.leave("g", "nobody")
    with pytest.raises(NonEmptyGroupError):
        groups.coordinator.delete("g")
    groups.beat("m", -1)
    groups.coordinator.delete("g")
    assert groups.coordinator.get("g") is None


def test_after_a_restart_it_is_a_consumer_group_without_members(tmp_path: Path) -> None:
    groups = ConsumerGroups(data_dir=tmp_path)
    groups.join_new("m")
    groups.join_new("m", group_id="deleted")
    groups.beat("m", -1, group_id="deleted")
    groups.coordinator.delete("deleted")
    groups.coordinator.close()
    groups = ConsumerGroups(data_dir=tmp_path)
    assert [group.group_id for group in groups.coordinator] == ["g"]
    with pytest.raises(UnknownMemberIdError):
        groups.beat("m", 1)
    assert groups.join_new("m").member_epoch == 1
    groups.beat("m", -1)
    Groups.join(groups)
    groups.coordinator.close()
    groups = ConsumerGroups(data_dir=tmp_path)
    assert groups.coordinator.get("g") is None  # a classic one without offsets


# without a coordinator, and with a new one


def test_without_a_coordinator_no_session_ends_and_a_new_one_begins_them_anew(groups: ConsumerGroups) -> None:
    groups.join_new("a")
    groups.scheduler.advance(44)
    groups.coordinator.pause("g")
    groups.scheduler.advance(1_000)
    groups.coordinator.begin_sessions("g")
    groups.scheduler.advance(44)
    assert list(groups.group.members) == ["a"]
    groups.scheduler.advance(1)
    assert groups.group.is_empty


def test_a_member_has_its_whole_time_again_to_give_partitions_up(groups: ConsumerGroups) -> None:
    groups.join_new("a")
    groups.join_new("b")
    told = groups.beat("a", 1)
    assert groups.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    groups.scheduler.advance(30)
    groups.coordinator.pause("g")
    groups.scheduler.advance(1_000)
    groups.coordinator.begin_sessions("g")
    for _ in range(2):
        groups.scheduler.advance(29)
        groups.beat("a", told.member_epoch)
        groups.beat("b", groups.group.members["b"].member_epoch)
    groups.scheduler.advance(2)
    assert list(groups.group.members) == ["b"]
