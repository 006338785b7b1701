"""The classic group protocol, with a virtual clock: joins, syncs, heartbeats, time-outs, static members, commits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.coordination.group import (
    GroupState,
    JoinRequest,
    JoinResult,
    MemberIdentity,
    SyncRequest,
    SyncResult,
)
from aiokafkapy.broker.coordination.group_offsets import CommittedOffset
from aiokafkapy.broker.coordination.groups import GroupCoordinator
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import (
    FencedInstanceIdError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InvalidGroupIdError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    for_code,
)

from ..support import VirtualScheduler

SESSION, REBALANCE = 10.0, 60.0
RANGE: list[tuple[str, bytes]] = [("range", b"meta")]
A = TopicPartition("t", 0)


class Groups:
    """A coordinator and what its callers were answered."""

    def __init__(self, data_dir: Path | None = None, **config: object) -> None:
        self.scheduler = VirtualScheduler()
        self.coordinator = GroupCoordinator(BrokerConfig.of(**config), data_dir=data_dir, scheduler=self.scheduler)

    @property
    def group(self) -> Any:
        return self.coordinator.get("g")

    def join(self, member_id: str = "", **changes: Any) -> list[JoinResult]:
        """The list gets the answer when there is one."""
        fields: dict[str, Any] = {
            "group_id": "g",
            "member_id": member_id,
            "group_instance_id": None,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout": SESSION,
            "rebalance_timeout": REBALANCE,
            "protocol_type": "consumer",
            "protocols": RANGE,
        }
        answers: list[JoinResult] = []
        self.coordinator.join(JoinRequest(**{**fields, **changes}), answers.append)
        return answers

    def sync(self, joined: JoinResult, assignments: dict[str, bytes] | None = None, **changes: Any) -> list[SyncResult]:
        fields = {"group_id": "g", "member_id": joined.member_id, "generation_id": joined.generation_id}
        identity = MemberIdentity(**{**fields, **changes})
        answers: list[SyncResult] = []
        self.coordinator.sync(SyncRequest(identity, assignments or {}), answers.append)
        return answers

    def heartbeat(self, joined: JoinResult) -> None:
        self.coordinator.heartbeat(MemberIdentity("g", joined.member_id, None, joined.generation_id))

    def commit(self, offset: int = 5, **identity: Any) -> None:
        fields: dict[str, Any] = {"group_id": "g", "member_id": "", "generation_id": -1}
        self.coordinator.commit(MemberIdentity(**{**fields, **identity}), {A: CommittedOffset(offset)})

    def alone(self, **changes: Any) -> JoinResult:
        """A group of one member, stable."""
        (joined,) = self.join(**changes)
        assert self.sync(joined, {joined.member_id: b"all"}) == [SyncResult(0, b"all", "consumer", "range")]
        return joined

    def pair(self) -> tuple[JoinResult, JoinResult]:
        """A group of two, stable; the first leads."""
        first = self.alone()
        second = self.join()
        assert not second
        (first,) = self.join(first.member_id)
        assert len(second) == 1
        waiting = self.sync(second[0])
        assert not waiting
        self.sync(first, {first.member_id: b"1", second[0].member_id: b"2"})
        assert waiting[0].assignment == b"2"
        assert self.group.state is GroupState.STABLE
        return first, second[0]


def error(answers: list[Any]) -> str:
    """The name of the error of the one answer."""
    (answer,) = answers
    return for_code(answer.error_code).__name__


@pytest.fixture
def groups() -> Groups:
    return Groups()


# joining


def test_the_first_member_leads_and_gets_its_generation_at_once(groups: Groups) -> None:
    (joined,) = groups.join()
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert [(each.member_id, each.metadata) for each in joined.members] == [(joined.member_id, b"meta")]
    assert groups.group.state is GroupState.COMPLETING_REBALANCE
    assert groups.sync(joined, {joined.member_id: b"all"})[0].assignment == b"all"
    assert groups.group.state is GroupState.STABLE


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


def test_from_version_4_on_a_member_gets_its_id_first(groups: Groups) -> None:
    answers = groups.join(requires_known_member_id=True)
    assert error(answers) == "MemberIdRequiredError"
    assert groups.group.is_empty
    (joined,) = groups.join(answers[0].member_id, requires_known_member_id=True)
    assert (joined.error_code, joined.member_id) == (0, answers[0].member_id)


def test_an_id_given_out_holds_the_group_up_until_it_is_used_or_its_time_is_over(groups: Groups) -> None:
    groups.join(requires_known_member_id=True)
    waiting = groups.join()
    assert not waiting
    groups.scheduler.advance(SESSION)
    assert waiting[0].error_code == 0
    assert not groups.group.pending_members


def test_the_initial_delay_gathers_all_who_come(groups: Groups) -> None:
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


def test_who_does_not_join_again_in_time_is_dropped(groups: Groups) -> None:
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


def test_a_leader_that_joins_again_starts_a_rebalance_and_a_follower_does_not(groups: Groups) -> None:
    leader, follower = groups.pair()
    (again,) = groups.join(follower.member_id)
    assert (again.generation_id, again.members, groups.group.state) == (2, (), GroupState.STABLE)
    assert not groups.join(leader.member_id)
    assert groups.group.state is GroupState.PREPARING_REBALANCE


def test_a_follower_with_other_metadata_starts_a_rebalance(groups: Groups) -> None:
    _, follower = groups.pair()
    assert not groups.join(follower.member_id, protocols=[("range", b"new topics")])
    assert groups.group.state is GroupState.PREPARING_REBALANCE


def test_who_missed_the_answer_to_its_join_gets_it_again(groups: Groups) -> None:
    (joined,) = groups.join()
    assert groups.join(joined.member_id) == [joined]
    assert groups.group.generation_id == 1


def test_the_protocol_most_prefer_among_the_common_ones_is_chosen(groups: Groups) -> None:
    first = groups.alone(protocols=[("range", b""), ("sticky", b""), ("own", b"")])
    second = groups.join(protocols=[("sticky", b""), ("range", b"")])
    third = groups.join(protocols=[("sticky", b""), ("range", b""), ("other", b"")])
    groups.join(first.member_id, protocols=[("own", b""), ("range", b""), ("sticky", b"")])
    assert second[0].protocol_name == third[0].protocol_name == "sticky"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"group_id": ""}, "InvalidGroupIdError"),
        ({"session_timeout": 5.999}, "InvalidSessionTimeoutError"),
        ({"session_timeout": 1_801.0}, "InvalidSessionTimeoutError"),
        ({"protocol_type": "connect"}, "InconsistentGroupProtocolError"),
        ({"protocols": [("other", b"")]}, "InconsistentGroupProtocolError"),
        ({"protocols": []}, "InconsistentGroupProtocolError"),
        ({"member_id": "nobody"}, "UnknownMemberIdError"),
        ({"group_id": "no such group", "member_id": "nobody"}, "UnknownMemberIdError"),
    ],
)
def test_a_join_that_cannot_be_is_refused(groups: Groups, changes: dict[str, Any], expected: str) -> None:
    groups.alone()
    assert error(groups.join(**changes)) == expected
    assert groups.group.state is GroupState.STABLE


def test_a_full_group_takes_nobody() -> None:
    groups = Groups(group_max_size=1)
    member = groups.alone()
    assert error(groups.join()) == "GroupMaxSizeReachedError"
    assert groups.join(member.member_id)[0].error_code == 0


# syncing


def test_members_wait_for_the_leaders_assignment(groups: Groups) -> None:
    groups.pair()


def test_a_sync_of_another_generation_or_state_is_refused(groups: Groups) -> None:
    leader, follower = groups.pair()
    assert error(groups.sync(leader, generation_id=1)) == "IllegalGenerationError"
    assert error(groups.sync(leader, member_id="nobody")) == "UnknownMemberIdError"
    assert error(groups.sync(leader, group_id="no such group")) == "UnknownMemberIdError"
    assert error(groups.sync(leader, group_id="")) == "InvalidGroupIdError"
    assert groups.sync(follower)[0].assignment == b"2"
    groups.join(leader.member_id)
    assert error(groups.sync(follower)) == "RebalanceInProgressError"


def test_a_sync_for_another_protocol_is_refused(groups: Groups) -> None:
    (joined,) = groups.join()
    answers: list[SyncResult] = []
    identity = MemberIdentity("g", joined.member_id, None, 1)
    groups.coordinator.sync(SyncRequest(identity, {}, "consumer", "sticky"), answers.append)
    assert error(answers) == "InconsistentGroupProtocolError"


def test_who_waits_for_a_sync_is_told_when_another_one_joins(groups: Groups) -> None:
    leader, follower = groups.pair()
    joins = [groups.join(leader.member_id), groups.join(follower.member_id)]
    waiting = groups.sync(joins[1][0])
    groups.join()
    assert error(waiting) == "RebalanceInProgressError"


def test_who_does_not_sync_in_time_is_dropped(groups: Groups) -> None:
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


# living and leaving


def test_who_is_not_heard_of_for_its_session_is_dropped(groups: Groups) -> None:
    leader, follower = groups.pair()
    groups.scheduler.advance(SESSION - 1)
    groups.heartbeat(leader)
    groups.scheduler.advance(1)
    assert list(groups.group.members) == [leader.member_id]
    with pytest.raises(RebalanceInProgressError):
        groups.heartbeat(leader)
    with pytest.raises(UnknownMemberIdError):
        groups.heartbeat(follower)


def test_who_waits_for_an_answer_lives(groups: Groups) -> None:
    first = groups.alone()
    second = groups.join()
    groups.scheduler.advance(SESSION * 2)
    assert second[0].error_code == 0
    assert first.member_id not in groups.group.members


def test_when_all_are_gone_the_group_is_empty_and_keeps_its_generation(groups: Groups) -> None:
    groups.alone()
    groups.scheduler.advance(SESSION)
    assert (groups.group.state, groups.group.generation_id, groups.group.is_empty) == (GroupState.EMPTY, 2, True)
    assert groups.join()[0].generation_id == 3


def test_leaving_hands_the_group_to_the_others_at_once(groups: Groups) -> None:
    leader, follower = groups.pair()
    groups.coordinator.leave("g", leader.member_id)
    with pytest.raises(RebalanceInProgressError):
        groups.heartbeat(follower)
    (again,) = groups.join(follower.member_id)
    assert (again.generation_id, again.leader) == (3, follower.member_id)
    with pytest.raises(UnknownMemberIdError):
        groups.coordinator.leave("g", leader.member_id)
    with pytest.raises(UnknownMemberIdError):
        groups.coordinator.leave("no such group", leader.member_id)
    with pytest.raises(InvalidGroupIdError):
        groups.coordinator.leave("", leader.member_id)


def test_leaving_before_having_joined_gives_the_id_back(groups: Groups) -> None:
    (answer,) = groups.join(requires_known_member_id=True)
    waiting = groups.join()
    groups.coordinator.leave("g", answer.member_id)
    assert waiting[0].error_code == 0


def test_a_heartbeat_of_an_old_generation_is_refused(groups: Groups) -> None:
    joined = groups.alone()
    groups.heartbeat(joined)
    with pytest.raises(IllegalGenerationError):
        groups.heartbeat(joined._replace(generation_id=0))


# static members (KIP-345)


def test_a_static_member_that_comes_back_keeps_its_place_without_a_rebalance(groups: Groups) -> None:
    first = groups.alone(group_instance_id="i", supports_skipping_assignment=True)
    (again,) = groups.join(group_instance_id="i", supports_skipping_assignment=True)
    assert (again.generation_id, again.skip_assignment, again.leader) == (1, True, again.member_id)
    assert again.member_id != first.member_id
    assert [each.group_instance_id for each in again.members] == ["i"]
    assert groups.group.state is GroupState.STABLE
    assert groups.sync(again, group_instance_id="i")[0].assignment == b"all"
    with pytest.raises(FencedInstanceIdError):
        groups.coordinator.heartbeat(MemberIdentity("g", first.member_id, "i", 1))


def test_a_static_leader_that_cannot_skip_assigning_is_not_told_that_it_leads(groups: Groups) -> None:
    first = groups.alone(group_instance_id="i")
    (again,) = groups.join(group_instance_id="i")
    assert (again.leader, again.members, again.skip_assignment) == (first.member_id, (), False)
    assert groups.group.leader == again.member_id


def test_a_static_member_that_waits_is_fenced_by_its_successor(groups: Groups) -> None:
    other = groups.alone()
    waiting = groups.join(group_instance_id="i")
    successor = groups.join(group_instance_id="i")
    assert error(waiting) == "FencedInstanceIdError"
    groups.join(other.member_id)
    assert successor[0].error_code == 0
    assert len(groups.group.members) == 2


def test_a_static_member_with_other_protocols_starts_a_rebalance(groups: Groups) -> None:
    groups.alone(group_instance_id="i", protocols=[("range", b""), ("sticky", b"")])
    (again,) = groups.join(group_instance_id="i", protocols=[("sticky", b"")])
    assert (again.generation_id, again.protocol_name) == (2, "sticky")


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


def test_leaving_by_instance_id(groups: Groups) -> None:
    member = groups.alone(group_instance_id="i")
    with pytest.raises(FencedInstanceIdError):
        groups.coordinator.leave("g", "somebody else", "i")
    with pytest.raises(UnknownMemberIdError):
        groups.coordinator.leave("g", "", "j")
    groups.coordinator.leave("g", "", "i")
    assert member.member_id not in groups.group.members


# offsets


def test_members_commit_in_their_generation_only(groups: Groups) -> None:
    joined = groups.alone()
    groups.commit(7, member_id=joined.member_id, generation_id=1)
    assert groups.coordinator.offsets.get("g") == {A: CommittedOffset(7)}
    with pytest.raises(IllegalGenerationError):
        groups.commit(8, member_id=joined.member_id, generation_id=0)
    with pytest.raises(UnknownMemberIdError):
        groups.commit(8, member_id="nobody", generation_id=1)
    with pytest.raises(UnknownMemberIdError):
        groups.commit(8)
    assert groups.coordinator.offsets.get("g") == {A: CommittedOffset(7)}


def test_a_commit_is_a_sign_of_life(groups: Groups) -> None:
    joined = groups.alone()
    for _ in range(3):
        groups.scheduler.advance(SESSION - 1)
        groups.commit(1, member_id=joined.member_id, generation_id=1)
    assert not groups.group.is_empty


def test_committing_is_allowed_while_others_are_awaited_and_not_while_the_assignment_is(groups: Groups) -> None:
    leader, follower = groups.pair()
    groups.join(leader.member_id)
    groups.commit(1, member_id=follower.member_id, generation_id=2)
    groups.join(follower.member_id)
    with pytest.raises(RebalanceInProgressError):
        groups.commit(2, member_id=follower.member_id, generation_id=3)


def test_nobody_in_particular_commits_while_the_group_is_empty(groups: Groups) -> None:
    groups.commit(3)
    assert groups.group.state is GroupState.EMPTY
    with pytest.raises(IllegalGenerationError):
        groups.commit(3, group_id="other", generation_id=1)


def test_offsets_survive_a_restart_and_members_do_not(tmp_path: Path) -> None:
    groups = Groups(tmp_path)
    joined = groups.alone()
    groups.commit(7, member_id=joined.member_id, generation_id=1)
    again = Groups(tmp_path)
    assert again.coordinator.offsets.get("g") == {A: CommittedOffset(7)}
    assert again.group.state is GroupState.EMPTY
    with pytest.raises(UnknownMemberIdError):
        again.heartbeat(joined)
    assert error(again.join(joined.member_id)) == "UnknownMemberIdError"
    groups.coordinator.close()
    again.coordinator.close()


# deleting and closing


def test_only_an_empty_group_is_deleted(groups: Groups) -> None:
    joined = groups.alone()
    groups.commit(7, member_id=joined.member_id, generation_id=1)
    with pytest.raises(NonEmptyGroupError):
        groups.coordinator.delete("g")
    groups.coordinator.leave("g", joined.member_id)
    groups.coordinator.delete("g")
    assert groups.group is None
    assert groups.coordinator.offsets.get("g") == {}
    with pytest.raises(GroupIdNotFoundError):
        groups.coordinator.delete("g")


@pytest.mark.parametrize(
    "prepare",
    [
        lambda groups: groups.alone(),
        lambda groups: groups.pair(),
        lambda groups: groups.join(requires_known_member_id=True),
        lambda groups: (groups.alone(), groups.join()),
        lambda groups: groups.join(),
    ],
)
def test_closing_leaves_no_timer(groups: Groups, prepare: Callable[[Groups], object]) -> None:
    prepare(groups)
    assert groups.scheduler.pending
    groups.coordinator.close()
    assert groups.scheduler.pending == 0
