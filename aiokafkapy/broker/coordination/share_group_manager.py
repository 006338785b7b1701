"""The heartbeats of share groups: members come, live and go by one request (KIP-932).

Owns the checks of a heartbeat, and the timers of members. ``share_group`` has a group's state,
``share_partition_manager`` the records. Kafka's counterpart is the share half of ``GroupMetadataManager``.

Rules: those of ``consumer_group_manager``, except that a partition need not be given up before another member gets
it, and that there are no static members. A member whose session ends is removed; its records come back when their locks
end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ...errors import GroupIdNotFoundError, GroupMaxSizeReachedError, InvalidRequestError
from ..config import BrokerConfig
from ..scheduler import Scheduler
from ..storage.topics import TopicRegistry
from .consumer_group_manager import JOIN, LEAVE, HeartbeatResult
from .group_configs import GroupConfigs
from .group_directory import GroupDirectory
from .share_group import ShareGroup, ShareGroupMember

__all__ = ["ShareGroupHeartbeat", "ShareGroupManager"]


@dataclass(slots=True, kw_only=True)
class ShareGroupHeartbeat:
    """A ShareGroupHeartbeat; None stands for "as before"."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    subscribed_topic_names: Sequence[str] | None = None
    client_id: str = ""
    client_host: str = ""


class ShareGroupManager:
    """The share groups, in a directory of groups that they share with the others."""

    def __init__(
        self,
        config: BrokerConfig,
        scheduler: Scheduler,
        topics: TopicRegistry,
        groups: GroupDirectory,
        configs: GroupConfigs,
        on_assigned: Callable[[ShareGroup], None],
    ) -> None:
        """``on_assigned`` is called with a new group, and with each that has other partitions than before."""
        self._config = config
        self._scheduler = scheduler
        self._topics = topics
        self._groups = groups
        self._configs = configs
        self._on_assigned = on_assigned

    def find(self, group_id: str, word: str = "Group") -> ShareGroup:
        """A share group. GroupIdNotFoundError, which begins with ``word``, also for a group of another kind."""
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"{word} {group_id} not found.")
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFoundError(f"Group {group_id} is not a share group.")
        return group

    def heartbeat(self, request: ShareGroupHeartbeat) -> HeartbeatResult:
        """Take a heartbeat: a join (epoch 0), a leave (-1), or a sign of life.

        Raises InvalidRequestError, GroupIdNotFoundError, GroupMaxSizeReachedError, UnknownMemberIdError,
        FencedMemberEpochError, with Kafka's message, or KafkaStorageError.
        """
        _check(request)
        if request.member_epoch == LEAVE:
            group = self.find(request.group_id)
            group.remove(group.member(request.member_id))
            return HeartbeatResult(request.member_id, LEAVE)
        if request.member_epoch == JOIN and self._groups.get(request.group_id) is None:
            group = ShareGroup(request.group_id)
        else:
            group = self.find(request.group_id, "Share group")
        member = self._member_for(group, request)
        # Nothing was changed up to here, and nothing is refused from here on.
        is_new_group = self._groups.get(group.group_id) is None
        self._groups.put(group)
        group.members.setdefault(member.member_id, member)
        is_changed = member.take_over(
            request.client_id, request.client_host, request.rack_id, request.subscribed_topic_names
        )
        has_other_topics = (is_changed or group.has_to_look_at(self._topics)) and group.see_topics(self._topics)
        if is_changed or has_other_topics or is_new_group or request.member_epoch == JOIN == member.member_epoch:
            group.group_epoch += 1
        if group.group_epoch > group.assignment_epoch:
            group.see_topics(self._topics)
            group.assign()
            self._on_assigned(group)
        assigned = member.assigned
        group.reconcile(member)
        self._rearm(group, member)
        is_full = request.member_epoch == JOIN or request.subscribed_topic_names is not None
        return HeartbeatResult(
            member.member_id,
            member.member_epoch,
            self._configs.share_heartbeat_interval_ms(group.group_id),
            member.assigned if is_full or member.assigned != assigned else None,
        )

    def begin_sessions(self, group: ShareGroup) -> None:
        """Begin the sessions of all members anew."""
        for member in group.members.values():
            self._rearm(group, member)

    # internals

    def _member_for(self, group: ShareGroup, request: ShareGroupHeartbeat) -> ShareGroupMember:
        known = group.members.get(request.member_id)
        if request.member_epoch == JOIN and known is None:
            largest = self._config.group_share_max_size
            if len(group.members) >= largest:
                raise GroupMaxSizeReachedError(
                    f"The share group has reached its maximum capacity of {largest} members."
                )
            return ShareGroupMember(request.member_id)
        member = group.member(request.member_id)
        group.check_epoch(member, request.member_epoch)
        return member

    def _rearm(self, group: ShareGroup, member: ShareGroupMember) -> None:
        member.stop_timers()
        due = self._scheduler.time() + self._configs.share_session_timeout(group.group_id)
        member.session_timer = self._scheduler.call_at(due, partial(group.drop, member))


def _check(request: ShareGroupHeartbeat) -> None:
    for name, value in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise InvalidRequestError(f"{name} can't be empty.")
    if request.member_epoch < LEAVE:
        raise InvalidRequestError("MemberEpoch is invalid.")
    if request.member_epoch == JOIN and not request.subscribed_topic_names:
        raise InvalidRequestError("SubscribedTopicNames must be set in first request.")
