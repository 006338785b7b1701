"""A group's members, protocols and states; their changes are tested with ``group_coordinator`` and ``rebalance``."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.coordination.classic_group import (
    GROUP_STATES,
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
    JoinResult,
    SyncResult,
)
from aiokafkapy.errors import IllegalTransitionError


def member(
    member_id: str, *protocols: str, instance_id: str | None = None, rebalance: float = 1.0
) -> ClassicGroupMember:
    names = [(name, name.encode()) for name in protocols or ("range",)]
    return ClassicGroupMember(
        member_id,
        group_instance_id=instance_id,
        client_id="client",
        client_host="/host",
        session_timeout=10.0,
        rebalance_timeout=rebalance,
        protocols=names,
    )


def group_of(*members: ClassicGroupMember) -> ClassicGroup:
    group = ClassicGroup("g")
    group.protocol_type = "consumer"
    for each in members:
        group.add(each)
    return group


def test_a_dead_group_stays_dead() -> None:
    assert GROUP_STATES.is_final(ClassicGroupState.DEAD)
    assert GROUP_STATES.initial is ClassicGroupState.EMPTY


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ClassicGroupState.EMPTY, ClassicGroupState.STABLE),
        (ClassicGroupState.EMPTY, ClassicGroupState.COMPLETING_REBALANCE),
        (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE),
        (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY),
        (ClassicGroupState.DEAD, ClassicGroupState.EMPTY),
    ],
)
def test_a_state_is_not_skipped(old: ClassicGroupState, new: ClassicGroupState) -> None:
    group = ClassicGroup("g")
    group.state = old
    with pytest.raises(IllegalTransitionError):
        group.transition(new)


def test_the_first_member_leads_until_it_goes() -> None:
    group = group_of(member("a"), member("b"))
    assert group.leader == "a"
    group.remove("a")
    assert group.leader == "b"
    group.remove("b")
    assert (group.leader, group.is_empty) == ("", True)


def test_only_a_member_that_has_joined_can_be_made_leader() -> None:
    group = group_of(member("a"), member("b"))
    assert not group.elect_joined_leader()
    group.members["b"].join_response = lambda result: None
    assert group.elect_joined_leader()
    assert group.leader == "b"


def test_votes_decide_among_the_protocols_all_have() -> None:
    group = group_of(member("a", "x", "y", "z"), member("b", "z", "y"), member("c", "y", "z"))
    assert group.select_protocol() == "y"
    assert group_of(member("a", "x", "y"), member("b", "y", "x")).select_protocol() == "x"


def test_a_member_without_a_common_protocol_does_not_fit() -> None:
    group = group_of(member("a", "x", "y"), member("b", "y"))
    assert group.supports("consumer", [("y", b"")])
    assert not group.supports("consumer", [("x", b"")])
    assert not group.supports("connect", [("y", b"")])
    assert not ClassicGroup("g").supports("", [("y", b"")])
    assert not ClassicGroup("g").supports("consumer", [])
    assert ClassicGroup("g").supports("anything", [("y", b"")])


def test_a_static_member_is_replaced_in_its_place() -> None:
    group = group_of(member("a"), member("b", instance_id="i"), member("c"))
    group.leader = "b"
    assert group.replace_static("i", "b2").member_id == "b2"
    assert (list(group.members), group.leader, group.static_members) == (["a", "b2", "c"], "b2", {"i": "b2"})
    group.remove("b2")
    assert group.static_members == {}


def test_the_longest_rebalance_timeout_counts() -> None:
    assert group_of(member("a", rebalance=3.0), member("b", rebalance=7.0)).rebalance_timeout == 7.0
    assert ClassicGroup("g").rebalance_timeout == 0.0


def test_a_member_is_answered_once() -> None:
    each, joins, syncs = member("a"), list[JoinResult](), list[SyncResult]()
    each.join_response, each.sync_response = joins.append, syncs.append
    for _ in range(2):
        each.answer_join(JoinResult())
        each.answer_sync(SyncResult())
    assert (len(joins), len(syncs)) == (1, 1)
