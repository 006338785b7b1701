"""One consumer group of the classic protocol: its members, its generation, its state.

Owns the present state of a group and the questions about it; it starts no timer, sends no answer and
decides no rebalance: that is ``rebalance.GroupRebalancer``. Kafka's counterparts are ``ClassicGroup``,
``ClassicGroupMember`` and ``ClassicGroupState``.

Rules:

- a member whose JoinGroup or SyncGroup waits has ``join_response`` or ``sync_response`` set, and is answered exactly
  once;
- static members (KIP-345) are found by their instance id, which maps to one member id at any time;
- the leader is a member, or "" when there is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from ...errors import BrokerError
from ...states import StateTable
from ..scheduler import TimerHandle

__all__ = [
    "GROUP_STATES",
    "ClassicGroup",
    "ClassicGroupState",
    "JoinRequest",
    "JoinResult",
    "ClassicGroupMember",
    "MemberIdentity",
    "MemberInfo",
    "SyncRequest",
    "SyncResult",
    "code_of",
]


class ClassicGroupState(Enum):
    """The value is the name that DescribeGroups and ListGroups give it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


GROUP_STATES: Final = StateTable(
    "group",
    ClassicGroupState.EMPTY,
    {
        ClassicGroupState.EMPTY: {ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD},
        ClassicGroupState.PREPARING_REBALANCE: {
            ClassicGroupState.COMPLETING_REBALANCE,
            ClassicGroupState.EMPTY,
            ClassicGroupState.DEAD,
        },
        ClassicGroupState.COMPLETING_REBALANCE: {
            ClassicGroupState.STABLE,
            ClassicGroupState.PREPARING_REBALANCE,
            ClassicGroupState.DEAD,
        },
        ClassicGroupState.STABLE: {ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD},
        ClassicGroupState.DEAD: (),
    },
)


@dataclass(slots=True)
class JoinRequest:
    """A JoinGroup; time-outs are float seconds."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    # From JoinGroup 4 a new member gets its id first and joins with it (KIP-394); from 9 the leader may skip assigning.
    requires_known_member_id: bool = False
    supports_skipping_assignment: bool = False


@dataclass(slots=True)
class MemberIdentity:
    """The sender of a request as the request names it; a generation of -1 is outside of any."""

    group_id: str
    member_id: str
    group_instance_id: str | None = None
    generation_id: int = -1


@dataclass(slots=True)
class SyncRequest:
    """A SyncGroup; only the leader's has assignments."""

    member: MemberIdentity
    assignments: Mapping[str, bytes]
    protocol_type: str | None = None
    protocol_name: str | None = None


class MemberInfo(NamedTuple):
    """A member as in the leader's JoinGroup response; ``metadata`` is that of the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The answer to a JoinGroup."""

    error_code: int = 0
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: Sequence[MemberInfo] = ()
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """The answer to a SyncGroup."""

    error_code: int = 0
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


