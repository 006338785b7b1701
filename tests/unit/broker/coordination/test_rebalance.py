"""Rebalances: members that join, wait, are dropped or leave, each in its time."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.broker.coordination.classic_group import (
    ClassicGroupState,
    MemberIdentity,
)
from aiokafkapy.errors import (
    InvalidGroupIdError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

from .callers import REBALANCE, SESSION, Groups, error


def test_a_second_member_waits_until_the_first_has_joined_again(groups: Groups) -> None:
    first = groups.alone()
    second = groups.join()
    assert not second
    with pytest.raises(RebalanceInProgressError):
        groups.heartbeat(first)
    (again,) = groups.join(first.member_id)
    assert again.generation_id == second[0].generation_id == 2
    assert {each.member_id for each in again.members} == {first.member_id, second[0].member_id}
    assert second[0].members == ()
    assert second[0].leader == first.member_id


def test_an_id_given_out_holds_the_group_up_until_it_is_used_or_its_time_is_over(groups: Groups) -> None:
    groups.join(requires_known_member_id=True)
    waiting = groups.join()
    assert not waiting
    groups.scheduler.advance(SESSION)
    assert waiting[0].error_code == 0
    assert not groups.group.pending_members


def test_the_initial_delay_gathers_all_members_that_come(groups: Groups) -> None:
    groups = Groups(group_initial_rebalance_delay_ms=3_000)
    first = groups.join()
    groups.scheduler.advance(2)
    second = groups.join()
    groups.scheduler.advance(2.9)
    assert not first
    groups.scheduler.advance(3.1)
    assert first[0].generation_id == second[0].generation_id == 1
    assert len(first[0].members) == 2


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    groups = Groups(group_initial_rebalance_delay_ms=3_000)
    first = groups.join(rebalance_timeout=10.0)
    for _ in range(4):
        groups.scheduler.advance(2.5)
        groups.join(rebalance_timeout=10.0)
    assert len(first) == 1


def test_a_member_that_does_not_join_again_in_time_is_dropped(groups: Groups) -> None:
    first = groups.alone()
    second = groups.join()
    for _ in range(11):
        groups.scheduler.advance(5)
        with pytest.raises(RebalanceInProgressError):
            groups.heartbeat(first)
    assert not second
    groups.scheduler.advance(5)
    assert second[0].leader == second[0].member_id
    with pytest.raises(UnknownMemberIdError):
        groups.heartbeat(first)


def test_members_wait_for_the_leaders_assignment(groups: Groups) -> None:
    groups.pair()


def test_a_member_that_waits_for_a_sync_is_told_when_another_one_joins(groups: Groups) -> None:
    leader, follower = groups.pair()
    joins = [groups.join(leader.member_id), groups.join(follower.member_id)]
    waiting = groups.sync(joins[1][0])
    groups.join()
    assert error(waiting) == "RebalanceInProgressError"


def test_a_member_that_does_not_sync_in_time_is_dropped(groups: Groups) -> None:
    leader, follower = groups.pair()
    (joined,) = [*groups.join(leader.member_id), *groups.join(follower.member_id)][-1:]
    waiting = groups.sync(joined)
    for _ in range(int(REBALANCE // 5)):
        assert not waiting
        try:
            groups.coordinator.heartbeat(MemberIdentity("g", leader.member_id, None, joined.generation_id))
        except UnknownMemberIdError:
            break
        groups.scheduler.advance(5)
    assert error(waiting) == "RebalanceInProgressError"
    assert list(groups.group.members) == [follower.member_id]


def test_the_time_to_sync_of_one_generation_drops_nobody_of_the_next(groups: Groups) -> None:
    session: dict[str, Any] = {"session_timeout": 2 * REBALANCE}
    leader = groups.alone(**session)
    second = groups.join(**session)
    assert groups.sync(groups.join(leader.member_id, **session)[0])
    assert groups.group.pending_sync == {second[0].member_id}
    groups.scheduler.advance(REBALANCE - 1)
    groups.join(**session)
    for member in (leader, second[0]):
        groups.join(member.member_id, **session)
    assert groups.group.state is ClassicGroupState.COMPLETING_REBALANCE
    groups.scheduler.advance(REBALANCE - 1)
    assert groups.group.state is ClassicGroupState.COMPLETING_REBALANCE
    assert len(groups.group.members) == 3
    groups.coordinator.close()
    assert not groups.scheduler.pending


def test_a_member_that_is_silent_for_its_session_is_dropped(groups: Groups) -> None:
    leader, follower = groups.pair()
    groups.scheduler.advance(SESSION - 1)
    groups.heartbeat(leader)
    groups.scheduler.advance(1)
    assert list(groups.group.members) == [leader.member_id]
    with pytest.raises(RebalanceInProgressError):
        groups.heartbeat(leader)
    with pytest.raises(UnknownMemberIdError):
        groups.heartbeat(follower)


def test_a_member_that_waits_for_an_answer_lives(groups: Groups) -> None:
    first = groups.alone()
    second = groups.join()
    groups.scheduler.advance(SESSION * 2)
    assert second[0].error_code == 0
    assert first.member_id not in groups.group.members


def test_when_all_are_gone_the_group_is_empty_and_keeps_its_generation(groups: Groups) -> None:
    groups.alone()
    groups.scheduler.advance(SESSION)
    assert (groups.group.state, groups.group.generation_id, groups.group.is_empty) == (ClassicGroupState.EMPTY, 2, True)
    assert groups.join()[0].generation_id == 3


def test_leaving_hands_the_group_to_the_others_at_once(groups: Groups) -> None:
    leader, follower = groups.pair()
    groups.leave("g", leader.member_id)
    with pytest.raises(RebalanceInProgressError):
        groups.heartbeat(follower)
    (again,) = groups.join(follower.member_id)
    assert (again.generation_id, again.leader) == (3, follower.member_id)
    with pytest.raises(UnknownMemberIdError):
        groups.leave("g", leader.member_id)
    with pytest.raises(UnknownMemberIdError):
        groups.leave("no such group", leader.member_id)
    with pytest.raises(InvalidGroupIdError):
        groups.leave("", leader.member_id)


def test_a_static_member_survives_a_rebalance_it_misses_until_its_session_ends(groups: Groups) -> None:
    static = groups.alone(group_instance_id="i", session_timeout=100.0)
    other = groups.join()
    groups.scheduler.advance(REBALANCE)
    assert other[0].error_code == 0
    assert static.member_id in groups.group.members
    groups.sync(other[0])
    for _ in range(5):
        groups.heartbeat(other[0])
        groups.scheduler.advance(8)
    assert static.member_id not in groups.group.members


# without a coordinator, and with a new one


def test_without_a_coordinator_no_session_ends_and_a_new_one_begins_them_anew(groups: Groups) -> None:
    first, second = groups.pair()
    groups.scheduler.advance(SESSION - 1)
    groups.coordinator.pause("g")
    groups.scheduler.advance(10 * SESSION)
    groups.coordinator.begin_sessions("g")
    groups.scheduler.advance(SESSION - 1)
    groups.heartbeat(first)
    assert groups.group.state is ClassicGroupState.STABLE
    groups.scheduler.advance(1)
    assert list(groups.group.members) == [first.member_id]
    with pytest.raises(UnknownMemberIdError):
        groups.heartbeat(second)


def test_sessions_begin_anew_with_another_coordinator(groups: Groups) -> None:
    joined = groups.alone()
    groups.scheduler.advance(SESSION - 1)
    groups.coordinator.begin_sessions("g")
    groups.scheduler.advance(SESSION - 1)
    groups.heartbeat(joined)


def test_members_that_wait_in_a_paused_rebalance_are_told(groups: Groups) -> None:
    first = groups.alone()
    waiting = groups.join()
    groups.join(requires_known_member_id=True)
    groups.coordinator.pause("g")
    assert error(waiting) == "NotCoordinatorError"
    groups.scheduler.advance(2 * REBALANCE)
    groups.coordinator.begin_sessions("g")
    again = groups.join(waiting[0].member_id)
    (joined,) = groups.join(first.member_id)
    assert joined.generation_id == again[0].generation_id == 2
    assert len(joined.members) == 2


def test_a_paused_rebalance_has_its_whole_time_again(groups: Groups) -> None:
    first, second = groups.pair()
    groups.join(first.member_id)
    groups.scheduler.advance(SESSION - 1)
    groups.coordinator.pause("g")
    groups.coordinator.begin_sessions("g")
    answers = groups.join(first.member_id)
    for _ in range(9):
        groups.scheduler.advance((REBALANCE - 1) / 9)
        with pytest.raises(RebalanceInProgressError):
            groups.heartbeat(second)
    assert not answers
    groups.scheduler.advance(1)
    assert (answers[0].generation_id, list(groups.group.members)) == (3, [first.member_id])


def test_the_wait_for_syncs_is_paused(groups: Groups) -> None:
    leader, follower = groups.pair()
    joined = groups.join(leader.member_id)
    (follower,) = groups.join(follower.member_id)
    (leader,) = joined
    sync = groups.sync(follower)
    groups.coordinator.pause("g")
    assert error(sync) == "NotCoordinatorError"
    groups.scheduler.advance(2 * REBALANCE)
    assert len(groups.group.members) == 2
    groups.coordinator.begin_sessions("g")
    for _ in range(7):
        groups.scheduler.advance(REBALANCE / 8)
        groups.heartbeat(leader)
        groups.heartbeat(follower)
    groups.scheduler.advance(REBALANCE / 8)
    assert list(groups.group.members) == [follower.member_id]


def test_the_initial_delay_is_paused() -> None:
    groups = Groups(group_initial_rebalance_delay_ms=3_000)
    waiting = groups.join()
    groups.coordinator.pause("g")
    groups.scheduler.advance(60)
    groups.coordinator.begin_sessions("g")
    again = groups.join(waiting[0].member_id)
    assert not again
    groups.scheduler.advance(6)
    assert again[0].generation_id == 1


def test_a_group_that_is_not_there_has_no_sessions(groups: Groups) -> None:
    groups.coordinator.pause("g")
    groups.coordinator.begin_sessions("g")
    assert groups.scheduler.pending == 0
