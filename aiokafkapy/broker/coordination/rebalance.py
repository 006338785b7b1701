"""The rebalance of a group: its members join, one leads, each gets its assignment, and silent ones are dropped.

Owns the timers of groups and members and every change of a group's state but its end. It must not know the
checks of a request, which ``group_coordinator`` has, nor committed offsets. Kafka's counterparts are the rebalance half
of ``GroupMetadataManager`` (classic groups), ``DelayedJoin``, ``InitialDelayedJoin`` and ``DelayedHeartbeat``.

Rules:

- a rebalance ends when all members have joined or its time-out is over, and then drops the members that did not join;
- a member whose JoinGroup or SyncGroup waits here is alive, even when its session timer has run out;
- a group that no node coordinates is paused: its timers stop, waiting members get NOT_COORDINATOR, and unused member
  ids are forgotten;
- an empty group waits at least ``group.initial.rebalance.delay.ms`` for members, and starts again with each new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from ...errors import NotCoordinatorError, RebalanceInProgressError, UnknownMemberIdError
from ..config import BrokerConfig
from ..scheduler import Scheduler
from .classic_group import ClassicGroup, ClassicGroupMember, ClassicGroupState, JoinResult, SyncResult, code_of

__all__ = ["GroupRebalancer"]

NEW_MEMBER_JOIN_TIMEOUT: Final = 300.0
"""Seconds after which a member without an answer to its first JoinGroup is dropped; Kafka's five minutes."""


