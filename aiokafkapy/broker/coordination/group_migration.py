"""Turns groups with members into groups of the other protocol while they run (KIP-848's online migration).

Decides when a classic group becomes a consumer group and the other way round, and moves its members. A member
keeps its protocol: ``classic_members`` serves those of the classic one in a consumer group. Kafka's counterparts are
``ConsumerGroup.fromClassicGroup``, ``ClassicGroup.fromConsumerGroup`` and ``ConsumerGroupMigrationPolicy``.

Rules, with Kafka's default, ``group.consumer.migration.policy=bidirectional``:

- a classic group of the protocol type ``consumer`` becomes a consumer group when a member of that protocol joins. Every
  member keeps its partitions; one that waits for a rebalance is told that there is another;
- a consumer group becomes a classic one when only classic members are left, and rebalances. When a static member of
  the classic protocol takes the place of the last other one, it keeps its place, and there is no rebalance;
- nothing has changed until the type of the group is in the journal.

Kafka fails to convert a classic group that has no generation yet; here it is converted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ...common import TopicPartition
from ...errors import GroupIdNotFoundError, MalformedFrameError, RebalanceInProgressError
from ...protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)
from ..config import BrokerConfig
from ..storage.topics import TopicRegistry
from .assignors import Assignment, TopicIdPartition
from .classic_group import ClassicGroup, ClassicGroupMember, ClassicGroupState, JoinResult, SyncResult, code_of
from .consumer_group import ClassicMembership, ConsumerGroup, ConsumerGroupMember
from .group_directory import GroupDirectory
from .modern_group import NOTHING
from .rebalance import GroupRebalancer

__all__ = ["GroupMigration", "assignment_for", "by_id"]

UPGRADES: Final = frozenset({"bidirectional", "upgrade"})
DOWNGRADES: Final = frozenset({"bidirectional", "downgrade"})


class NoteType(Protocol):
    """Remembers whether a group is a consumer group."""

    def __call__(self, group_id: str, *, is_consumer: bool) -> None: ...


class GroupMigration:
    """Makes groups of one protocol from those of the other, in the directory that all groups share."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicRegistry,
        groups: GroupDirectory,
        rebalancer: GroupRebalancer,
        note_type: NoteType,
    ) -> None:
        """``note_type`` is called when a group becomes a consumer group, or a classic one."""
        self._config = config
        self._topics = topics
        self._groups = groups
        self._rebalancer = rebalancer
        self._note_type = note_type

    # upgrade

    def upgraded(self, group: ClassicGroup) -> ConsumerGroup:
        """A consumer group with the members of this group, not yet in the directory. Raises GroupIdNotFoundError."""
        self._check_upgrade(group)
        made = ConsumerGroup(group.group_id, self._config.group_consumer_assignors[0])
        made.group_epoch = made.assignment_epoch = group.generation_id
        try:
            for member in group.members.values():
                self._add_classic(made, group, member)
        except MalformedFrameError:
            raise _no_upgrade(group, "the embedded consumer protocol is malformed.") from None
        made.see_topics(self._topics)
        return made

    def install(self, group: ConsumerGroup) -> None:
        """Put a consumer group in place of any group of its name. Raises KafkaStorageError.

        The members of a classic group whose JoinGroup or SyncGroup waits are told of a rebalance.
        """
        self._note_type(group.group_id, is_consumer=True)
        before = self._groups.get(group.group_id)
        self._groups.put(group)
        if not isinstance(before, ClassicGroup):
            return
        before.stop_timers()
        rebalancing = code_of(RebalanceInProgressError())
        for member in before.members.values():
            member.answer_join(JoinResult(error_code=rebalancing, member_id=member.member_id))
            member.answer_sync(SyncResult(error_code=rebalancing))

    # downgrade

    def may_downgrade(self, group: ConsumerGroup, leaving: Sequence[ConsumerGroupMember], joining: int = 0) -> bool:
        """Whether the group becomes a classic one without these members, and with ``joining`` new classic members."""
        size = len(group.members) - len(leaving) + joining
        return (
            size > 0
            and group.is_classic_without(leaving)
            and self._config.group_consumer_migration_policy in DOWNGRADES
            and size <= self._config.group_max_size
        )

    def downgrade(self, group: ConsumerGroup, leaving: Sequence[ConsumerGroupMember] = ()) -> None:
        """Let a classic group of the members that stay take the place of this one, which rebalances if some leave.

        Raises KafkaStorageError; then nothing has changed.
        """
        self._note_type(group.group_id, is_consumer=False)
        made = ClassicGroup(group.group_id, ClassicGroupState.STABLE)
        made.generation_id = group.group_epoch
        made.protocol_type = PROTOCOL_TYPE
        for member in group.members.values():
            member.stop_timers()
            if member not in leaving and member.classic is not None:
                made.add(_as_classic(member, member.classic))
        made.protocol_name = made.select_protocol()
        for each in made.members.values():
            target = group.target.get(each.member_id, NOTHING)
            each.assignment = assignment_for(each.metadata(made.protocol_name), target, self._topics)
            self._rebalancer.rearm(made, each)
        self._groups.put(made)
        if leaving:
            self._rebalancer.prepare(made)

    # internals

    def _check_upgrade(self, group: ClassicGroup) -> None:
        if self._config.group_consumer_migration_policy not in UPGRADES:
            raise _no_upgrade(group, "online upgrade is disabled.")
        if group.protocol_type != PROTOCOL_TYPE:
            raise _no_upgrade(group, "the group does not use the consumer embedded protocol.")
        if len(group.members) > self._config.group_consumer_max_size:
            raise _no_upgrade(group, "the group size exceeds the consumer group maximum size.")

    def _add_classic(self, made: ConsumerGroup, group: ClassicGroup, old: ClassicGroupMember) -> None:
        partitions, user_data = decode_assignment(old.assignment) if old.assignment else ((), b"")
        if user_data:
            raise _no_upgrade(
                group,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade.",
            )
        subscription = decode_subscription(old.metadata(group.protocol_name or old.protocols[0][0]))
        member = ConsumerGroupMember(old.member_id)
        member.take_over(old.client_id, old.client_host, subscription.rack_id, subscription.topics)
        member.instance_id = old.group_instance_id
        member.rebalance_timeout = old.rebalance_timeout
        member.classic = ClassicMembership(old.session_timeout, old.protocols)
        # The leader assigned them, not we: of two members with the same partition the first keeps it.
        owned = {place for place, _ in made.owners()}
        made.add_reconciled(member, group.generation_id, by_id(partitions, self._topics) - owned)


