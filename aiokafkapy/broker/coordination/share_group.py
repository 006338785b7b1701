"""One share group: its members, its epochs, and the partitions of each member, which it may have with others (KIP-932).

Owns the state of a group; it starts no timer and knows no request: that is ``share_group_manager.ShareGroupManager``.
It knows no records: see ``share_partition``. Kafka's counterparts are ``ShareGroup`` and ``ShareGroupMember``.

Rules:

- the group's epoch grows with each change of members, subscriptions or topics; the assignment is recomputed for it;
- a member gets the partitions of the newest assignment with its next heartbeat: no member has to revoke any first.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ...errors import FencedMemberEpochError
from .assignors import simple_assignor
from .modern_group import NOTHING, ModernGroup, ModernGroupMember

__all__ = ["SHARE_ASSIGNOR", "ShareGroup", "ShareGroupMember", "ShareGroupState"]

SHARE_ASSIGNOR: Final = "simple"
"""The name of the one assignor of share groups."""


class ShareGroupState(Enum):
    """The value is the name that ShareGroupDescribe and ListGroups give it. It follows from the members."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroupMember(ModernGroupMember):
    """One member."""

    __slots__ = ()


class ShareGroup(ModernGroup[ShareGroupMember]):
    """One group."""

    __slots__ = ()

    @property
    def state(self) -> ShareGroupState:
        """The state of the group."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def check_epoch(self, member: ShareGroupMember, epoch: int) -> None:
        """Refuse any epoch but the member's own; the previous one is accepted, since the answer with the new one may
        have been lost. FencedMemberEpochError.
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

    def assign(self) -> None:
        """Make the assignment of the present epoch."""
        self.assign_by(simple_assignor)

    def reconcile(self, member: ShareGroupMember) -> None:
        """Take a member to the newest assignment."""
        if member.member_epoch != self.assignment_epoch:
            member.previous_member_epoch = member.member_epoch
            member.member_epoch = self.assignment_epoch
            member.assigned = self.target.get(member.member_id, NOTHING)
