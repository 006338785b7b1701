"""Members of the classic protocol in a consumer group (KIP-848), in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.broker.coordination.classic_group import JoinResult, MemberIdentity, SyncRequest, SyncResult
from aiokafkapy.broker.coordination.consumer_group import MemberState
from aiokafkapy.broker.coordination.group_offsets import CommittedOffset
from aiokafkapy.errors import (
    FencedInstanceIdError,
    IllegalGenerationError,
    UnknownMemberIdError,
    for_code,
)
from tests.embedded_protocol import assignment_of, subscription

from .callers import REBALANCE, SESSION, A, error
from .mixed_groups import NOTHING, MixedGroups


@pytest.fixture
def groups() -> MixedGroups:
    return MixedGroups()


@pytest.fixture
def old(groups: MixedGroups) -> JoinResult:
    """A classic member of a group with one of the other protocol, ``n``, which has everything."""
    groups.join_new("n")
    return groups.join_old()


def name(code: int) -> str:
    return for_code(code).__name__


def test_a_join_is_answered_at_once_and_nobody_leads(groups: MixedGroups, old: JoinResult) -> None:
    assert old == JoinResult(0, old.member_id, 2, "consumer", "range", "", ())
    assert groups.synced(old) == []
    assert groups.problem(old) is None
    assert groups.group.members[old.member_id].state is MemberState.UNRELEASED_PARTITIONS


def test_partitions_go_from_one_protocol_to_the_other_and_back(groups: MixedGroups, old: JoinResult) -> None:
    told = groups.beat("n", 1).assignment or NOTHING
    groups.beat("n", 1, owned=told)
    assert groups.problem(old) == "RebalanceInProgressError"  # the partitions that it waits for are free
    again = groups.join_old(old.member_id)
    owned = tuple(groups.synced(again))
    assert len(owned) == 2
    assert groups.problem(again) is None
    groups.join_new("m")
    again = groups.join_old(old.member_id, owned=owned)
    assert again.generation_id == 2  # it has a partition to give up, and stays in its epoch until then
    left = tuple(groups.synced(again))
    assert len(left) == 1
    assert groups.problem(again) == "RebalanceInProgressError"
    last = groups.join_old(old.member_id, owned=left)
    assert (last.generation_id, tuple(groups.synced(last)), groups.problem(last)) == (3, left, None)
    groups.beat("n", 2)
    assert len(groups.beat("m", 3).assignment or ()) + len(groups.group.members["n"].assigned) == 3


def test_an_assignment_has_the_version_of_the_members_metadata(groups: MixedGroups, old: JoinResult) -> None:
    young = groups.join_old(protocols=[("range", subscription("t", version=0))])
    assert assignment_of(groups.sync(young)[0].assignment)[0] == 0
    assert assignment_of(groups.sync(groups.join_old(old.member_id))[0].assignment)[0] == 3


def test_a_new_member_gets_its_id_first_where_the_protocol_asks_for_it(groups: MixedGroups, old: JoinResult) -> None:
    first = groups.join_old(requires_known_member_id=True)
    assert name(first.error_code) == "MemberIdRequiredError"
    assert first.member_id not in groups.group.members
    assert groups.join_old(first.member_id, requires_known_member_id=True).error_code == 0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"protocol_type": "connect"}, "InconsistentGroupProtocolError"),
        ({"protocols": []}, "InconsistentGroupProtocolError"),
        ({"protocols": [("sticky", b"")]}, "InconsistentGroupProtocolError"),
        ({"protocols": [("range", b"\0")]}, "UnknownServerError"),
        ({"session_timeout": 0.001}, "InvalidSessionTimeoutError"),
        ({"group_instance_id": "i", "member_id": "m"}, "UnknownMemberIdError"),
    ],
)
def test_an_invalid_join_is_refused_and_changes_nothing(
    groups: MixedGroups, old: JoinResult, changes: dict[str, Any], expected: str
) -> None:
    epoch = groups.group.group_epoch
    assert error(groups.join(**{"protocols": [("range", subscription("t"))], **changes})) == expected
    assert (groups.group.group_epoch, len(groups.group.members)) == (epoch, 2)


def test_a_full_group_takes_no_classic_member_either() -> None:
    groups = MixedGroups(group_consumer_max_size=2)
    groups.join_new("n")
    old = groups.join_old()
    assert name(groups.join_old().error_code) == "GroupMaxSizeReachedError"
    assert groups.join_old(old.member_id).error_code == 0


def test_members_of_the_other_protocol_and_of_none_are_unknown(groups: MixedGroups, old: JoinResult) -> None:
    for member_id in ("n", "nobody"):
        other = old._replace(member_id=member_id, generation_id=1)
        assert groups.problem(other) == "UnknownMemberIdError"
        assert error(groups.sync(other)) == "UnknownMemberIdError"


def test_another_generation_is_illegal(groups: MixedGroups, old: JoinResult) -> None:
    other = old._replace(generation_id=7)
    assert groups.problem(other) == "IllegalGenerationError"
    assert error(groups.sync(other)) == "IllegalGenerationError"


def test_a_sync_of_another_protocol_or_of_an_epoch_that_is_over_is_refused(
    groups: MixedGroups, old: JoinResult
) -> None:
    identity = MemberIdentity("g", old.member_id, None, old.generation_id)
    for protocol in (("connect", "range"), ("consumer", "sticky")):
        answers: list[SyncResult] = []
        groups.coordinator.sync(SyncRequest(identity, {}, *protocol), answers.append)
        assert error(answers) == "InconsistentGroupProtocolError"
    groups.join_new("m")
    assert error(groups.sync(old)) == "RebalanceInProgressError"


# time-outs


def test_a_member_that_is_not_heard_of_is_removed_after_its_own_session(groups: MixedGroups, old: JoinResult) -> None:
    groups.scheduler.advance(SESSION + 1)
    assert list(groups.group.members) == ["n"]


def lives_for(groups: MixedGroups, old: JoinResult) -> float:
    """Seconds until a member that sends heartbeats, and does nothing else, is removed."""
    passed = 0.0
    while old.member_id in groups.group.members:
        groups.scheduler.advance(SESSION / 2)
        passed += SESSION / 2
        groups.problem(old)
        groups.beat("n", groups.group.members["n"].member_epoch)
    return passed


def test_a_member_that_does_not_sync_is_removed(groups: MixedGroups, old: JoinResult) -> None:
    assert lives_for(groups, old) == REBALANCE


def test_a_member_that_does_not_join_again_is_removed(groups: MixedGroups, old: JoinResult) -> None:
    groups.synced(old)
    groups.beat("n", 1, owned=groups.beat("n", 1).assignment)
    assert groups.problem(old) == "RebalanceInProgressError"
    assert lives_for(groups, old) == REBALANCE


def test_a_member_that_syncs_and_joins_again_in_time_stays(groups: MixedGroups, old: JoinResult) -> None:
    groups.synced(old)
    told = groups.beat("n", 1).assignment
    groups.beat("n", 1, owned=told)
    groups.problem(old)
    again = groups.join_old(old.member_id)
    groups.synced(again)
    for _ in range(14):
        groups.scheduler.advance(SESSION / 2)
        assert groups.problem(again) is None
        groups.beat("n", 2)


# static members


def test_a_static_member_that_comes_back_keeps_its_place(groups: MixedGroups) -> None:
    groups.join_new("n")
    first = groups.join_old(group_instance_id="i")
    groups.beat("n", 1, owned=groups.beat("n", 1).assignment)
    first = groups.join_old(first.member_id, group_instance_id="i")
    had = groups.synced(first, group_instance_id="i")
    second = groups.join_old(group_instance_id="i")
    assert second.member_id != first.member_id
    assert groups.synced(second, group_instance_id="i") == had
    with pytest.raises(FencedInstanceIdError):
        groups.coordinator.heartbeat(MemberIdentity("g", first.member_id, "i", first.generation_id))


def test_a_static_member_takes_its_place_in_the_other_protocol_at_once(groups: MixedGroups, old: JoinResult) -> None:
    first = groups.join_old(group_instance_id="i")
    assert groups.join_new("m", instance_id="i").member_epoch == 3
    assert first.member_id not in groups.group.members
    assert groups.group.members["m"].classic is None


# leaving


def test_members_leave_together_in_one_epoch_and_each_has_its_own_error(groups: MixedGroups, old: JoinResult) -> None:
    groups.join_new("m")
    groups.join_old(group_instance_id="i")
    epoch = groups.group.group_epoch
    assert groups.leave_all(old.member_id, "m", "nobody", old.member_id, instance="i", none="j") == [
        None,
        None,
        "UnknownMemberIdError",
        None,
        None,
        "UnknownMemberIdError",
    ]
    assert (list(groups.group.members), groups.group.group_epoch) == (["n"], epoch + 1)


def test_nobody_leaves_a_group_that_does_not_exist(groups: MixedGroups) -> None:
    assert groups.leave_all("m") == ["UnknownMemberIdError"]
    assert groups.leave_all() == []


# offsets


def test_a_classic_member_commits_with_its_epoch_as_generation_in_any_version(
    groups: MixedGroups, old: JoinResult
) -> None:
    identity = MemberIdentity("g", old.member_id, None, old.generation_id)
    offsets = {A: CommittedOffset(5)}
    groups.coordinator.commit(identity, offsets, knows_member_epochs=False)
    groups.coordinator.commit_in_transaction(identity, 1, offsets)
    groups.group.check_fetch(old.member_id, old.generation_id)
    stale = MemberIdentity("g", old.member_id, None, 1)
    for call in (
        lambda: groups.coordinator.commit(stale, offsets),
        lambda: groups.coordinator.commit_in_transaction(stale, 1, offsets),
        lambda: groups.group.check_fetch(old.member_id, 1),
    ):
        with pytest.raises(IllegalGenerationError):
            call()
    with pytest.raises(UnknownMemberIdError):
        groups.coordinator.commit(MemberIdentity("g", "nobody", None, 2), offsets)
