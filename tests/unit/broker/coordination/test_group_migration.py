"""Groups with members that become groups of the other protocol (KIP-848), in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker.coordination.classic_group import ClassicGroup, ClassicGroupState
from aiokafkapy.broker.coordination.consumer_group import ConsumerGroup
from aiokafkapy.errors import GroupIdNotFoundError, KafkaStorageError, for_code
from tests.embedded_protocol import assignment, subscription

from .callers import SESSION, Groups, error
from .mixed_groups import NOTHING, MixedGroups


@pytest.fixture
def groups() -> MixedGroups:
    return MixedGroups()


# upgrade


def test_a_classic_group_becomes_a_consumer_group_and_its_member_keeps_its_partitions(groups: MixedGroups) -> None:
    old = groups.classic(0, 1, 2, 3)
    assert groups.join_new("n").assignment == NOTHING
    group = groups.group
    assert isinstance(group, ConsumerGroup)
    assert group.members[old.member_id].assigned == groups.of(0, 1, 2, 3)
    assert (group.group_epoch, group.members[old.member_id].member_epoch) == (2, 1)
    assert groups.problem(old) == "RebalanceInProgressError"


def test_members_that_wait_are_told_of_another_rebalance(groups: MixedGroups) -> None:
    first = groups.classic(0, 1, 2, 3)
    waiting = groups.join(protocols=[("range", subscription("t"))])
    assert not waiting
    groups.join_new("n")
    assert error(waiting) == "RebalanceInProgressError"
    assert list(groups.group.members) == [first.member_id, waiting[0].member_id, "n"]
    (again,) = groups.join(first.member_id, protocols=[("range", subscription("t", owned=(0, 1, 2, 3)))])
    assert again.error_code == 0


def test_a_member_that_waits_to_be_assigned_is_told_of_another_rebalance(groups: MixedGroups) -> None:
    first = groups.classic(0, 1, 2, 3)
    (second,) = [groups.join(protocols=[("range", subscription("t"))])]
    (first,) = groups.join(first.member_id, protocols=[("range", subscription("t"))])
    waiting = groups.sync(second[0])
    groups.join_new("n")
    assert error(waiting) == "RebalanceInProgressError"


def test_a_group_that_gathers_its_first_members_is_upgraded() -> None:
    groups = MixedGroups(group_initial_rebalance_delay_ms=3_000)
    waiting = groups.join(protocols=[("range", subscription("t"))])
    groups.join_new("n")
    assert error(waiting) == "RebalanceInProgressError"
    groups.scheduler.advance(5.0)
    assert groups.group.group_epoch == 1


def test_a_partition_that_a_leader_gave_to_two_members_is_the_first_ones(groups: MixedGroups) -> None:
    first = groups.classic(0, 1)
    second = groups.join(protocols=[("range", subscription("t"))])
    (first,) = groups.join(first.member_id, protocols=[("range", subscription("t"))])
    groups.sync(first, {first.member_id: assignment("t", 0, 1), second[0].member_id: assignment("t", 1, 2)})
    groups.join_new("n")
    assert [groups.group.members[each].assigned for each in (first.member_id, second[0].member_id)] == [
        groups.of(0, 1),
        groups.of(2),
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"protocol_type": "connect"}, "does not use the consumer embedded protocol"),
        ({"protocols": [("range", b"\0")]}, "the embedded consumer protocol is malformed"),
    ],
)
def test_a_group_of_another_protocol_is_not_upgraded(groups: MixedGroups, changes: dict[str, Any], reason: str) -> None:
    old = groups.join_old(**changes)
    with pytest.raises(GroupIdNotFoundError, match=f"^Cannot upgrade classic group g to consumer .*{reason}"):
        groups.join_new("n")
    groups.sync(old, {old.member_id: b""})
    assert groups.problem(old) is None


def test_an_assignor_of_its_own_keeps_a_group_classic(groups: MixedGroups) -> None:
    old = groups.join_old()
    groups.sync(old, {old.member_id: assignment("t", 0, user_data=b"x")})
    with pytest.raises(GroupIdNotFoundError, match="an unsupported custom assignor is in use"):
        groups.join_new("n")


def test_a_group_of_too_many_members_is_not_upgraded() -> None:
    groups = MixedGroups(group_consumer_max_size=1)
    first = groups.classic(0)
    groups.join(protocols=[("range", subscription("t"))])
    groups.join(first.member_id, protocols=[("range", subscription("t"))])
    with pytest.raises(GroupIdNotFoundError, match="exceeds the consumer group maximum size"):
        groups.join_new("n")


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_policy_without_upgrade_keeps_a_group_classic(policy: str) -> None:
    groups = MixedGroups(group_consumer_migration_policy=policy)
    old = groups.classic(0)
    with pytest.raises(GroupIdNotFoundError, match="online upgrade is disabled"):
        groups.join_new("n")
    assert groups.problem(old) is None


def test_a_heartbeat_that_is_refused_upgrades_nothing(groups: MixedGroups) -> None:
    old = groups.classic(0, group_instance_id="i")
    with pytest.raises(GroupIdNotFoundError, match="is not a consumer group"):
        groups.beat("n", 1)
    assert isinstance(groups.group, ClassicGroup)
    groups.heartbeat(old)


# downgrade


def test_the_group_is_a_classic_one_again_and_rebalances_when_the_last_other_member_leaves(groups: MixedGroups) -> None:
    old = groups.classic(0, 1, 2, 3)
    groups.join_new("n")
    groups.beat("n", -1)
    group = groups.group
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation_id, group.protocol_name) == (
        ClassicGroupState.PREPARING_REBALANCE,
        2,
        "range",
    )
    again = groups.join_old(old.member_id)
    assert (again.generation_id, again.leader) == (3, old.member_id)
    groups.sync(again, {old.member_id: assignment("t", 0, 1, 2, 3)})
    assert groups.problem(again) is None


def test_the_group_is_a_classic_one_again_when_the_session_of_the_last_other_member_ends(groups: MixedGroups) -> None:
    old = groups.classic(0, 1, 2, 3)
    groups.join_new("n")
    again = groups.join_old(old.member_id)
    groups.live(50.0, again)
    assert isinstance(groups.group, ClassicGroup)
    assert list(groups.group.members) == [old.member_id]


def test_a_member_that_does_not_come_back_after_a_downgrade_is_removed(groups: MixedGroups) -> None:
    groups.classic(0)
    groups.join_new("n")
    groups.beat("n", -1)
    groups.scheduler.advance(SESSION + 1)
    assert groups.group.is_empty


def test_a_group_without_any_member_stays_a_consumer_group(groups: MixedGroups) -> None:
    old = groups.classic(0)
    groups.join_new("n")
    assert groups.leave_all(old.member_id) == [None]
    groups.beat("n", -1)
    assert isinstance(groups.group, ConsumerGroup)


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_a_policy_without_downgrade_keeps_it_a_consumer_group(policy: str) -> None:
    groups = MixedGroups(group_consumer_migration_policy=policy)
    groups.join_new("n")
    old = groups.join_old()
    groups.beat("n", -1)
    assert isinstance(groups.group, ConsumerGroup)
    again = groups.join_old(old.member_id)
    assert groups.synced(again) == [0, 1, 2, 3]


def test_more_members_than_a_classic_group_may_have_stay_a_consumer_group() -> None:
    groups = MixedGroups(group_max_size=1)
    groups.join_new("n")
    for _ in range(2):
        groups.join_old()
    groups.beat("n", -1)
    assert isinstance(groups.group, ConsumerGroup)


def test_members_keep_the_targets_of_the_consumer_group_when_a_static_one_changes_its_protocol(
    groups: MixedGroups,
) -> None:
    groups.join_new("n", instance_id="i")
    another = groups.join_old(group_instance_id="j")
    kept = groups.group.target["n"]
    changed = groups.join_old(group_instance_id="i")
    group = groups.group
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation_id) == (ClassicGroupState.STABLE, changed.generation_id)
    assert groups.synced(changed) == sorted(each.partition for each in kept)
    assert groups.problem(another) is None


# on disk


def test_the_type_of_a_group_survives_a_restart_after_upgrade_and_downgrade(tmp_path: Path) -> None:
    for leaves, kind in ((False, ConsumerGroup), (True, ClassicGroup)):
        groups = MixedGroups(data_dir=tmp_path / str(leaves))
        groups.commit()
        groups.classic(0)
        groups.join_new("n")
        if leaves:
            groups.beat("n", -1)
        groups.coordinator.close()
        assert isinstance(Groups(tmp_path / str(leaves)).group, kind)


def test_a_disk_that_takes_nothing_changes_no_group(groups: MixedGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group_id: str, *, is_consumer: bool) -> None:
        raise KafkaStorageError("full")

    old = groups.classic(0)
    migration = groups.coordinator.consumer_groups._migration
    with monkeypatch.context() as patch:
        patch.setattr(migration, "_note_type", refuse)
        with pytest.raises(KafkaStorageError):
            groups.join_new("n")
    assert groups.problem(old) is None
    groups.join_new("n")
    again = groups.join_old(old.member_id)
    monkeypatch.setattr(migration, "_note_type", refuse)
    with pytest.raises(KafkaStorageError):
        groups.beat("n", -1)
    assert "n" in groups.group.members
    groups.live(50.0, again)
    assert list(groups.group.members) == [old.member_id]
    assert for_code(groups.join_old(protocol_type="connect").error_code).__name__ == "InconsistentGroupProtocolError"
