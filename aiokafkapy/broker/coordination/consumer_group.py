"""One consumer group of KIP-848's protocol: members, epochs, the target assignment, and each member's way to it.

Owns the state of a group and the steps of reconciliation; it starts no timer and knows no request: that is
``consumer_groups.ConsumerGroupManager``. Kafka's counterparts are ``ConsumerGroup``, ``ConsumerGroupMember`` and
``CurrentAssignmentBuilder``.

Rules:

- the group's epoch grows with each change of members, subscriptions or topics; the target assignment is made anew for
  the newest epoch; a member's epoch is that of the target it has reached;
- a partition has one owner at most: it is a member's from when the member is told of it until the member has said that
  it gave it up, or is no member any more. Nobody else is told of it before;
- a member that must give partitions up stays in its epoch until it has;
- static members (KIP-345) are found by their instance id, which maps to one member id at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final
from uuid import UUID

from ...errors import FencedInstanceIdError, StaleMemberEpochError, UnknownMemberIdError, UnsupportedVersionError
from ...states import StateTable
from ..storage.topics import TopicRegistry
from .assignors import ASSIGNORS, Assignment, TopicIdPartition
from .scheduler import TimerHandle
from .topic_pattern import TopicPattern

__all__ = [
    "MEMBER_STATES",
    "STATIC_MEMBER_AWAY",
    "ConsumerGroup",
    "ConsumerGroupMember",
    "ConsumerGroupState",
    "MemberState",
]

STATIC_MEMBER_AWAY: Final = -2
"""The epoch of a static member that has left and may come back until its session ends."""

NOTHING: Final[Assignment] = frozenset()


class ConsumerGroupState(Enum):
    """The value is the name that ConsumerGroupDescribe and ListGroups give it. It follows from epochs and members."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberState(Enum):
    """How far a member is on its way to the target."""

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


class ConsumerGroupMember:
    """One member. ``assigned`` is what it is told to have, ``pending_revocation`` what it has still to give up."""

    __slots__ = (
        "assigned",
        "client_host",
        "client_id",
        "instance_id",
        "matched_topics",
        "may_describe",
        "member_epoch",
        "member_id",
        "pattern",
        "pending_revocation",
        "previous_member_epoch",
        "rack_id",
        "rebalance_timeout",
        "rebalance_timer",
        "server_assignor",
        "session_timer",
        "state",
        "subscribed_topic_names",
    )

    def __init__(self, member_id: str) -> None:
        # identity
        self.member_id = member_id
        self.instance_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        # settings; the time-out in seconds
        self.rack_id: str | None = None
        self.rebalance_timeout = 0.0
        self.server_assignor: str | None = None
        # subscription: by name, and by expression among those that the client may see
        self.subscribed_topic_names: frozenset[str] = frozenset()
        self.pattern: TopicPattern | None = None
        self.matched_topics: frozenset[str] = frozenset()
        self.may_describe: Callable[[str], bool] = bool
        # where it stands
        self.member_epoch = 0
        self.previous_member_epoch = 0
        self.state = MEMBER_STATES.initial
        self.assigned = NOTHING
        self.pending_revocation = NOTHING
        self.session_timer: TimerHandle | None = None
        self.rebalance_timer: TimerHandle | None = None

    @property
    def topics(self) -> frozenset[str]:
        """The names of all topics that it subscribes to, also of some that do not exist."""
        return self.subscribed_topic_names | self.matched_topics

    @property
    def regex(self) -> str:
        """Its expression as it was given, empty without one."""
        return "" if self.pattern is None else self.pattern.text

    def stop_timers(self) -> None:
        """Cancel both timers."""
        for timer in (self.session_timer, self.rebalance_timer):
            if timer is not None:
                timer.cancel()
        self.session_timer = self.rebalance_timer = None