class GroupRebalancer:
    """Rebalances the groups it is given."""

    def __init__(self, config: BrokerConfig, scheduler: Scheduler) -> None:
        self._config = config
        self._scheduler = scheduler

    def prepare(self, group: ClassicGroup) -> None:
        """Begin a rebalance, or check whether the present one has all its members."""
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            self._maybe_complete_join(group)
            return
        # Also for a stable group: its leader has synced, and a follower may not have.
        self._stop_pending_sync(group)
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                if member.sync_response is not None:
                    # Its session starts again with the answer: nothing was expected of it while it waited.
                    self.rearm(group, member)
                    member.answer_sync(SyncResult(error_code=code_of(RebalanceInProgressError())))
        was_empty = group.state is ClassicGroupState.EMPTY
        group.transition(ClassicGroupState.PREPARING_REBALANCE)
        self._begin_join(group, has_initial_delay=was_empty and self._config.group_initial_rebalance_delay_ms > 0)

    def assign(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Give every member its assignment; those that wait for it are answered."""
        group.transition(ClassicGroupState.STABLE)
        for member in tuple(group.members.values()):
            member.assignment = assignments.get(member.member_id, b"")
            if member.sync_response is not None:
                self.rearm(group, member)
                member.answer_sync(SyncResult(0, member.assignment, group.protocol_type, group.protocol_name))

    def note_synced(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Note that a member has sent its SyncGroup of this generation."""
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._stop_pending_sync(group)

    def joined(self, group: ClassicGroup, member: ClassicGroupMember) -> JoinResult:
        """The answer to a member's JoinGroup in this generation."""
        return JoinResult(
            member_id=member.member_id,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader,
            members=group.current_members() if member.member_id == group.leader else (),
        )

    def rearm(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Begin a member's session again."""
        member.stop_timer()
        timeout = NEW_MEMBER_JOIN_TIMEOUT if member.is_new else member.session_timeout
        when = self._scheduler.time() + timeout
        member.timer = self._scheduler.call_at(when, partial(self._session_over, group, member))

    def pause(self, group: ClassicGroup) -> None:
        """No node coordinates the group."""
        group.stop_timers()
        group.pending_members.clear()
        group.rebalance_timer = group.pending_sync_timer = None
        code = code_of(NotCoordinatorError())
        for member in group.members.values():
            member.answer_join(JoinResult(error_code=code, member_id=member.member_id))
            member.answer_sync(SyncResult(error_code=code))

    def begin_sessions(self, group: ClassicGroup) -> None:
        """Another node coordinates the group: all sessions begin again, and so does a rebalance that was paused."""
        for member in group.members.values():
            self.rearm(group, member)
        if group.state is ClassicGroupState.PREPARING_REBALANCE and group.rebalance_timer is None:
            self._begin_join(group, has_initial_delay=group.is_gathering)
        if group.pending_sync and group.pending_sync_timer is None:
            self._await_syncs(group)

    def drop_member(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member, and rebalance the others."""
        member = group.members[member_id]
        group.remove(member_id)
        group.pending_sync.discard(member_id)
        unknown = code_of(UnknownMemberIdError())
        member.answer_join(JoinResult(error_code=unknown, member_id=member_id))
        member.answer_sync(SyncResult(error_code=unknown))
        if group.state not in (ClassicGroupState.EMPTY, ClassicGroupState.DEAD):
            self.prepare(group)

    def drop_pending(self, group: ClassicGroup, member_id: str) -> None:
        """Forget a member id that was handed out and not used yet."""
        group.pending_members.pop(member_id).cancel()
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            self._maybe_complete_join(group)

    # internals

    def _begin_join(self, group: ClassicGroup, *, has_initial_delay: bool) -> None:
        now = self._scheduler.time()
        group.join_deadline = now + group.rebalance_timeout
        if has_initial_delay:
            delay = self._config.group_initial_rebalance_delay_ms / 1000
            self._wait_for_more(group, min(now + delay, group.join_deadline))
        else:
            group.rebalance_timer = self._scheduler.call_at(group.join_deadline, partial(self._complete_join, group))
            self._maybe_complete_join(group)

    def _wait_for_more(self, group: ClassicGroup, until: float) -> None:
        # Java's InitialDelayedJoin: as long as new members keep coming, up to the rebalance time-out.
        group.is_gathering, group.new_member_added = True, False
        group.rebalance_timer = self._scheduler.call_at(until, partial(self._initial_delay_over, group))

    def _initial_delay_over(self, group: ClassicGroup) -> None:
        now = self._scheduler.time()
        if group.new_member_added and now < group.join_deadline:
            delay = self._config.group_initial_rebalance_delay_ms / 1000
            self._wait_for_more(group, min(now + delay, group.join_deadline))
        else:
            self._complete_join(group)

    def _maybe_complete_join(self, group: ClassicGroup) -> None:
        if not group.is_gathering and group.has_all_joined:
            self._complete_join(group)

    def _complete_join(self, group: ClassicGroup) -> None:
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
            group.transition(ClassicGroupState.EMPTY)
            return
        if not group.elect_joined_leader():
            # Only static members, and none is back yet: wait on for one of them, until their sessions end.
            deadline = self._scheduler.time() + group.rebalance_timeout
            group.generation_id -= 1
            group.rebalance_timer = self._scheduler.call_at(deadline, partial(self._complete_join, group))
            return
        group.protocol_name = group.select_protocol()
        group.transition(ClassicGroupState.COMPLETING_REBALANCE)
        group.pending_sync = set(group.members)
        self._await_syncs(group)
        for member in tuple(group.members.values()):
            if member.join_response is not None:
                member.is_new = False
                self.rearm(group, member)
                member.answer_join(self.joined(group, member))

    def _await_syncs(self, group: ClassicGroup) -> None:
        group.pending_sync_timer = self._scheduler.call_at(
            self._scheduler.time() + group.rebalance_timeout, partial(self._pending_sync_over, group)
        )

    def _stop_pending_sync(self, group: ClassicGroup) -> None:
        group.pending_sync.clear()
        if group.pending_sync_timer is not None:
            group.pending_sync_timer.cancel()
            group.pending_sync_timer = None

    def _pending_sync_over(self, group: ClassicGroup) -> None:
        late = [member_id for member_id in group.pending_sync if member_id in group.members]
        self._stop_pending_sync(group)
        for member_id in late:
            self.drop_member(group, member_id)

    def _session_over(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        if not member.is_new and (member.join_response is not None or member.sync_response is not None):
            self.rearm(group, member)
        elif group.members.get(member.member_id) is member:
            self.drop_member(group, member.member_id)
