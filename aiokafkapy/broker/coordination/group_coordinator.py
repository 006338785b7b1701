"""The group coordinator: groups of all protocols, the classic one's requests, and committed offsets.

Owns all groups and decides every join, sync, heartbeat, leave and commit; ``rebalance`` has the consequences for a
group. Groups of KIP-848's protocol have their heartbeats in ``consumer_group_manager``, and the classic protocol's
requests in ``classic_members``; share groups are in ``share_group_manager``, and their records in
``share_partition_manager``. It knows no message class, no socket and no node: answers go to a callback, times come from
a ``Scheduler``. Kafka's counterparts are ``GroupCoordinator`` and ``GroupMetadataManager`` (its classic half).

The life of a classic group: the first JoinGroup moves it to PREPARING_REBALANCE, where all members' JoinGroups are
gathered (members that do not join within the rebalance time-out are dropped); then COMPLETING_REBALANCE with a new
generation, where all wait for the leader's SyncGroup; then STABLE, until someone joins, leaves, is not heard of for its
session time-out, or the leader joins again.

Rules:

- an answer may be given before the call returns; it is given once;
- members live in memory only: after a restart they are told UNKNOWN_MEMBER_ID and join again. Offsets are kept;
- a group without members becomes one of the other protocol when a member of that one joins; ``group_migration``
  decides about groups with members.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from ...common import TopicPartition
from ...errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    MemberIdRequiredError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from ..config import BrokerConfig
from ..scheduler import Scheduler
from ..storage.topics import TopicRegistry
from .classic_group import (
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
    JoinRequest,
    JoinResult,
    MemberIdentity,
    SyncRequest,
    SyncResult,
    code_of,
)
from .classic_members import ClassicMembers
from .consumer_group import ConsumerGroup
from .consumer_group_manager import ConsumerGroupManager
from .group_configs import GroupConfigs
from .group_directory import AnyGroup, GroupDirectory
from .group_migration import GroupMigration
from .group_offsets import CommittedOffset, OffsetStore
from .rebalance import GroupRebalancer
from .share_group import ShareGroup
from .share_group_manager import ShareGroupManager
from .share_partition_manager import SharePartitionManager

__all__ = ["GroupCoordinator"]

RespondJoin = Callable[[JoinResult], None]
RespondSync = Callable[[SyncResult], None]


class GroupCoordinator:
    """All groups of the cluster."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicRegistry,
        *,
        scheduler: Scheduler,
        clock: Callable[[], int],
        data_dir: Path | str | None = None,
    ) -> None:
        """Reads the offsets committed in ``data_dir``; the ``clock`` has the milliseconds of wall time. OSError."""
        self._config = config
        self._scheduler = scheduler
        self._rebalancer = GroupRebalancer(config, scheduler)
        self._groups = GroupDirectory()
        # wall time in milliseconds at which each group that is empty was last seen to be in use
        self._in_use_at: dict[str, int] = {}
        self.offsets = OffsetStore(data_dir)
        self.configs = GroupConfigs(config)
        migration = GroupMigration(config, topics, self._groups, self._rebalancer, self.offsets.note_type)
        self.consumer_groups = ConsumerGroupManager(config, scheduler, topics, self._groups, self.configs, migration)
        self._classic_members = ClassicMembers(config, topics, self.consumer_groups, migration)
        self.share_partitions = SharePartitionManager(config, topics, self.configs, scheduler, clock, data_dir=data_dir)
        self.share_groups = ShareGroupManager(
            config,
            scheduler,
            topics,
            self._groups,
            self.configs,
            lambda group: self.share_partitions.add(group.group_id, group.subscribed),
        )
        for group_id in self.share_partitions.groups():
            self._groups.put(ShareGroup(group_id))
        for group_id in self.offsets.groups():
            is_consumer = group_id in self.offsets.consumer_groups
            self._groups.put(self.consumer_groups.new_group(group_id) if is_consumer else ClassicGroup(group_id))

    # looking up

    def get(self, group_id: str) -> AnyGroup | None:
        """The group, or None."""
        return self._groups.get(group_id)

    def __iter__(self) -> Iterator[AnyGroup]:
        return iter(self._groups)

    # the coordinating node

    def pause(self, group_id: str) -> None:
        """No node coordinates the group: no timer of its members runs until ``begin_sessions``."""
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            self._rebalancer.pause(group)
        elif group is not None:
            for member in group.members.values():
                member.stop_timers()

    def begin_sessions(self, group_id: str) -> None:
        """Another node coordinates the group: as in Kafka the sessions of its members begin anew."""
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            self._rebalancer.begin_sessions(group)
        elif isinstance(group, ConsumerGroup):
            self.consumer_groups.begin_sessions(group)
        elif group is not None:
            self.share_groups.begin_sessions(group)

    # joining

    def join(self, request: JoinRequest, respond: RespondJoin) -> None:
        """Take a JoinGroup; ``respond`` is called when the group is complete, or at once with an error."""
        try:
            self._check_join(request)
            found = self._groups.get(request.group_id)
            if isinstance(found, ConsumerGroup) and not found.is_empty:
                self._classic_members.join(found, request, respond)
                return
            group = self._group_to_join(request)
            if request.member_id:
                self._join_again(group, request, respond)
            elif request.group_instance_id is not None:
                self._join_static(group, request, respond)
            else:
                self._join_new(group, request, respond)
        except BrokerError as error:
            respond(JoinResult(error_code=code_of(error), member_id=request.member_id))

    def sync(self, request: SyncRequest, respond: RespondSync) -> None:
        """Take a SyncGroup; ``respond`` is called when the leader has assigned, or at once with an error."""
        try:
            found = self._groups.get(request.member.group_id)
            if isinstance(found, ConsumerGroup):
                respond(self._classic_members.sync(found, request))
                return
            group, member = self._member_of_generation(request.member)
            _check_protocol(group, request)
            if group.state is ClassicGroupState.PREPARING_REBALANCE:
                raise RebalanceInProgressError
            self._rebalancer.note_synced(group, member)
            if group.state is ClassicGroupState.STABLE:
                self._rebalancer.rearm(group, member)
                respond(SyncResult(0, member.assignment, group.protocol_type, group.protocol_name))
                return
        except BrokerError as error:
            respond(SyncResult(error_code=code_of(error)))
            return
        member.answer_sync(SyncResult(error_code=code_of(RebalanceInProgressError())))
        member.sync_response = respond
        if member.member_id == group.leader:
            self._rebalancer.assign(group, request.assignments)

    def heartbeat(self, identity: MemberIdentity) -> None:
        """Note that a member lives. Raises RebalanceInProgressError when it must join again, another error if
        unknown.
        """
        found = self._groups.get(identity.group_id)
        if isinstance(found, ConsumerGroup):
            self._classic_members.heartbeat(found, identity)
            return
        group, member = self._member_of_generation(identity)
        self._rebalancer.rearm(group, member)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            raise RebalanceInProgressError

    def leave_all(self, leaving: Sequence[MemberIdentity]) -> list[BrokerError | None]:
        """Remove members of one group, static ones by instance id; returns the error of each. Raises KafkaStorageError.

        The errors are InvalidGroupIdError, UnknownMemberIdError, and FencedInstanceIdError.
        """
        group = self._groups.get(leaving[0].group_id) if leaving else None
        if isinstance(group, ConsumerGroup):
            return self._classic_members.leave(group, leaving)
        errors: list[BrokerError | None] = []
        for each in leaving:
            try:
                self._leave(each)
                errors.append(None)
            except BrokerError as error:
                errors.append(error)
        return errors

    # offsets

    def commit(
        self,
        identity: MemberIdentity,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        knows_member_epochs: bool = True,
    ) -> None:
        """Commit offsets for a member, or from outside of any generation (-1) while the group is empty.

        ``knows_member_epochs`` is for a request of version 9 or later (KIP-848). Raises the error for the member's
        response, or KafkaStorageError; then nothing was committed.
        """
        group = self._groups.get(identity.group_id)
        if group is None:
            if identity.generation_id >= 0:
                if knows_member_epochs:
                    raise GroupIdNotFoundError(f"Group {identity.group_id} not found.")
                raise IllegalGenerationError
            _check_group_id(identity.group_id, may_be_empty=True)
            group = ClassicGroup(identity.group_id)
            self._groups.put(group)
        if isinstance(group, ConsumerGroup):
            group.check_commit(
                identity.member_id,
                identity.generation_id,
                is_transactional=False,
                knows_member_epochs=knows_member_epochs,
            )
        elif isinstance(group, ShareGroup):
            raise GroupIdNotFoundError(f"Group {identity.group_id} is not a consumer group.")
        else:
            self._check_commit(group, identity)
        self.offsets.commit(identity.group_id, offsets)
        self._in_use_at.pop(identity.group_id, None)

    def commit_in_transaction(
        self, identity: MemberIdentity, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Take offsets that count when the producer's transaction is committed (KIP-447).

        Raises the error for the member's response, or KafkaStorageError; then nothing was taken.
        """
        group = self._groups.get(identity.group_id)
        if group is not None:
            self._check_commit_in_transaction(group, identity)
        elif identity.generation_id >= 0:
            raise IllegalGenerationError
        else:
            _check_group_id(identity.group_id, may_be_empty=True)
        self.offsets.add_pending(identity.group_id, producer_id, offsets)
        if group is None:
            self._groups.put(ClassicGroup(identity.group_id))
        self._in_use_at.pop(identity.group_id, None)

    def delete(self, group_id: str) -> None:
        """Delete a group and its offsets. Raises GroupIdNotFoundError, NonEmptyGroupError, KafkaStorageError."""
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        if not _is_unused(group):
            raise NonEmptyGroupError
        # On disk first: a group that is gone from memory alone would be there again after a restart.
        self.offsets.delete(group_id)
        self.share_partitions.delete(group_id)
        if isinstance(group, ClassicGroup):
            group.transition(ClassicGroupState.DEAD)
        self._groups.remove(group_id)
        self._in_use_at.pop(group_id, None)

    def expire(self, timestamp_ms: int) -> None:
        """Delete the groups that have had no member and no commit for ``offsets.retention.minutes`` of wall time.

        A group is as old as the first call that saw it, so a restart makes all of them young. Share groups stay, as in
        Kafka: they commit nothing. Raises KafkaStorageError.
        """
        oldest = timestamp_ms - self._config.offsets_retention_minutes * 60_000
        for group in self._groups:
            if isinstance(group, ShareGroup):
                continue
            group_id = group.group_id
            if not _is_unused(group) or self.offsets.has_pending(group_id):
                self._in_use_at[group_id] = timestamp_ms
            elif self._in_use_at.setdefault(group_id, timestamp_ms) < oldest:
                self.delete(group_id)

    def close(self) -> None:
        """Stop all timers and close the file. Waiting members get no answer: their connections end too."""
        for group in self._groups:
            self._groups.remove(group.group_id)
            if isinstance(group, ClassicGroup):
                group.stop_timers()
                continue
            for member in group.members.values():
                member.stop_timers()
        self.offsets.close()
        self.share_partitions.close()

    # internals: checks

    def _leave(self, identity: MemberIdentity) -> None:
        """Remove a member of a classic group, found by its instance id if it has one."""
        group, member_id = self._existing(identity.group_id), identity.member_id
        if identity.group_instance_id is not None:
            known = group.static_members.get(identity.group_instance_id)
            if known is None:
                raise UnknownMemberIdError
            if member_id and member_id != known:
                raise FencedInstanceIdError
            self._rebalancer.drop_member(group, known)
        elif member_id in group.pending_members:
            self._rebalancer.drop_pending(group, member_id)
        elif member_id in group.members:
            self._rebalancer.drop_member(group, member_id)
        else:
            raise UnknownMemberIdError

    def _check_join(self, request: JoinRequest) -> None:
        _check_group_id(request.group_id)
        low, high = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if not low <= round(request.session_timeout * 1000) <= high:
            raise InvalidSessionTimeoutError

    def _group_to_join(self, request: JoinRequest) -> ClassicGroup:
        group = self._groups.get(request.group_id)
        if isinstance(group, ShareGroup):
            raise InconsistentGroupProtocolError
        if isinstance(group, ConsumerGroup):  # an empty one, which becomes a classic group
            group = None
        if group is None:
            if request.member_id:
                raise UnknownMemberIdError
            group = ClassicGroup(request.group_id)
        if not group.supports(request.protocol_type, request.protocols):
            raise InconsistentGroupProtocolError
        if len(group.members) + len(group.pending_members) >= self._config.group_max_size and not (
            request.member_id in group.members
            or request.member_id in group.pending_members
            or request.group_instance_id in group.static_members
        ):
            raise GroupMaxSizeReachedError
        self.offsets.note_type(request.group_id, is_consumer=False)
        self._groups.put(group)
        return group

    def _existing(self, group_id: str) -> ClassicGroup:
        _check_group_id(group_id)
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise UnknownMemberIdError
        return group

    def _member_of_generation(self, identity: MemberIdentity) -> tuple[ClassicGroup, ClassicGroupMember]:
        group = self._existing(identity.group_id)
        member = _known_member(group, identity)
        if identity.generation_id != group.generation_id:
            raise IllegalGenerationError
        return group, member

    def _check_commit_in_transaction(self, group: AnyGroup, identity: MemberIdentity) -> None:
        """Check the member; a request that names none is accepted, as before KIP-447."""
        if isinstance(group, ConsumerGroup):
            try:
                group.check_commit(
                    identity.member_id, identity.generation_id, is_transactional=True, knows_member_epochs=True
                )
            except StaleMemberEpochError:
                raise IllegalGenerationError from None
        elif isinstance(group, ShareGroup):
            raise GroupIdNotFoundError(f"Group {identity.group_id} is not a consumer group.")
        elif identity.member_id or identity.generation_id >= 0 or identity.group_instance_id is not None:
            _known_member(group, identity)
            if identity.generation_id != group.generation_id:
                raise IllegalGenerationError

    def _check_commit(self, group: ClassicGroup, identity: MemberIdentity) -> None:
        if identity.generation_id < 0 and group.is_empty:
            return
        if identity.generation_id < 0 and not identity.member_id and identity.group_instance_id is None:
            raise UnknownMemberIdError
        member = _known_member(group, identity)
        if identity.generation_id != group.generation_id:
            raise IllegalGenerationError
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgressError
        self._rebalancer.rearm(group, member)

    # internals: the kinds of JoinGroup

    def _join_new(self, group: ClassicGroup, request: JoinRequest, respond: RespondJoin) -> None:
        member_id = f"{request.client_id}-{uuid.uuid4()}"
        if not request.requires_known_member_id:
            self._add_member(group, member_id, request, respond)
            return
        timer = self._scheduler.call_at(
            self._scheduler.time() + request.session_timeout, partial(self._rebalancer.drop_pending, group, member_id)
        )
        group.pending_members[member_id] = timer
        respond(JoinResult(error_code=code_of(MemberIdRequiredError()), member_id=member_id))

    def _join_static(self, group: ClassicGroup, request: JoinRequest, respond: RespondJoin) -> None:
        instance_id = request.group_instance_id or ""
        member_id = f"{instance_id}-{uuid.uuid4()}"
        if instance_id not in group.static_members:
            self._add_member(group, member_id, request, respond)
            return
        old_leader = group.leader
        old = group.members[group.static_members[instance_id]]
        fenced = code_of(FencedInstanceIdError())
        old.answer_join(JoinResult(error_code=fenced, member_id=old.member_id))
        old.answer_sync(SyncResult(error_code=fenced))
        member = group.replace_static(instance_id, member_id)
        if group.state is ClassicGroupState.STABLE:
            _update(member, request)
            self._rebalancer.rearm(group, member)
            if group.select_protocol() == group.protocol_name:
                # Its place is kept, and with it everybody's assignment: no rebalance (KIP-345).
                respond(_rejoined(group, member, request, old_leader))
                return
        self._update_and_rebalance(group, member, request, respond)

    def _join_again(self, group: ClassicGroup, request: JoinRequest, respond: RespondJoin) -> None:
        if request.group_instance_id is None and request.member_id in group.pending_members:
            group.pending_members.pop(request.member_id).cancel()
            self._add_member(group, request.member_id, request, respond)
            return
        identity = MemberIdentity(request.group_id, request.member_id, request.group_instance_id)
        member = _known_member(group, identity)
        is_same = member.protocols == tuple(request.protocols)
        if group.state is ClassicGroupState.COMPLETING_REBALANCE and is_same:
            # It did not get the answer, so it gets it again.
            respond(self._rebalancer.joined(group, member))
        elif group.state is ClassicGroupState.STABLE and is_same and member.member_id != group.leader:
            self._rebalancer.rearm(group, member)
            respond(self._rebalancer.joined(group, member))
        else:
            self._update_and_rebalance(group, member, request, respond)

    def _add_member(self, group: ClassicGroup, member_id: str, request: JoinRequest, respond: RespondJoin) -> None:
        if group.is_empty:
            group.protocol_type = request.protocol_type
        member = ClassicGroupMember(
            member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout=request.session_timeout,
            rebalance_timeout=request.rebalance_timeout,
            protocols=request.protocols,
        )
        member.join_response = respond
        group.add(member)
        group.new_member_added = True
        self._rebalancer.rearm(group, member)
        self._rebalancer.prepare(group)

    def _update_and_rebalance(
        self, group: ClassicGroup, member: ClassicGroupMember, request: JoinRequest, respond: RespondJoin
    ) -> None:
        _update(member, request)
        member.answer_join(JoinResult(error_code=code_of(RebalanceInProgressError()), member_id=member.member_id))
        member.join_response = respond
        self._rebalancer.rearm(group, member)
        self._rebalancer.prepare(group)


def _is_unused(group: AnyGroup) -> bool:
    return group.is_empty and not (isinstance(group, ClassicGroup) and group.pending_members)


def _known_member(group: ClassicGroup, identity: MemberIdentity) -> ClassicGroupMember:
    if group.state is ClassicGroupState.DEAD:
        raise CoordinatorNotAvailableError
    if identity.group_instance_id is not None:
        known = group.static_members.get(identity.group_instance_id)
        if known is None:
            raise UnknownMemberIdError
        if known != identity.member_id:
            raise FencedInstanceIdError
    member = group.members.get(identity.member_id)
    if member is None:
        raise UnknownMemberIdError
    return member


def _update(member: ClassicGroupMember, request: JoinRequest) -> None:
    member.protocols = tuple(request.protocols)
    member.session_timeout = request.session_timeout
    member.rebalance_timeout = request.rebalance_timeout
    member.client_id = request.client_id
    member.client_host = request.client_host


def _rejoined(group: ClassicGroup, member: ClassicGroupMember, request: JoinRequest, old_leader: str) -> JoinResult:
    # A member that cannot skip assigning must not learn that it leads, or it would assign again: it gets the old id.
    is_leader = member.member_id == group.leader and request.supports_skipping_assignment
    return JoinResult(
        member_id=member.member_id,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader if request.supports_skipping_assignment else old_leader,
        members=group.current_members() if is_leader else (),
        skip_assignment=is_leader,
    )


def _check_group_id(group_id: str, *, may_be_empty: bool = False) -> None:
    if not group_id and not may_be_empty:
        raise InvalidGroupIdError


def _check_protocol(group: ClassicGroup, request: SyncRequest) -> None:
    if (request.protocol_type is not None and request.protocol_type != group.protocol_type) or (
        request.protocol_name is not None and request.protocol_name != group.protocol_name
    ):
        raise InconsistentGroupProtocolError
