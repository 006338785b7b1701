"""The common part of consumer groups (KIP-848) and share groups (KIP-932): members, epochs, and the topics of a group.

Owns a group's members, their subscriptions, and the epoch of the target assignment. The
way of a member to the target is each kind's own. Kafka's counterparts are ``ModernGroup`` and ``ModernGroupMember``.

Rule: the group's epoch grows with each change of members, subscriptions or topics; the target is recomputed for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Generic, TypeVar
from uuid import UUID

from ...errors import UnknownMemberIdError
from ..scheduler import TimerHandle
from ..storage.topics import TopicRegistry
from .assignors import Assignment, Assignor

__all__ = ["NOTHING", "ModernGroup", "ModernGroupMember"]

NOTHING: Final[Assignment] = frozenset()


class ModernGroupMember:
    """One member; ``assigned`` are the partitions of its last response."""

    __slots__ = (
        "assigned",
        "client_host",
        "client_id",
        "member_epoch",
        "member_id",
        "previous_member_epoch",
        "rack_id",
        "session_timer",
        "subscribed_topic_names",
    )

    def __init__(self, member_id: str) -> None:
        # identity
        self.member_id = member_id
        self.client_id = ""
        self.client_host = ""
        self.rack_id: str | None = None
        # subscription
        self.subscribed_topic_names: frozenset[str] = frozenset()
        # progress
        self.member_epoch = 0
        self.previous_member_epoch = 0
        self.assigned = NOTHING
        self.session_timer: TimerHandle | None = None

    @property
    def topics(self) -> frozenset[str]:
        """The names of all topics that it subscribes to, also of some that do not exist."""
        return self.subscribed_topic_names

    def take_over(
        self, client_id: str, client_host: str, rack_id: str | None, subscribed_topic_names: Sequence[str] | None
    ) -> bool:
        """Take a heartbeat's fields, of which None means unchanged; returns whether the subscribed names have
        changed.
        """
        self.client_id, self.client_host = client_id, client_host
        if rack_id is not None:
            self.rack_id = rack_id
        if subscribed_topic_names is None:
            return False
        before, self.subscribed_topic_names = self.subscribed_topic_names, frozenset(subscribed_topic_names)
        return self.subscribed_topic_names != before

    def stop_timers(self) -> None:
        """Cancel the timer of its session."""
        if self.session_timer is not None:
            self.session_timer.cancel()
        self.session_timer = None


M = TypeVar("M", bound=ModernGroupMember)


class ModernGroup(Generic[M]):
    """One group."""

    __slots__ = ("_subscribed", "_topics_version", "assignment_epoch", "group_epoch", "group_id", "members", "target")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        # by member id, in order of joining
        self.members: dict[str, M] = {}
        # epochs, and the target by member id, which belongs to the assignment epoch
        self.group_epoch = 0
        self.assignment_epoch = 0
        self.target: dict[str, Assignment] = {}
        # the topics that somebody subscribes to: id and number of partitions by name; the version at which they were
        # seen
        self._subscribed: dict[str, tuple[UUID, int]] = {}
        self._topics_version = -1

    @property
    def is_empty(self) -> bool:
        """Whether there is no member."""
        return not self.members

    @property
    def subscribed(self) -> dict[UUID, int]:
        """The ids of the topics that somebody subscribes to, with their numbers of partitions."""
        return dict(self._subscribed.values())

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member subscribes to this topic."""
        return any(topic in member.topics for member in self.members.values())

    # members

    def member(self, member_id: str) -> M:
        """A member. Raises UnknownMemberIdError."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def remove(self, member: M) -> None:
        """Remove a member; the others get its partitions when the target is recomputed."""
        member.stop_timers()
        del self.members[member.member_id]
        self.target.pop(member.member_id, None)
        self.group_epoch += 1

    def remove_all(self, members: Iterable[M]) -> None:
        """Remove some members, in one epoch."""
        epoch = self.group_epoch + 1
        for member in members:
            self.remove(member)
        self.group_epoch = epoch

    def drop(self, member: M) -> None:
        """Remove a member if it is still there: its session has ended."""
        if self.members.get(member.member_id) is member:
            self.remove(member)

    # the target

    def has_to_look_at(self, topics: TopicRegistry) -> bool:
        """Whether any topic has come, gone or grown since ``see_topics``."""
        return topics.version != self._topics_version

    def see_topics(self, topics: TopicRegistry) -> bool:
        """Look at the topics again; returns whether the subscribed ones, or their partitions, have changed."""
        self._topics_version = topics.version
        names = sorted(frozenset().union(*(member.topics for member in self.members.values())))
        found = ((name, topics.get(name)) for name in names)
        seen = {name: (topic.topic_id, len(topic.partitions)) for name, topic in found if topic is not None}
        before, self._subscribed = self._subscribed, seen
        return seen != before

    def assign_by(self, assignor: Assignor) -> None:
        """Make the target of the present epoch."""
        subscriptions = {
            member.member_id: {self._subscribed[name][0] for name in member.topics if name in self._subscribed}
            for member in self.members.values()
        }
        self.target = assignor(subscriptions, self.subscribed, self.target)
        self.assignment_epoch = self.group_epoch