def by_id(partitions: Sequence[TopicPartition], topics: TopicRegistry) -> Assignment:
    """Partitions that classic members name; those of topics that do not exist are left out."""
    found = ((topics.get(each.topic), each.partition) for each in partitions)
    return frozenset(TopicIdPartition(topic.topic_id, partition) for topic, partition in found if topic is not None)


def assignment_for(metadata: bytes, partitions: Assignment, topics: TopicRegistry) -> bytes:
    """The assignment of a classic member with this metadata."""
    try:
        version = version_of(metadata)
    except MalformedFrameError:  # not of the protocol in use, whose metadata was read when the member joined
        version = 0
    found = ((topics.by_id(each.topic_id), each.partition) for each in partitions)
    return encode_assignment(
        version, [TopicPartition(topic.name, partition) for topic, partition in found if topic is not None]
    )


def _as_classic(member: ConsumerGroupMember, classic: ClassicMembership) -> ClassicGroupMember:
    made = ClassicGroupMember(
        member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout=classic.session_timeout,
        rebalance_timeout=member.rebalance_timeout,
        protocols=classic.protocols,
    )
    made.is_new = False
    return made


def _no_upgrade(group: ClassicGroup, reason: str) -> GroupIdNotFoundError:
    return GroupIdNotFoundError(f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}")
