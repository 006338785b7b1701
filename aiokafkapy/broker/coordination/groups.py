"""The group coordinator: consumer groups of the classic protocol, and their committed offsets.

Owns all groups and decides every join, sync, heartbeat, leave, rebalance and commit. It knows no message class, no
socket and no node: answers go to a callback, times come from a ``Scheduler``. Kafka's counterparts are
``GroupCoordinator`` and ``GroupMetadataManager`` (its classic half).

How a group lives: the first JoinGroup moves it to PREPARING_REBALANCE, where all members' JoinGroups are gathered
(those who do not come in their rebalance time-out are dropped); then COMPLETING_REBALANCE with a new generation,
where all wait for the leader's SyncGroup; then STABLE, until someone joins, leaves, is not heard of for its session
time-out, or the leader joins again.

Rules:
- an answer may be given before the call returns; it is given once;
- a member whose JoinGroup or SyncGroup waits with us is alive, whatever its session timer says;
- members live in memory only: after a restart they are told UNKNOWN_MEMBER_ID and join again. Offsets are kept.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

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
    UnknownMemberIdError,
)
from ..config import BrokerConfig
from .group import Group, GroupState, JoinRequest, JoinResult, Member, MemberIdentity, SyncRequest, SyncResult
from .group_offsets import CommittedOffset, OffsetStore
from .scheduler import Scheduler

__all__ = ["GroupCoordinator"]

NEW_MEMBER_JOIN_TIMEOUT: Final = 300.0
"""Seconds after which a member is dropped that never got the answer to its first JoinGroup; Kafka's five minutes."""


RespondJoin = Callable[[JoinResult], None]
RespondSync = Callable[[SyncResult], None]


