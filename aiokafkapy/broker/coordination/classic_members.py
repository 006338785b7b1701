"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-848).

Owns these requests to a group that ``group_migration`` has made a consumer group, or that a classic member joins later.
The group assigns, not a leader: a JoinGroup is answered at once, with the member's epoch as the generation, and nobody
leads. ``consumer_group_manager`` has the members' timers and steps. Kafka's counterparts are the methods
``…ToConsumerGroup`` of ``GroupMetadataManager``.

Rules:

- a member learns by its Heartbeat that it has to join again: there is a newer target, or it has partitions to give up,
  or some that it waited for are free. It reports its partitions in its subscription;
- a member that does not join again within its rebalance time-out is removed, and so is one that does not sync;
- any member can be removed by LeaveGroup, of either protocol, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import uuid4

from ...errors import (
    BrokerError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    MalformedFrameError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownServerError,
)
from ...protocol.consumer_protocol import PROTOCOL_TYPE, Subscription, decode_subscription
from ..config import BrokerConfig
from ..storage.topics import TopicRegistry
from .classic_group import JoinRequest, JoinResult, MemberIdentity, SyncRequest, SyncResult, code_of
from .consumer_group import ClassicMembership, ConsumerGroup, ConsumerGroupMember, MemberState
from .consumer_group_manager import ConsumerGroupManager
from .group_migration import GroupMigration, assignment_for, by_id

__all__ = ["ClassicMembers"]


class ClassicMembers:
    """The classic members of consumer groups."""

    def __init__(
        self, config: BrokerConfig, topics: TopicRegistry, manager: ConsumerGroupManager, migration: GroupMigration
    ) -> None:
        self._config = config
        self._topics = topics
        self._manager = manager
        self._migration = migration

    def join(self, group: ConsumerGroup, request: JoinRequest, respond: Callable[[JoinResult], None]) -> None:
        """Take a JoinGroup to a group that has members, and answer it; errors without the member's id, as Kafka."""
        member_id = request.member_id or str(uuid4())
        try:
            self._check_join(group, request, member_id)
            if request.requires_known_member_id and not request.member_id and request.group_instance_id is None:
                respond(JoinResult(error_code=code_of(MemberIdRequiredError()), member_id=member_id))
                return
            member = self._joined(group, request, member_id)
        except BrokerError as error:
            respond(JoinResult(error_code=code_of(error)))
            return
        respond(
            JoinResult(
                member_id=member.member_id,
                generation_id=member.member_epoch,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=request.protocols[0][0],
            )
        )

    def sync(self, group: ConsumerGroup, request: SyncRequest) -> SyncResult:
        """The member's partitions. Raises the error to answer with."""
        member, classic = _member_of_generation(group, request.member)
        name, metadata = classic.protocols[0]
        if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise InconsistentGroupProtocolError
        if group.group_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._await_join(group, member)
            raise RebalanceInProgressError
        member.stop_sync_timer()
        self._manager.rearm(group, member)
        assignment = assignment_for(metadata, member.assigned, self._topics)
        return SyncResult(0, assignment, request.protocol_type, request.protocol_name)

    def heartbeat(self, group: ConsumerGroup, identity: MemberIdentity) -> None:
        """Note that a member lives. Raises RebalanceInProgressError when it must join again, another error if
        unknown.
        """
        member, _ = _member_of_generation(group, identity)
        self._manager.rearm(group, member)
        if group.must_join_again(member):
            self._await_join(group, member)
            raise RebalanceInProgressError

    def leave(self, group: ConsumerGroup, leaving: Sequence[MemberIdentity]) -> list[BrokerError | None]:
        """Remove members, in one epoch; the error of each. Raises KafkaStorageError, and nobody has left."""
        found: list[ConsumerGroupMember] = []
        errors: list[BrokerError | None] = []
        for each in leaving:
            try:
                member = _member(group, each, may_be_unnamed=True)
                errors.append(None)
                if member not in found:
                    found.append(member)
            except BrokerError as error:
                errors.append(error)
        if found:
            self._manager.remove(group, found)
        return errors

    # internals

    def _check_join(self, group: ConsumerGroup, request: JoinRequest, member_id: str) -> None:
        if len(group.members) >= self._config.group_consumer_max_size and member_id not in group.members:
            raise GroupMaxSizeReachedError
        if not group.supports(request.protocol_type, request.protocols):
            raise InconsistentGroupProtocolError

    def _joined(self, group: ConsumerGroup, request: JoinRequest, member_id: str) -> ConsumerGroupMember:
        subscription = _subscription(request)
        known = _member_that_joins(group, request)
        is_last_but_classic = (
            known is not None
            and known.classic is None
            and known.member_id != member_id
            and self._migration.may_downgrade(group, [known], joining=1)
        )
        # Nothing was changed up to here.
        member = self._manager.place(group, known, member_id)
        is_changed = _update(group, member, request, subscription)
        self._manager.bring_forward(group, member, by_id(subscription.owned, self._topics), is_changed=is_changed)
        member.stop_join_timer()
        member.stop_sync_timer()
        if is_last_but_classic:
            self._migration.downgrade(group)
        else:
            self._manager.rearm(group, member)
            member.sync_timer = self._manager.timer(group, member, member.rebalance_timeout)
        return member

    def _await_join(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        if member.join_timer is None:
            member.join_timer = self._manager.timer(group, member, member.rebalance_timeout)


def _subscription(request: JoinRequest) -> Subscription:
    try:
        return decode_subscription(request.protocols[0][1])
    except MalformedFrameError as error:
        raise UnknownServerError(f"Malformed embedded consumer protocol in subscription: {error}") from None


def _member_that_joins(group: ConsumerGroup, request: JoinRequest) -> ConsumerGroupMember | None:
    """The sender's member, or the static one that it replaces; None for a new member."""
    if request.group_instance_id is None:
        return group.members.get(request.member_id)
    if request.member_id:
        return group.static_member(request.group_instance_id, request.member_id)
    known = group.static_members.get(request.group_instance_id)
    return None if known is None else group.members[known]


def _update(
    group: ConsumerGroup, member: ConsumerGroupMember, request: JoinRequest, subscription: Subscription
) -> bool:
    """Take over the request's fields; returns whether the subscription has changed."""
    if member.classic is None:
        member.stop_timers()
    member.classic = ClassicMembership(request.session_timeout, tuple(request.protocols))
    member.rebalance_timeout = request.rebalance_timeout
    if request.group_instance_id is not None:
        group.name_static(member, request.group_instance_id)
    return member.take_over(request.client_id, request.client_host, subscription.rack_id, subscription.topics)


def _member_of_generation(
    group: ConsumerGroup, identity: MemberIdentity
) -> tuple[ConsumerGroupMember, ClassicMembership]:
    member = _member(group, identity)
    if member.classic is None:
        raise UnknownMemberIdError
    if member.member_epoch != identity.generation_id:
        raise IllegalGenerationError
    return member, member.classic


def _member(group: ConsumerGroup, identity: MemberIdentity, *, may_be_unnamed: bool = False) -> ConsumerGroupMember:
    """The member, by its instance id if it has one; an administrator may leave its member id out."""
    if identity.group_instance_id is None:
        return group.member(identity.member_id)
    if may_be_unnamed and not identity.member_id:
        known = group.static_members.get(identity.group_instance_id)
        if known is None:
            raise UnknownMemberIdError
        return group.members[known]
    return group.static_member(identity.group_instance_id, identity.member_id)