class ClassicGroupMember:
    """One member; ``protocols`` are (name, metadata) in its order of preference. Time-outs are float seconds."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_response",
        "member_id",
        "protocols",
        "rebalance_timeout",
        "session_timeout",
        "sync_response",
        "timer",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout: float,
        rebalance_timeout: float,
        protocols: Sequence[tuple[str, bytes]],
    ) -> None:
        # identity
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        # settings
        self.session_timeout = session_timeout
        self.rebalance_timeout = rebalance_timeout
        self.protocols = tuple(protocols)
        # progress
        self.assignment = b""
        self.is_new = True
        self.join_response: Callable[[JoinResult], None] | None = None
        self.sync_response: Callable[[SyncResult], None] | None = None
        self.timer: TimerHandle | None = None

    @property
    def is_static(self) -> bool:
        """Whether it has an instance id, and so outlives its process until its session ends."""
        return self.group_instance_id is not None

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for a protocol, empty when it does not have it."""
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    def answer_join(self, result: JoinResult) -> None:
        """Answer its JoinGroup, if one waits."""
        respond, self.join_response = self.join_response, None
        if respond is not None:
            respond(result)

    def answer_sync(self, result: SyncResult) -> None:
        """Answer its SyncGroup, if one waits."""
        respond, self.sync_response = self.sync_response, None
        if respond is not None:
            respond(result)

    def stop_timer(self) -> None:
        """Cancel its session timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class ClassicGroup:
    """One group; changes of state go through ``transition`` only."""

    __slots__ = (
        "generation_id",
        "group_id",
        "is_gathering",
        "join_deadline",
        "leader",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync",
        "pending_sync_timer",
        "protocol_name",
        "protocol_type",
        "rebalance_timer",
        "state",
        "static_members",
    )

    def __init__(self, group_id: str, state: ClassicGroupState = GROUP_STATES.initial) -> None:
        self.group_id = group_id
        self.state = state
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        # members by member id in order of joining; instance id -> member id; ids given out but not joined with yet
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, TimerHandle] = {}
        self.leader = ""
        # the rebalance under way
        self.rebalance_timer: TimerHandle | None = None
        self.join_deadline = 0.0
        self.is_gathering = False  # in the initial delay, which nothing cuts short
        self.new_member_added = False
        # the SyncGroups that are to come after it
        self.pending_sync: set[str] = set()
        self.pending_sync_timer: TimerHandle | None = None

    def transition(self, state: ClassicGroupState) -> None:
        """Change the state; raises IllegalTransitionError."""
        self.state = GROUP_STATES.transition(self.state, state)

    @property
    def is_empty(self) -> bool:
        """Whether there is no member."""
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may subscribe to this topic: subscriptions of classic members are not looked into."""
        return bool(self.members)

    @property
    def rebalance_timeout(self) -> float:
        """The longest rebalance time-out of a member, in seconds."""
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)

    @property
    def has_all_joined(self) -> bool:
        """Whether every member's JoinGroup is here, and every id given out was used."""
        return not self.pending_members and all(m.join_response is not None for m in self.members.values())

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member; the first one leads."""
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if not self.leader:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member; another one leads if it did."""
        member = self.members.pop(member_id)
        member.stop_timer()
        if member.group_instance_id is not None and self.static_members.get(member.group_instance_id) == member_id:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), "")

    def replace_static(self, group_instance_id: str, new_member_id: str) -> ClassicGroupMember:
        """Give a static member its new member id (its process came back); it keeps its place and its lead."""
        old_member_id = self.static_members[group_instance_id]
        member = self.members[old_member_id]
        member.stop_timer()
        self.members = {
            new_member_id if member_id == old_member_id else member_id: each for member_id, each in self.members.items()
        }
        member.member_id = new_member_id
        self.static_members[group_instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        return member

    def stop_timers(self) -> None:
        """Cancel all timers, the members' too."""
        for member in self.members.values():
            member.stop_timer()
        for timer in (*self.pending_members.values(), self.rebalance_timer, self.pending_sync_timer):
            if timer is not None:
                timer.cancel()

    def elect_joined_leader(self) -> bool:
        """Make a member whose JoinGroup waits the leader; False when there is none."""
        if self.leader in self.members and self.members[self.leader].join_response is not None:
            return True
        joined = next((m for m in self.members.values() if m.join_response is not None), None)
        if joined is None:
            return False
        self.leader = joined.member_id
        return True

    def supports(self, protocol_type: str, protocols: Sequence[tuple[str, bytes]]) -> bool:
        """Whether a member with these protocols could be in this group."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        common = self._common_protocols()
        return self.protocol_type == protocol_type and any(name in common for name, _ in protocols)

    def select_protocol(self) -> str:
        """Of the protocols that all members have, the one that most prefer; on a tie the one preferred first."""
        common = self._common_protocols()
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def current_members(self) -> list[MemberInfo]:
        """All members, for the leader's JoinGroup response."""
        return [
            MemberInfo(member.member_id, member.group_instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        ]

    def _common_protocols(self) -> set[str]:
        return set.intersection(*({name for name, _ in member.protocols} for member in self.members.values()))


def code_of(error: BrokerError) -> int:
    """The error's code, as results carry it."""
    return error.code or 0
