"""One consumer group of KIP-848's protocol: members, epochs, the target assignment, and each member's way to it.

Owns the state of a group and the steps of reconciliation; it starts no timer and knows no request: that is
``consumer_group_manager.ConsumerGroupManager``. Kafka's counterparts are ``ConsumerGroup``, ``ConsumerGroupMember`` and
``CurrentAssignmentBuilder``.

Rules:

- the group's epoch grows with each change of members, subscriptions or topics; the target assignment is recomputed for
  the newest epoch; a member's epoch is that of the target it has reached;
- a partition has one owner at most: a member owns it from the heartbeat that assigns it until the member has reported
  that it gave it up, or has left the group. No other member gets it before;
- a member that must give partitions up stays in its epoch until it has;
- static members (KIP-345) are found by their instance id, which maps to one member id at any time;
- a member may speak the classic protocol (``ClassicMembership``): its generation is its epoch, and it joins again to
  say that it gave partitions up. ``group_migration`` says when a group with such members is a consumer group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ...errors import (
    FencedInstanceIdError,
    IllegalGenerationError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from ...protocol.consumer_protocol import PROTOCOL_TYPE
from ...states import StateTable
from ..scheduler import TimerHandle
from ..storage.topics import TopicRegistry
from .assignors import ASSIGNORS, Assignment, TopicIdPartition
from .modern_group import NOTHING, ModernGroup, ModernGroupMember
from .topic_pattern import TopicPattern

__all__ = [
    "MEMBER_STATES",
    "STATIC_MEMBER_AWAY",
    "ClassicMembership",
    "ConsumerGroup",
    "ConsumerGroupMember",
    "ConsumerGroupState",
    "MemberState",
]

STATIC_MEMBER_AWAY: Final = -2
"""The epoch of a static member that has left and may come back until its session ends."""


class ConsumerGroupState(Enum):
    """The value is the name that ConsumerGroupDescribe and ListGroups give it. It follows from epochs and members."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberState(Enum):
    """A member's progress towards the target."""

    STABLE = "stable"
    UNREVOKED_PARTITIONS = "has partitions to give up"
    UNRELEASED_PARTITIONS = "waits for partitions of others"


MEMBER_STATES: Final = StateTable(
    "consumer group member",
    MemberState.STABLE,
    {
        MemberState.STABLE: {MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS},
        MemberState.UNREVOKED_PARTITIONS: {MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS},
        MemberState.UNRELEASED_PARTITIONS: {MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS},
    },
)


@dataclass(slots=True, frozen=True)
class ClassicMembership:
    """The part of a member that speaks the classic protocol; ``protocols`` are (name, metadata), and the first one is
    used. The time-out is float seconds.
    """

    session_timeout: float
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerGroupMember(ModernGroupMember):
    """One member; ``pending_revocation`` are the partitions that it has still to give up. ``classic`` is None but for a
    member of the classic protocol.
    """

    __slots__ = (
        "classic",
        "instance_id",
        "join_timer",
        "matched_topics",
        "may_describe",
        "pattern",
        "pending_revocation",
        "rebalance_timeout",
        "rebalance_timer",
        "server_assignor",
        "state",
        "sync_timer",
    )

    def __init__(self, member_id: str) -> None:
        super().__init__(member_id)
        self.instance_id: str | None = None
        # settings; the time-out in seconds
        self.rebalance_timeout = 0.0
        self.server_assignor: str | None = None
        # subscription by expression, among the topics that the client may see
        self.pattern: TopicPattern | None = None
        self.matched_topics: frozenset[str] = frozenset()
        self.may_describe: Callable[[str], bool] = bool
        # progress
        self.state = MEMBER_STATES.initial
        self.pending_revocation = NOTHING
        self.rebalance_timer: TimerHandle | None = None
        # the classic protocol, and the timers by which the next JoinGroup and SyncGroup must have come
        self.classic: ClassicMembership | None = None
        self.join_timer: TimerHandle | None = None
        self.sync_timer: TimerHandle | None = None

    @property
    def topics(self) -> frozenset[str]:
        """The names of all topics that it subscribes to, also of some that do not exist."""
        return self.subscribed_topic_names | self.matched_topics

    @property
    def regex(self) -> str:
        """Its expression as it was given, empty without one."""
        return "" if self.pattern is None else self.pattern.text

    def stop_timers(self) -> None:
        """Cancel all timers."""
        super().stop_timers()
        self.stop_rebalance_timer()
        self.stop_join_timer()
        self.stop_sync_timer()

    def stop_rebalance_timer(self) -> None:
        """Cancel the timer of the partitions that it has to give up."""
        if self.rebalance_timer is not None:
            self.rebalance_timer.cancel()
        self.rebalance_timer = None

    def stop_join_timer(self) -> None:
        """Cancel the timer of the JoinGroup that it was told to send."""
        if self.join_timer is not None:
            self.join_timer.cancel()
        self.join_timer = None

    def stop_sync_timer(self) -> None:
        """Cancel the timer of the SyncGroup that follows its JoinGroup."""
        if self.sync_timer is not None:
            self.sync_timer.cancel()
        self.sync_timer = None