class ConsumerGroup:
    """One group."""

    __slots__ = (
        "_owners",
        "_subscribed",
        "_topics_version",
        "assignment_epoch",
        "default_assignor",
        "group_epoch",
        "group_id",
        "members",
        "static_members",
        "target",
    )

    def __init__(self, group_id: str, default_assignor: str) -> None:
        self.group_id = group_id
        self.default_assignor = default_assignor
        # members by member id in order of joining; instance id -> member id
        self.members: dict[str, ConsumerGroupMember] = {}
        self.static_members: dict[str, str] = {}
        # epochs, and the target by member id that the second one belongs to
        self.group_epoch = 0
        self.assignment_epoch = 0
        self.target: dict[str, Assignment] = {}
        # the member that has a partition, or has still to give it up
        self._owners: dict[TopicIdPartition, str] = {}
        # the topics that somebody subscribes to: id and number of partitions by name; when it was seen
        self._subscribed: dict[str, tuple[UUID, int]] = {}
        self._topics_version = -1

    @property
    def is_empty(self) -> bool:
        """Whether there is no member."""
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        """How far the group is."""
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

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member subscribes to this topic."""
        return any(topic in member.topics for member in self.members.values())

    # members

    def member(self, member_id: str) -> ConsumerGroupMember:
        """A member. Raises UnknownMemberIdError."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

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

    def name_static(self, member: ConsumerGroupMember, instance_id: str) -> None:
        """Give a member an instance id, in place of another one if it had one."""
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        member.instance_id = instance_id
        self.static_members[instance_id] = member.member_id

    def remove(self, member: ConsumerGroupMember) -> None:
        """Remove a member with all it has; the others get it when the target is made anew."""
        member.stop_timers()
        self._own(member, NOTHING, NOTHING)
        del self.members[member.member_id]
        self.target.pop(member.member_id, None)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]
        self.group_epoch += 1

    def replace(self, member: ConsumerGroupMember, new_member_id: str) -> None:
        """Give a static member that comes back its new member id; it keeps its place and its partitions.

        Another member that has this id is removed: its process has begun anew.
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

    def has_to_look_at(self, topics: TopicRegistry) -> bool:
        """Whether any topic has come, gone or grown since ``see_topics``."""
        return topics.version != self._topics_version

    def see_topics(self, topics: TopicRegistry) -> bool:
        """Look at the topics again; whether those that are subscribed to are others, or have other partitions."""
        if self.has_to_look_at(topics):
            self._topics_version = topics.version
            for member in self.members.values():
                self.match_topics(member, topics)
        names = sorted(frozenset().union(*(member.topics for member in self.members.values())))
        found = ((name, topics.get(name)) for name in names)
        seen = {name: (topic.topic_id, len(topic.partitions)) for name, topic in found if topic is not None}
        before, self._subscribed = self._subscribed, seen
        return seen != before

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
        subscriptions = {
            member.member_id: {self._subscribed[name][0] for name in member.topics if name in self._subscribed}
            for member in self.members.values()
        }
        self.target = ASSIGNORS[self.assignor](subscriptions, dict(self._subscribed.values()), self.target)
        self.assignment_epoch = self.group_epoch

    def reconcile(self, member: ConsumerGroupMember, owned: Assignment | None) -> None:
        """Take a member one step nearer to the target; ``owned`` is what it says that it has, if it does say so."""

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
        """Raise unless offsets may be committed so.

        UnknownMemberIdError, StaleMemberEpochError, or UnsupportedVersionError for a version of OffsetCommit that has
        no member epochs.
        """
        if member_epoch < 0 and self.is_empty:
            return
        member = self.member(member_id)
        if not is_transactional and not knows_member_epochs:
            raise UnsupportedVersionError(
                "OffsetCommit version 9 or above must be used by members using the modern group protocol"
            )
        _check_epoch(member, member_epoch)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise unless offsets may be asked for so. UnknownMemberIdError, StaleMemberEpochError."""
        if member_id is None and member_epoch < 0:
            return
        _check_epoch(self.member(member_id or ""), member_epoch)

    # internals

    def owners(self) -> Iterator[tuple[TopicIdPartition, str]]:
        """Every partition that somebody has, with its owner's member id."""
        return iter(self._owners.items())

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
        raise StaleMemberEpochError(
            f"The received member epoch {member_epoch} does not match the expected member epoch {member.member_epoch}."
        )
