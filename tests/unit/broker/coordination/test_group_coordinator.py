"""The classic group protocol, with a virtual clock: joins, syncs, heartbeats, time-outs, static members, commits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker.coordination.classic_group import (
    ClassicGroupState,
    MemberIdentity,
    SyncRequest,
    SyncResult,
)
from aiokafkapy.broker.coordination.group_offsets import CommittedOffset
from aiokafkapy.errors import (
    FencedInstanceIdError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    KafkaStorageError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

from .callers import SESSION, A, Groups, error

# joining


def test_the_first_member_leads_and_gets_its_generation_at_once(groups: Groups) -> None:
    (joined,) = groups.join()
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert [(each.member_id, each.metadata) for each in joined.members] == [(joined.member_id, b"meta")]
    before = groups.group.state
    assert groups.sync(joined, {joined.member_id: b"all"})[0].assignment == b"all"
    assert (before, groups.group.state) == (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE)


def test_from_version_4_on_a_member_gets_its_id_first(groups: Groups) -> None:
    answers = groups.join(requires_known_member_id=True)
    assert error(answers) == "MemberIdRequiredError"
    assert groups.group.is_empty
    (joined,) = groups.join(answers[0].member_id, requires_known_member_id=True)
    assert (joined.error_code, joined.member_id) == (0, answers[0].member_id)


def test_a_leader_that_joins_again_starts_a_rebalance_and_a_follower_does_not(groups: Groups) -> None:
    leader, follower = groups.pair()
    (again,) = groups.join(follower.member_id)
    assert (again.generation_id, again.members, groups.group.state) == (2, (), ClassicGroupState.STABLE)
    assert not groups.join(leader.member_id)
    assert groups.group.state is ClassicGroupState.PREPARING_REBALANCE


def test_a_follower_with_other_metadata_starts_a_rebalance(groups: Groups) -> None:
    _, follower = groups.pair()
    assert not groups.join(follower.member_id, protocols=[("range", b"new topics")])
    assert groups.group.state is ClassicGroupState.PREPARING_REBALANCE


def test_a_member_that_missed_the_answer_to_its_join_gets_it_again(groups: Groups) -> None:
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
def test_an_invalid_join_is_refused(groups: Groups, changes: dict[str, Any], expected: str) -> None:
    groups.alone()
    assert error(groups.join(**changes)) == expected
    assert groups.group.state is ClassicGroupState.STABLE


def test_a_full_group_takes_nobody() -> None:
    groups = Groups(group_max_size=1)
    member = groups.alone()
    assert error(groups.join()) == "GroupMaxSizeReachedError"
    assert groups.join(member.member_id)[0].error_code == 0


# syncing


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


# living and leaving


def test_leaving_before_having_joined_gives_the_id_back(groups: Groups) -> None:
    (answer,) = groups.join(requires_known_member_id=True)
    waiting = groups.join()
    groups.leave("g", answer.member_id)
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
    assert groups.group.state is ClassicGroupState.STABLE
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


def test_leaving_by_instance_id(groups: Groups) -> None:
    member = groups.alone(group_instance_id="i")
    with pytest.raises(FencedInstanceIdError):
        groups.leave("g", "somebody else", "i")
    with pytest.raises(UnknownMemberIdError):
        groups.leave("g", "", "j")
    groups.leave("g", "", "i")
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


def test_commits_from_outside_a_generation_are_taken_while_the_group_is_empty(groups: Groups) -> None:
    groups.commit(3)
    assert groups.group.state is ClassicGroupState.EMPTY
    with pytest.raises(GroupIdNotFoundError):
        groups.commit(3, group_id="other", generation_id=1)
    with pytest.raises(IllegalGenerationError):
        groups.coordinator.commit(MemberIdentity("other", "", None, 1), {}, knows_member_epochs=False)


def test_offsets_survive_a_restart_and_members_do_not(tmp_path: Path) -> None:
    groups = Groups(tmp_path)
    joined = groups.alone()
    groups.commit(7, member_id=joined.member_id, generation_id=1)
    again = Groups(tmp_path)
    assert again.coordinator.offsets.get("g") == {A: CommittedOffset(7)}
    assert again.group.state is ClassicGroupState.EMPTY
    with pytest.raises(UnknownMemberIdError):
        again.heartbeat(joined)
    assert error(again.join(joined.member_id)) == "UnknownMemberIdError"
    groups.coordinator.close()
    again.coordinator.close()


def test_a_group_is_there_that_commits_in_transactions_only(tmp_path: Path) -> None:
    groups = Groups(tmp_path)
    with pytest.raises(IllegalGenerationError):
        groups.coordinator.commit_in_transaction(MemberIdentity("g", "m", None, 1), 7, {A: CommittedOffset(5)})
    assert groups.group is None
    groups.coordinator.commit_in_transaction(MemberIdentity("g", ""), 7, {A: CommittedOffset(5)})
    for each in (groups, Groups(tmp_path)):
        assert each.group.state is ClassicGroupState.EMPTY
        each.coordinator.close()
    again = Groups(tmp_path)
    again.coordinator.offsets.end_pending("g", 7, is_commit=True)
    assert [group.group_id for group in again.coordinator] == ["g"]
    again.coordinator.delete("g")
    assert again.coordinator.offsets.get("g") == {}
    again.coordinator.close()


# deleting and closing


def test_a_deleted_group_gets_no_offsets_of_a_transaction_that_was_open(tmp_path: Path) -> None:
    groups = Groups(tmp_path)
    groups.coordinator.commit_in_transaction(MemberIdentity("g", ""), 7, {A: CommittedOffset(5)})
    groups.coordinator.delete("g")
    groups.coordinator.offsets.end_pending("g", 7, is_commit=True)
    for each in (groups, Groups(tmp_path)):
        assert not each.coordinator.offsets.groups()
        assert each.group is None
        each.coordinator.close()


def test_a_group_that_cannot_be_deleted_on_disk_is_still_there(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KafkaStorageError("no room")

    groups.commit(5)
    with monkeypatch.context() as patch:
        patch.setattr(groups.coordinator.offsets, "delete", fail)
        with pytest.raises(KafkaStorageError):
            groups.coordinator.delete("g")
    assert groups.group.state is ClassicGroupState.EMPTY
    groups.coordinator.delete("g")
    assert groups.group is None


def test_only_an_empty_group_is_deleted(groups: Groups) -> None:
    joined = groups.alone()
    groups.commit(7, member_id=joined.member_id, generation_id=1)
    with pytest.raises(NonEmptyGroupError):
        groups.coordinator.delete("g")
    groups.leave("g", joined.member_id)
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