class GroupCoordinator:
    """All groups of the cluster."""

    def __init__(
        self, config: BrokerConfig, *, data_dir: Path | str | None = None, scheduler: Scheduler | None = None
    ) -> None:
        """Reads the offsets committed in ``data_dir``; the ``scheduler`` is the running loop by default. OSError."""
        self._config = config
        self._scheduler: Scheduler = scheduler or asyncio.get_running_loop()
        self._groups: dict[str, Group] = {}
        self.offsets = OffsetStore(data_dir)
        for group_id in self.offsets.groups():
            self._groups[group_id] = Group(group_id)

    # looking

    def get(self, group_id: str) -> Group | None:
        """The group, or None."""
        return self._groups.get(group_id)

    def __iter__(self) -> Iterator[Group]:
        return iter(tuple(self._groups.values()))

    # joining

    def join(self, request: JoinRequest, respond: RespondJoin) -> None:
        """Take a JoinGroup; ``respond`` is called when the group is complete, or at once with an error."""
        try:
            group = self._group_to_join(request)
            if request.member_id:
                self._join_again(group, request, respond)
            elif request.group_instance_id is not None:
                self._join_static(group, request, respond)
            else:
                self._join_new(group, request, respond)
        except BrokerError as error:
            respond(JoinResult(error_code=_code(error), member_id=request.member_id))

    def sync(self, request: SyncRequest, respond: RespondSync) -> None:
        """Take a SyncGroup; ``respond`` is called when the leader has assigned, or at once with an error."""
        try:
            group, member = self._member_of_generation(request.member)
            _check_protocol(group, request)
            if group.state is GroupState.PREPARING_REBALANCE:
                raise RebalanceInProgressError
            self._synced(group, member)
            if group.state is GroupState.STABLE:
                self._rearm(group, member)
                respond(SyncResult(0, member.assignment, group.protocol_type, group.protocol_name))
                return
        except BrokerError as error:
            respond(SyncResult(error_code=_code(error)))
            return
        member.answer_sync(SyncResult(error_code=_code(RebalanceInProgressError())))
        member.sync_response = respond
        if member.member_id == group.leader:
            self._assign(group, request.assignments)

    def heartbeat(self, identity: MemberIdentity) -> None:
        """Note that a member lives. Raises RebalanceInProgressError when it must join again, or why it is no member."""
        group, member = self._member_of_generation(identity)
        self._rearm(group, member)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgressError

    def leave(self, group_id: str, member_id: str, group_instance_id: str | None = None) -> None:
        """Remove a member, found by its instance id if it has one.

        Raises UnknownMemberIdError, FencedInstanceIdError.
        """
        group = self._existing(group_id)
        if group_instance_id is not None:
            known = group.static_members.get(group_instance_id)
            if known is None:
                raise UnknownMemberIdError
            if member_id and member_id != known:
                raise FencedInstanceIdError
            self._drop_member(group, known)
        elif member_id in group.pending_members:
            self._drop_pending(group, member_id)
        elif member_id in group.members:
            self._drop_member(group, member_id)
        else:
            raise UnknownMemberIdError

    # offsets

    def commit(self, identity: MemberIdentity, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets of a group, or of nobody in particular (generation -1, while the group is empty).

        Raises what the member must be told, or KafkaStorageError; then nothing was committed.
        """
        group = self._groups.get(identity.group_id)
        if group is None:
            if identity.generation_id >= 0:
                raise IllegalGenerationError
            _check_group_id(identity.group_id, may_be_empty=True)
            group = self._groups[identity.group_id] = Group(identity.group_id)
        self._check_commit(group, identity)
        self.offsets.commit(identity.group_id, offsets)

    def delete(self, group_id: str) -> None:
        """Delete a group and its offsets. Raises GroupIdNotFoundError, NonEmptyGroupError."""
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        if group.members or group.pending_members:
            raise NonEmptyGroupError
        group.transition(GroupState.DEAD)
        del self._groups[group_id]
        self.offsets.delete(group_id)

    def close(self) -> None:
        """Stop all timers and close the file. Whoever waits is not answered: their connections end too."""
        for group in self._groups.values():
            for member in group.members.values():
                member.stop_timer()
            for timer in (*group.pending_members.values(), group.rebalance_timer, group.pending_sync_timer):
                if timer is not None:
                    timer.cancel()
        self._groups.clear()
        self.offsets.close()

    # internals: who may do what

    def _group_to_join(self, request: JoinRequest) -> Group:
        _check_group_id(request.group_id)
        low, high = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if not low <= round(request.session_timeout * 1000) <= high:
            raise InvalidSessionTimeoutError
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id:
                raise UnknownMemberIdError
            group = Group(request.group_id)
        if not group.supports(request.protocol_type, request.protocols):
            raise InconsistentGroupProtocolError
        if len(group.members) + len(group.pending_members) >= self._config.group_max_size and not (
            request.member_id in group.members
            or request.member_id in group.pending_members
            or request.group_instance_id in group.static_members
        ):
            raise GroupMaxSizeReachedError
        self._groups[request.group_id] = group
        return group

    def _existing(self, group_id: str) -> Group:
        _check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise UnknownMemberIdError
        return group

    def _member_of_generation(self, identity: MemberIdentity) -> tuple[Group, Member]:
        group = self._existing(identity.group_id)
        member = _known_member(group, identity)
        if identity.generation_id != group.generation_id:
            raise IllegalGenerationError
        return group, member

    def _check_commit(self, group: Group, identity: MemberIdentity) -> None:
        if identity.generation_id < 0 and group.is_empty:
            return
        if identity.generation_id < 0 and not identity.member_id and identity.group_instance_id is None:
            raise UnknownMemberIdError
        member = _known_member(group, identity)
        if identity.generation_id != group.generation_id:
            raise IllegalGenerationError
        if group.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgressError
        self._rearm(group, member)

    # internals: the kinds of JoinGroup

    def _join_new(self, group: Group, request: JoinRequest, respond: RespondJoin) -> None:
        member_id = f"{request.client_id}-{uuid.uuid4()}"
        if not request.requires_known_member_id:
            self._add_member(group, member_id, request, respond)
            return
        timer = self._scheduler.call_at(
            self._scheduler.time() + request.session_timeout, partial(self._drop_pending, group, member_id)
        )
        group.pending_members[member_id] = timer
        respond(JoinResult(error_code=_code(MemberIdRequiredError()), member_id=member_id))

    def _join_static(self, group: Group, request: JoinRequest, respond: RespondJoin) -> None:
        instance_id = request.group_instance_id or ""
        member_id = f"{instance_id}-{uuid.uuid4()}"
        if instance_id not in group.static_members:
            self._add_member(group, member_id, request, respond)
            return
        old_leader = group.leader
        old = group.members[group.static_members[instance_id]]
        fenced = _code(FencedInstanceIdError())
        old.answer_join(JoinResult(error_code=fenced, member_id=old.member_id))
        old.answer_sync(SyncResult(error_code=fenced))
        member = group.replace_static(instance_id, member_id)
        if group.state is GroupState.STABLE:
            _update(member, request)
            self._rearm(group, member)
            if group.select_protocol() == group.protocol_name:
                # Its place is kept, and with it everybody's assignment: no rebalance (KIP-345).
                respond(_rejoined(group, member, request, old_leader))
                return
        self._update_and_rebalance(group, member, request, respond)

    def _join_again(self, group: Group, request: JoinRequest, respond: RespondJoin) -> None:
        if request.group_instance_id is None and request.member_id in group.pending_members:
            group.pending_members.pop(request.member_id).cancel()
            self._add_member(group, request.member_id, request, respond)
            return
        identity = MemberIdentity(request.group_id, request.member_id, request.group_instance_id)
        member = _known_member(group, identity)
        is_same = member.protocols == tuple(request.protocols)
        if group.state is GroupState.COMPLETING_REBALANCE and is_same:
            # It did not get the answer, so it gets it again.
            respond(self._joined(group, member))
        elif group.state is GroupState.STABLE and is_same and member.member_id != group.leader:
            self._rearm(group, member)
            respond(self._joined(group, member))
        else:
            self._update_and_rebalance(group, member, request, respond)

    def _add_member(self, group: Group, member_id: str, request: JoinRequest, respond: RespondJoin) -> None:
        if group.is_empty:
            group.protocol_type = request.protocol_type
        member = Member(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout,
            request.rebalance_timeout,
            request.protocols,
        )
        member.join_response = respond
        group.add(member)
        group.new_member_added = True
        self._rearm(group, member)
        self._prepare_rebalance(group)

    def _update_and_rebalance(self, group: Group, member: Member, request: JoinRequest, respond: RespondJoin) -> None:
        _update(member, request)
        member.answer_join(JoinResult(error_code=_code(RebalanceInProgressError()), member_id=member.member_id))
        member.join_response = respond
        self._rearm(group, member)
        self._prepare_rebalance(group)

    # internals: the rebalance

    def _prepare_rebalance(self, group: Group) -> None:
        if group.state is GroupState.PREPARING_REBALANCE:
            self._maybe_complete_join(group)
            return
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._stop_pending_sync(group)
            for member in group.members.values():
                member.assignment = b""
                if member.sync_response is not None:
                    # Its session begins anew with the answer: nothing was expected of it while it waited.
                    self._rearm(group, member)
                    member.answer_sync(SyncResult(error_code=_code(RebalanceInProgressError())))
        initial_delay = self._config.group_initial_rebalance_delay_ms / 1000
        was_empty = group.state is GroupState.EMPTY
        group.transition(GroupState.PREPARING_REBALANCE)
        now = self._scheduler.time()
        group.join_deadline = now + group.rebalance_timeout
        if was_empty and initial_delay > 0:
            self._wait_for_more(group, min(now + initial_delay, group.join_deadline))
        else:
            group.rebalance_timer = self._scheduler.call_at(group.join_deadline, partial(self._complete_join, group))
            self._maybe_complete_join(group)

    def _wait_for_more(self, group: Group, until: float) -> None:
        # Java's InitialDelayedJoin: as long as new members keep coming, up to the rebalance time-out.
        group.is_gathering, group.new_member_added = True, False
        group.rebalance_timer = self._scheduler.call_at(until, partial(self._initial_delay_over, group))

    def _initial_delay_over(self, group: Group) -> None:
        now = self._scheduler.time()
        if group.new_member_added and now < group.join_deadline:
            delay = self._config.group_initial_rebalance_delay_ms / 1000
            self._wait_for_more(group, min(now + delay, group.join_deadline))
        else:
            self._complete_join(group)

    def _maybe_complete_join(self, group: Group) -> None:
        if not group.is_gathering and group.has_all_joined:
            self._complete_join(group)

    def _complete_join(self, group: Group) -> None:
        group.is_gathering = False
        if group.rebalance_timer is not None:
            group.rebalance_timer.cancel()
            group.rebalance_timer = None
        for member in tuple(group.members.values()):
            if member.join_response is None and not member.is_static:
                group.remove(member.member_id)
        group.generation_id += 1
        if group.is_empty:
            group.protocol_name = None
            group.transition(GroupState.EMPTY)
            return
        if not group.elect_joined_leader():
            # Only static members, and none is back yet: wait on for one of them, until their sessions end.
            deadline = self._scheduler.time() + group.rebalance_timeout
            group.generation_id -= 1
            group.rebalance_timer = self._scheduler.call_at(deadline, partial(self._complete_join, group))
            return
        group.protocol_name = group.select_protocol()
        group.transition(GroupState.COMPLETING_REBALANCE)
        group.pending_sync = set(group.members)
        group.pending_sync_timer = self._scheduler.call_at(
            self._scheduler.time() + group.rebalance_timeout, partial(self._pending_sync_over, group)
        )
        for member in tuple(group.members.values()):
            if member.join_response is not None:
                member.is_new = False
                self._rearm(group, member)
                member.answer_join(self._joined(group, member))

    def _assign(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        group.transition(GroupState.STABLE)
        for member in tuple(group.members.values()):
            member.assignment = assignments.get(member.member_id, b"")
            if member.sync_response is not None:
                self._rearm(group, member)
                member.answer_sync(SyncResult(0, member.assignment, group.protocol_type, group.protocol_name))

    def _synced(self, group: Group, member: Member) -> None:
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._stop_pending_sync(group)

    def _stop_pending_sync(self, group: Group) -> None:
        group.pending_sync.clear()
        if group.pending_sync_timer is not None:
            group.pending_sync_timer.cancel()
            group.pending_sync_timer = None

    def _pending_sync_over(self, group: Group) -> None:
        late = [member_id for member_id in group.pending_sync if member_id in group.members]
        self._stop_pending_sync(group)
        for member_id in late:
            self._drop_member(group, member_id)

    def _joined(self, group: Group, member: Member) -> JoinResult:
        return JoinResult(
            member_id=member.member_id,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader,
            members=group.current_members() if member.member_id == group.leader else (),
        )

    # internals: who is gone

    def _rearm(self, group: Group, member: Member) -> None:
        member.stop_timer()
        timeout = NEW_MEMBER_JOIN_TIMEOUT if member.is_new else member.session_timeout
        when = self._scheduler.time() + timeout
        member.timer = self._scheduler.call_at(when, partial(self._session_over, group, member))

    def _session_over(self, group: Group, member: Member) -> None:
        if not member.is_new and (member.join_response is not None or member.sync_response is not None):
            self._rearm(group, member)
        elif group.members.get(member.member_id) is member:
            self._drop_member(group, member.member_id)

    def _drop_member(self, group: Group, member_id: str) -> None:
        member = group.members[member_id]
        group.remove(member_id)
        group.pending_sync.discard(member_id)
        unknown = _code(UnknownMemberIdError())
        member.answer_join(JoinResult(error_code=unknown, member_id=member_id))
        member.answer_sync(SyncResult(error_code=unknown))
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.PREPARING_REBALANCE):
            self._prepare_rebalance(group)

    def _drop_pending(self, group: Group, member_id: str) -> None:
        group.pending_members.pop(member_id).cancel()
        if group.state is GroupState.PREPARING_REBALANCE:
            self._maybe_complete_join(group)


def _known_member(group: Group, identity: MemberIdentity) -> Member:
    if group.state is GroupState.DEAD:
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


def _update(member: Member, request: JoinRequest) -> None:
    member.protocols = tuple(request.protocols)
    member.session_timeout = request.session_timeout
    member.rebalance_timeout = request.rebalance_timeout
    member.client_id = request.client_id
    member.client_host = request.client_host


def _rejoined(group: Group, member: Member, request: JoinRequest, old_leader: str) -> JoinResult:
    # Whoever cannot skip assigning must not learn that it leads, or it would assign anew: it is told of its old id.
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


def _check_protocol(group: Group, request: SyncRequest) -> None:
    if (request.protocol_type is not None and request.protocol_type != group.protocol_type) or (
        request.protocol_name is not None and request.protocol_name != group.protocol_name
    ):
        raise InconsistentGroupProtocolError


def _code(error: BrokerError) -> int:
    return error.code or 0
