"""One share group: its members, its epochs, and the partitions of each member, which it may have with others (KIP-932).

Owns the state of a group; it starts no timer and knows no request: that is ``share_groups.ShareGroupManager``. Records
are nothing to it: see ``share_partition``. Kafka's counterparts are ``ShareGroup`` and ``ShareGroupMember``.

Rules:

- the group's epoch grows with each change of members, subscriptions or topics; the assignment is made anew for it;
- a member has the partitions of the newest assignment from its next heartbeat on: nobody has to give any up before.
"""

from __future__ import annotations

from enum import Enum
from typing import Final
from uuid import UUID

from ...errors import FencedMemberEpochError, UnknownMemberIdError
from ..storage.topics import TopicRegistry
from .assignors import Assignment, simple_assignor
from .scheduler import TimerHandle

__all__ = ["SHARE_ASSIGNOR", "ShareGroup", "ShareGroupMember", "ShareGroupState"]

SHARE_ASSIGNOR: Final = "simple"
"""The name of the one assignor of share groups."""

NOTHING: Final[Assignment] = frozenset()


class ShareGroupState(Enum):
    """The value is the name that ShareGroupDescribe and ListGroups give it. It follows from the members."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroupMember:
    """One member; ``assigned`` is what it was told to have."""

    __slots__ = (
        "assigned",
        "client_host",
        "client_id",
        "member_epoch",
        "member_id",
        "previous_member_epoch",
        "rack_id",
        "session_timer",
        "topics",
    )

    def __init__(self, member_id: str) -> None:
        # identity
        self.member_id = member_id
        self.client_id = ""
        self.client_host = ""
        self.rack_id: str | None = None
        # subscription, by names
        self.topics: frozenset[str] = frozenset()
        # where it stands
        self.member_epoch = 0
        self.previous_member_epoch = 0
        self.assigned = NOTHING
        self.session_timer: TimerHandle | None = None

    def stop_timers(self) -> None:
        """Cancel the timer of its session."""
        if self.session_timer is not None:
            self.session_timer.cancel()
        self.session_timer = None


class ShareGroup:
    """One group."""

    __slots__ = ("_subscribed", "_topics_version", "assignment_epoch", "group_epoch", "group_id", "members", "target")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        # by member id, in order of joining
        self.members: dict[str, ShareGroupMember] = {}
        # epochs, and the assignment by member id that the second one belongs to
        self.group_epoch = 0
        self.assignment_epoch = 0
        self.target: dict[str, Assignment] = {}
        # the topics that somebody subscribes to: id and number of partitions by name; when it was seen
        self._subscribed: dict[str, tuple[UUID, int]] = {}
        self._topics_version = -1

    @property
    def is_empty(self) -> bool:
        """Whether there is no member."""
        return not self.members

    @property
    def state(self) -> ShareGroupState:
        """How far the group is."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def subscribed(self) -> dict[UUID, int]:
        """The ids of the topics that somebody subscribes to, with their numbers of partitions."""
        return dict(self._subscribed.values())

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member subscribes to this topic."""
        return any(topic in member.topics for member in self.members.values())

    # members

    def member(self, member_id: str) -> ShareGroupMember:
        """A member. Raises UnknownMemberIdError."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def check_epoch(self, member: ShareGroupMember, epoch: int) -> None:
        """Refuse another epoch than the member's own; but the one before is believed, when the answer with the new one
        may have been lost. FencedMemberEpochError.
        """
        known, previous = member.member_epoch, member.previous_member_epoch
        if epoch > known:
            raise FencedMemberEpochError(
                f"The share group member has a greater member epoch ({epoch}) than the one known by the group "
                f"coordinator ({known}). The member must abandon all its partitions and rejoin."
            )
        if epoch < known and epoch != previous:
            raise FencedMemberEpochError(
                f"The share group member has a smaller member epoch ({epoch}) than the one known by the group "
                f"coordinator ({known}), and it does not match the previous member epoch ({previous}). The member must "
                "abandon all its partitions and rejoin."
            )

    def remove(self, member: ShareGroupMember) -> None:
        """Remove a member; the others get its partitions when the assignment is made anew."""
        member.stop_timers()
        del self.members[member.member_id]
        self.target.pop(member.member_id, None)
        self.group_epoch += 1

    # the assignment

    def has_to_look_at(self, topics: TopicRegistry) -> bool:
        """Whether any topic has come, gone or grown since ``see_topics``."""
        return topics.version != self._topics_version

    def see_topics(self, topics: TopicRegistry) -> bool:
        """Look at the topics again; whether those that are subscribed to are others, or have other partitions."""
        self._topics_version = topics.version
        names = sorted(frozenset().union(*(member.topics for member in self.members.values())))
        found = ((name, topics.get(name)) for name in names)
        seen = {name: (topic.topic_id, len(topic.partitions)) for name, topic in found if topic is not None}
        before, self._subscribed = self._subscribed, seen
        return seen != before

    def assign(self) -> None:
        """Make the assignment of the present epoch."""
        subscriptions = {
            member.member_id: {self._subscribed[name][0] for name in member.topics if name in self._subscribed}
            for member in self.members.values()
        }
        self.target = simple_assignor(subscriptions, self.subscribed, self.target)
        self.assignment_epoch = self.group_epoch

    def reconcile(self, member: ShareGroupMember) -> None:
        """Take a member to the newest assignment."""
        if member.member_epoch != self.assignment_epoch:
            member.previous_member_epoch = member.member_epoch
            member.member_epoch = self.assignment_epoch
            member.assigned = self.target.get(member.member_id, NOTHING)
