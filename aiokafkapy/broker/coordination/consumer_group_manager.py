"""The heartbeats of consumer groups: members come, live, rebalance and go, all by one request (KIP-848).

Owns the checks of a heartbeat, and the timers of members. ``consumer_group`` has a group's state and ``assignors`` the
assignment; ``classic_members`` has the requests of members of the classic protocol, ``group_migration`` makes groups of
one protocol from those of the other; ``group_coordinator`` has the groups of both, and committed offsets. Kafka's
counterpart is the consumer half of ``GroupMetadataManager``.

Rules:

- a heartbeat is answered at once: no member waits for another. A member learns of the others' changes by its next one;
- a heartbeat that is refused has changed nothing;
- a member without a heartbeat for the session time-out is removed, and so is one that does not give partitions up
  within its own rebalance time-out. A static member that has left stays until its session ends.

An expression is resolved with the heartbeat that brings it; Kafka does it after that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple
from uuid import uuid4

from ...errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    KafkaStorageError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from ..config import BrokerConfig
from ..scheduler import Scheduler, TimerHandle
from ..storage.topics import TopicRegistry
from .assignors import Assignment
from .classic_group import ClassicGroupState
from .consumer_group import STATIC_MEMBER_AWAY, ConsumerGroup, ConsumerGroupMember, MemberState
from .group_configs import GroupConfigs
from .group_directory import GroupDirectory
from .group_migration import GroupMigration
from .share_group import ShareGroup
from .topic_pattern import TopicPattern

__all__ = ["JOIN", "LEAVE", "ConsumerGroupHeartbeat", "ConsumerGroupManager", "HeartbeatResult"]

JOIN: Final = 0
LEAVE: Final = -1


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeat:
    """A ConsumerGroupHeartbeat; None stands for "as before". The time-out is float seconds."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout: float | None = None
    subscribed_topic_names: Sequence[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Assignment | None = None
    client_id: str = ""
    client_host: str = ""
    # From version 1 on members make their ids themselves (KIP-1082).
    requires_member_id: bool = True
    # Whether the client may see a topic of this name: an expression stands for no other.
    may_describe: Callable[[str], bool] = bool

    @property
    def is_full(self) -> bool:
        """Whether the request has every field, so that the answer has the assignment in any case."""
        return self.member_epoch == JOIN or None not in (
            self.rebalance_timeout,
            self.subscribed_topic_names,
            self.owned,
        )


class HeartbeatResult(NamedTuple):
    """The answer; ``assignment`` is None when it has not changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


class ConsumerGroupManager:
    """The groups of KIP-848's protocol, in a directory of groups that it shares with the classic ones."""

    def __init__(
        self,
        config: BrokerConfig,
        scheduler: Scheduler,
        topics: TopicRegistry,
        groups: GroupDirectory,
        configs: GroupConfigs,
        migration: GroupMigration,
    ) -> None:
        self._config = config
        self._scheduler = scheduler
        self._topics = topics
        self._groups = groups
        self._configs = configs
        self._migration = migration

    def new_group(self, group_id: str) -> ConsumerGroup:
        """An empty group, not yet in the directory."""
        return ConsumerGroup(group_id, self._config.group_consumer_assignors[0])

    def heartbeat(self, request: ConsumerGroupHeartbeat) -> HeartbeatResult:
        """Take a heartbeat: a join (epoch 0), a leave (-1, or -2 for a while), or a sign of life.

        Raises InvalidRequestError, UnsupportedAssignorError, GroupIdNotFoundError, GroupMaxSizeReachedError,
        UnknownMemberIdError, FencedMemberEpochError, UnreleasedInstanceIdError, FencedInstanceIdError or
        InvalidRegularExpressionError, with Kafka's message.
        """
        self._check(request)
        if request.member_epoch < 0:
            return self._leave(request)
        group = self._group_for(request)
        member_id = request.member_id or str(uuid4())
        largest = self._config.group_consumer_max_size
        if len(group.members) >= largest and member_id not in group.members:
            raise GroupMaxSizeReachedError(f"The consumer group has reached its maximum capacity of {largest} members.")
        member = self._member_for(group, request)
        # Nothing was changed up to here, and nothing is refused from here on.
        pattern = _pattern(request, member)
        is_new_group = group.group_epoch == 0
        if self._groups.get(group.group_id) is not group:
            self._migration.install(group)
            for classic in group.members.values():
                self.rearm(group, classic)
        member = self.place(group, member, member_id)
        is_changed = self._update(group, member, request, pattern)
        assigned, pending = member.assigned, member.pending_revocation
        self.bring_forward(group, member, request.owned, is_changed=is_changed or is_new_group)
        if member.pending_revocation != pending:
            member.stop_rebalance_timer()
        self.rearm(group, member)
        has_changed = member.assigned != assigned
        return HeartbeatResult(
            member.member_id,
            member.member_epoch,
            self._configs.heartbeat_interval_ms(group.group_id),
            member.assigned if request.is_full or has_changed else None,
        )

    # the parts that heartbeats and JoinGroups have in common

    def place(self, group: ConsumerGroup, member: ConsumerGroupMember | None, member_id: str) -> ConsumerGroupMember:
        """The member of this id: a new one, or the given one, which takes the id if it had another."""
        if member is None:
            member = ConsumerGroupMember(member_id)
            group.add(member)
        elif member.member_id != member_id:
            group.replace(member, member_id)
        if group.group_epoch > group.assignment_epoch:
            group.see_topics(self._topics)  # a member has left with its topics, and that began the epoch already
        return member

    def bring_forward(
        self, group: ConsumerGroup, member: ConsumerGroupMember, owned: Assignment | None, *, is_changed: bool
    ) -> None:
        """Begin an epoch if a member or topics have changed, and take the member one step nearer to its target."""
        has_other_topics = (is_changed or group.has_to_look_at(self._topics)) and group.see_topics(self._topics)
        if has_other_topics or is_changed:
            group.group_epoch += 1
        if group.group_epoch > group.assignment_epoch:
            group.assign()
        group.reconcile(member, owned)

    def rearm(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        """Begin a member's session anew; its time to give up partitions runs from the answer that asked for them."""
        if member.session_timer is not None:
            member.session_timer.cancel()
        if member.classic is None:
            member.session_timer = self.timer(group, member, self._configs.session_timeout(group.group_id))
        else:
            member.session_timer = self.timer(group, member, member.classic.session_timeout)
        if member.state is not MemberState.UNREVOKED_PARTITIONS or member.classic is not None:
            member.stop_rebalance_timer()
        elif member.rebalance_timer is None:
            member.rebalance_timer = self.timer(group, member, member.rebalance_timeout)

    def begin_sessions(self, group: ConsumerGroup) -> None:
        """Begin the sessions of all members anew, and the time of those that have to give up partitions."""
        for member in group.members.values():
            member.stop_timers()
            self.rearm(group, member)

    def timer(self, group: ConsumerGroup, member: ConsumerGroupMember, timeout: float) -> TimerHandle:
        """A timer that removes the member."""
        return self._scheduler.call_at(self._scheduler.time() + timeout, partial(self._drop, group, member))

    def remove(self, group: ConsumerGroup, leaving: Sequence[ConsumerGroupMember]) -> None:
        """Remove members, in one epoch; when only classic ones are left, it is a classic group from then on.

        Raises KafkaStorageError; then nothing has changed.
        """
        if self._migration.may_downgrade(group, leaving):
            self._migration.downgrade(group, leaving)
        else:
            group.remove_all(leaving)

    # checks

    def _check(self, request: ConsumerGroupHeartbeat) -> None:
        epoch = request.member_epoch
        if (request.requires_member_id or epoch > 0 or epoch == LEAVE) and not request.member_id:
            raise InvalidRequestError("MemberId can't be empty.")
        for name, value in (
            ("GroupId", request.group_id),
            ("InstanceId", request.instance_id),
            ("RackId", request.rack_id),
        ):
            if value == "":
                raise InvalidRequestError(f"{name} can't be empty.")
        if epoch == JOIN:
            _check_join(request)
        elif epoch == STATIC_MEMBER_AWAY and request.instance_id is None:
            raise InvalidRequestError("InstanceId can't be null.")
        elif epoch < STATIC_MEMBER_AWAY:
            raise InvalidRequestError("MemberEpoch is invalid.")
        known = self._config.group_consumer_assignors
        if request.server_assignor is not None and request.server_assignor not in known:
            raise UnsupportedAssignorError(
                f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(known)}."
            )

    def _group_for(self, request: ConsumerGroupHeartbeat) -> ConsumerGroup:
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None and request.member_epoch != JOIN:
            kind = "Group" if request.member_epoch < JOIN else "Consumer group"
            raise GroupIdNotFoundError(f"{kind} {request.group_id} not found.")
        if isinstance(group, ShareGroup) or (group is not None and request.member_epoch != JOIN):
            raise GroupIdNotFoundError(f"Group {request.group_id} is not a consumer group.")
        if group is None or group.state is ClassicGroupState.EMPTY:
            return self.new_group(request.group_id)
        return self._migration.upgraded(group)

    def _member_for(self, group: ConsumerGroup, request: ConsumerGroupHeartbeat) -> ConsumerGroupMember | None:
        """The sender's member, or the static one of its instance id, which it replaces; None for a new member."""
        if request.member_epoch != JOIN:
            member = _known_member(group, request)
        elif request.instance_id is None:
            found = group.members.get(request.member_id)
            if found is None:
                return None
            member = found
        else:
            return _static_predecessor(group, request)
        _check_epoch(member, request)
        return member

    # members

    def _update(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        request: ConsumerGroupHeartbeat,
        pattern: TopicPattern | None,
    ) -> bool:
        """Copy the request's fields to the member; returns whether the subscription has changed."""
        is_changed = member.take_over(
            request.client_id, request.client_host, request.rack_id, request.subscribed_topic_names
        )
        if request.instance_id is not None:
            group.name_static(member, request.instance_id)
        member.may_describe = request.may_describe
        if member.classic is not None:
            member.classic = None
            member.stop_timers()
        if request.rebalance_timeout is not None:
            member.rebalance_timeout = request.rebalance_timeout
        if request.server_assignor is not None:
            member.server_assignor = request.server_assignor
        if pattern is not member.pattern:
            member.pattern = pattern
            group.match_topics(member, self._topics)
            is_changed = True
        return is_changed

    def _leave(self, request: ConsumerGroupHeartbeat) -> HeartbeatResult:
        group = self._group_for(request)
        member = _known_member(group, request)
        if request.member_epoch == STATIC_MEMBER_AWAY:
            group.leave_for_a_while(member)
            member.stop_rebalance_timer()
        else:
            self.remove(group, [member])
        return HeartbeatResult(request.member_id, request.member_epoch)

    def _drop(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        """Remove a member whose time is over, if it is still there."""
        if group.members.get(member.member_id) is not member:
            return
        with suppress(KafkaStorageError):
            self.remove(group, [member])
            return
        group.remove(member)  # the group cannot become a classic one, and its member is gone all the same


def _check_join(request: ConsumerGroupHeartbeat) -> None:
    if request.rebalance_timeout is None:
        raise InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        raise InvalidRequestError("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequestError(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _pattern(request: ConsumerGroupHeartbeat, member: ConsumerGroupMember | None) -> TopicPattern | None:
    """The member's expression from now on: the same object if it has not changed."""
    before = None if member is None else member.pattern
    text = request.subscribed_topic_regex
    if text is None or text == ("" if before is None else before.text):
        return before
    return TopicPattern(text) if text else None


def _known_member(group: ConsumerGroup, request: ConsumerGroupHeartbeat) -> ConsumerGroupMember:
    if request.instance_id is not None:
        return group.static_member(request.instance_id, request.member_id)
    return group.member(request.member_id)


def _static_predecessor(group: ConsumerGroup, request: ConsumerGroupHeartbeat) -> ConsumerGroupMember | None:
    known = group.static_members.get(request.instance_id or "")
    if known is None:
        return group.members.get(request.member_id)
    if group.members[known].member_epoch != STATIC_MEMBER_AWAY and group.members[known].classic is None:
        raise UnreleasedInstanceIdError(
            f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group because "
            f"the instance id is owned by {known} member."
        )
    return group.members[known]


def _check_epoch(member: ConsumerGroupMember, request: ConsumerGroupHeartbeat) -> None:
    """Refuse an epoch other than the member's own. The previous one is accepted where the answer with the new one may
    have been lost: the member then owns no partition outside of its last assignment.
    """
    epoch, known = request.member_epoch, member.member_epoch
    is_subset = request.owned is not None and request.owned <= member.assigned
    if epoch > known or (epoch < known and not (epoch == member.previous_member_epoch and is_subset)):
        raise FencedMemberEpochError(
            f"The consumer group member has a {'greater' if epoch > known else 'smaller'} member epoch ({epoch}) than "
            f"the one known by the group coordinator ({known}). The member must abandon all its partitions and rejoin."
        )