class ConsumerGroup(ModernGroup[ConsumerGroupMember]):
    """One group."""

    __slots__ = ("_owners", "default_assignor", "static_members")

    def __init__(self, group_id: str, default_assignor: str) -> None:
        super().__init__(group_id)
        self.default_assignor = default_assignor
        # instance id -> member id
        self.static_members: dict[str, str] = {}
        # the member that has a partition, or has still to give it up
        self._owners: dict[TopicIdPartition, str] = {}

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(map(self.is_reconciled, self.members.values())):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def assignor(self) -> str:
        """The assignor that most members prefer, the broker's first one when none does."""
        votes = Counter(member.server_assignor for member in self.members.values() if member.server_assignor)
        return votes.most_common(1)[0][0] if votes else self.default_assignor

    def is_reconciled(self, member: ConsumerGroupMember) -> bool:
        """Whether a member has reached the target."""
        return member.state is MemberState.STABLE and member.member_epoch == self.assignment_epoch

    # members of the classic protocol

    def supports(self, protocol_type: str, protocols: Sequence[tuple[str, bytes]]) -> bool:
        """Whether a classic member with these protocols could be in this group."""
        others = [{name for name, _ in each.classic.protocols} for each in self.members.values() if each.classic]
        return protocol_type == PROTOCOL_TYPE and any(all(name in each for each in others) for name, _ in protocols)

    def is_classic_without(self, leaving: Sequence[ConsumerGroupMember]) -> bool:
        """Whether all but those that leave speak the classic protocol."""
        return all(each.classic is not None or each in leaving for each in self.members.values())

    def must_join_again(self, member: ConsumerGroupMember) -> bool:
        """Whether a classic member has to send a JoinGroup: there is a newer target, it has partitions to give up, or
        those that it waited for are free.
        """
        if member.member_epoch < self.group_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        missing = self.target.get(member.member_id, NOTHING) - member.assigned
        return member.state is MemberState.UNRELEASED_PARTITIONS and not any(each in self._owners for each in missing)

    # members

    def static_member(self, instance_id: str, member_id: str) -> ConsumerGroupMember:
        """The static member of an instance id. Raises UnknownMemberIdError, FencedInstanceIdError."""
        known = self.static_members.get(instance_id)
        if known is None:
            raise UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
        if known != member_id:
            raise FencedInstanceIdError(
                f"Static member {member_id} with instance id {instance_id} was fenced by member {known}."
            )
        return self.members[known]

    def add(self, member: ConsumerGroupMember) -> None:
        """Add a member that has nothing yet."""
        self.members[member.member_id] = member

    def add_reconciled(self, member: ConsumerGroupMember, epoch: int, assigned: Assignment) -> None:
        """Add a member that has its part of the target of this epoch."""
        self.add(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        member.member_epoch = member.previous_member_epoch = epoch
        self._own(member, assigned, NOTHING)
        self.target[member.member_id] = assigned

    def name_static(self, member: ConsumerGroupMember, instance_id: str) -> None:
        """Give a member an instance id, in place of another one if it had one."""
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        member.instance_id = instance_id
        self.static_members[instance_id] = member.member_id

    def remove(self, member: ConsumerGroupMember) -> None:
        """Remove a member with all it has; the others get it when the target is recomputed."""
        self._own(member, NOTHING, NOTHING)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]
        super().remove(member)

    def replace(self, member: ConsumerGroupMember, new_member_id: str) -> None:
        """Give a static member that comes back its new member id; it keeps its place and its partitions.

        Another member that has this id is removed: its process has restarted.
        """
        if new_member_id in self.members:
            self.remove(self.members[new_member_id])
        member.stop_timers()
        old_member_id = member.member_id
        assigned, pending = member.assigned, member.pending_revocation
        self._own(member, NOTHING, NOTHING)
        member.member_id = new_member_id
        self._own(member, assigned, pending)
        member.member_epoch = member.previous_member_epoch = 0
        self.members = {each.member_id: each for each in self.members.values()}
        self.target[new_member_id] = self.target.pop(old_member_id, NOTHING)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = new_member_id

    # the target

    def see_topics(self, topics: TopicRegistry) -> bool:
        """As ``ModernGroup.see_topics``, also for the topics that expressions stand for."""
        if self.has_to_look_at(topics):
            for member in self.members.values():
                self.match_topics(member, topics)
        return super().see_topics(topics)

    def match_topics(self, member: ConsumerGroupMember, topics: TopicRegistry) -> None:
        """Look for the topics that a member's expression stands for."""
        pattern = member.pattern
        member.matched_topics = frozenset(
            topic.name
            for topic in topics
            if pattern is not None and pattern.matches(topic.name) and member.may_describe(topic.name)
        )

    def assign(self) -> None:
        """Make the target of the present epoch."""
        self.assign_by(ASSIGNORS[self.assignor])

    def reconcile(self, member: ConsumerGroupMember, owned: Assignment | None) -> None:
        """Take a member one step nearer to the target; ``owned`` are the partitions that it reports, None if it reports
        none.
        """

        def still_has(partitions: Assignment) -> bool:
            return bool(partitions) and (owned is None or not owned.isdisjoint(partitions))

        if self.is_reconciled(member):
            return
        if member.state is MemberState.UNREVOKED_PARTITIONS and still_has(member.pending_revocation):
            return
        target = self.target.get(member.member_id, NOTHING)
        kept = member.assigned & target
        unwanted = member.assigned - kept
        missing = target - kept
        free = frozenset(each for each in missing if self._owners.get(each) in (None, member.member_id))
        member.previous_member_epoch = member.member_epoch
        if still_has(unwanted):
            self._own(member, kept, unwanted)
            _move(member, MemberState.UNREVOKED_PARTITIONS)
            return
        self._own(member, kept | free, NOTHING)
        member.member_epoch = self.assignment_epoch
        _move(member, MemberState.STABLE if missing == free else MemberState.UNRELEASED_PARTITIONS)

    def leave_for_a_while(self, member: ConsumerGroupMember) -> None:
        """A static member goes and may come back; its partitions are kept for it."""
        member.member_epoch = STATIC_MEMBER_AWAY
        self._own(member, member.assigned, NOTHING)

    # offsets

    def check_commit(
        self, member_id: str, member_epoch: int, *, is_transactional: bool, knows_member_epochs: bool
    ) -> None:
        """Raise unless this member may commit offsets.

        UnknownMemberIdError; StaleMemberEpochError, or IllegalGenerationError for a classic member; or
        UnsupportedVersionError for a version of OffsetCommit that has no member epochs.
        """
        if member_epoch < 0 and self.is_empty:
            return
        member = self.member(member_id)
        if not is_transactional and not knows_member_epochs and member.classic is None:
            raise UnsupportedVersionError(
                "OffsetCommit version 9 or above must be used by members using the modern group protocol"
            )
        _check_epoch(member, member_epoch)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise unless this member may fetch offsets. UnknownMemberIdError; StaleMemberEpochError, or for a classic
        member IllegalGenerationError.
        """
        if member_id is None and member_epoch < 0:
            return
        _check_epoch(self.member(member_id or ""), member_epoch)

    def owners(self) -> Iterator[tuple[TopicIdPartition, str]]:
        """Every partition that somebody has, with its owner's member id."""
        return iter(self._owners.items())

    # internals

    def _own(self, member: ConsumerGroupMember, assigned: Assignment, pending_revocation: Assignment) -> None:
        for partition in member.assigned | member.pending_revocation:
            del self._owners[partition]
        member.assigned, member.pending_revocation = assigned, pending_revocation
        self._owners.update(dict.fromkeys(assigned | pending_revocation, member.member_id))


def _move(member: ConsumerGroupMember, state: MemberState) -> None:
    if member.state is not state:
        member.state = MEMBER_STATES.transition(member.state, state)


def _check_epoch(member: ConsumerGroupMember, member_epoch: int) -> None:
    if member_epoch != member.member_epoch:
        if member.classic is not None:
            raise IllegalGenerationError(
                f"The received generation id {member_epoch} does not match the expected member epoch "
                f"{member.member_epoch}."
            )
        raise StaleMemberEpochError(
            f"The received member epoch {member_epoch} does not match the expected member epoch {member.member_epoch}."
        )
