"""The assignors of consumer groups, which run in the broker and give each member its partitions (KIP-848).

Pure functions of the members' subscriptions and of the assignment before; they know no group and no epoch. Kafka's
counterparts are ``UniformAssignor`` and ``RangeAssignor`` of its group coordinator, and ``SimpleAssignor`` for share
groups (KIP-932).

Rules:

- each partition of a topic that somebody subscribes to is assigned to exactly one of its subscribers, in a share group
  to one at least, and there each member gets one at least;
- a member keeps its partitions where that is compatible with the assignor's balance;
- the same input has the same output: members are taken in the order of their joining.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "TopicIdPartition",
    "range_assignor",
    "simple_assignor",
    "uniform_assignor",
]


class TopicIdPartition(NamedTuple):
    """A partition of a topic by its id, so not of a topic that is made again under the same name."""

    topic_id: UUID
    partition: int


Assignment: TypeAlias = frozenset[TopicIdPartition]
Subscriptions: TypeAlias = Mapping[str, Set[UUID]]
"""The topics of each member."""
Assignor: TypeAlias = Callable[
    [Subscriptions, Mapping[UUID, int], Mapping[str, Assignment]],
    dict[str, Assignment],
]
"""Called with the subscriptions, the number of partitions of each of their topics, and the assignment before."""


def uniform_assignor(
    subscriptions: Subscriptions, partition_counts: Mapping[UUID, int], before: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    """As many partitions for each member as for the others, as far as subscriptions allow; as few moves as possible."""
    kept = _kept(subscriptions, partition_counts, before)
    if len(set(map(frozenset, subscriptions.values()))) <= 1:
        return _level(kept, partition_counts)
    return _level_by_moves(subscriptions, kept, partition_counts)


def range_assignor(
    subscriptions: Subscriptions, partition_counts: Mapping[UUID, int], before: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    """For each topic by itself the same number of partitions for each member, neighbours where there was none before.

    Members of the same topics get the same numbers of partitions of them, so that they can join their records.
    """
    kept = _kept(subscriptions, partition_counts, before)
    assigned: dict[str, set[TopicIdPartition]] = {member: set() for member in subscriptions}
    for topic_id, count in partition_counts.items():
        members = [member for member, topics in subscriptions.items() if topic_id in topics]
        if not members:
            continue
        owned = {
            member: {partition for partition in kept[member] if partition.topic_id == topic_id} for member in members
        }
        for member, partitions in _level(owned, {topic_id: count}).items():
            assigned[member] |= partitions
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": uniform_assignor, "range": range_assignor})


def simple_assignor(
    subscriptions: Subscriptions, partition_counts: Mapping[UUID, int], before: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    """For share groups: members may have a partition together, and do when there are more of them than partitions.

    Topics with the same subscribers are taken together: each of their partitions has as many members as the others.
    """
    kept = _kept(subscriptions, partition_counts, before)
    assigned: dict[str, set[TopicIdPartition]] = {member: set() for member in subscriptions}
    together: dict[tuple[str, ...], list[UUID]] = {}
    for topic_id in partition_counts:
        subscribers = tuple(member for member, topics in subscriptions.items() if topic_id in topics)
        together.setdefault(subscribers, []).append(topic_id)
    for members, topic_ids in together.items():
        partitions = list(_all({topic_id: partition_counts[topic_id] for topic_id in topic_ids}))
        if members and partitions:
            for member, shared in _shared(partitions, {each: kept[each] for each in members}).items():
                assigned[member] |= shared
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


def _kept(
    subscriptions: Subscriptions, partition_counts: Mapping[UUID, int], before: Mapping[str, Assignment]
) -> dict[str, set[TopicIdPartition]]:
    """The partitions each member keeps from the previous assignment."""
    return {
        member: {
            each
            for each in before.get(member, ())
            if each.topic_id in topics and each.partition < partition_counts.get(each.topic_id, 0)
        }
        for member, topics in subscriptions.items()
    }


def _all(partition_counts: Mapping[UUID, int]) -> Iterator[TopicIdPartition]:
    for topic_id, count in partition_counts.items():
        for partition in range(count):
            yield TopicIdPartition(topic_id, partition)


def _level(kept: Mapping[str, set[TopicIdPartition]], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
    """The even assignment where each member may have every partition: the members with the most partitions keep the
    remainder.
    """
    if not kept:
        return {}
    least, more = divmod(sum(partition_counts.values()), len(kept))
    by_size = sorted(kept, key=lambda member: -len(kept[member]))
    quotas = {member: least + (place < more) for place, member in enumerate(by_size)}
    assigned = {member: set(sorted(partitions)[: quotas[member]]) for member, partitions in kept.items()}
    taken = set().union(*assigned.values())
    free = iter([partition for partition in _all(partition_counts) if partition not in taken])
    for member, partitions in assigned.items():
        while len(partitions) < quotas[member]:
            partitions.add(next(free))
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


def _level_by_moves(
    subscriptions: Subscriptions, kept: Mapping[str, set[TopicIdPartition]], partition_counts: Mapping[UUID, int]
) -> dict[str, Assignment]:
    """Give free partitions to the subscribed member that has fewest; then move partitions while that evens the
    numbers.
    """
    assigned = {member: set(partitions) for member, partitions in kept.items()}
    subscribers = {
        topic_id: [member for member, topics in subscriptions.items() if topic_id in topics]
        for topic_id in partition_counts
    }

    def least(topic_id: UUID) -> str:
        return min(subscribers[topic_id], key=lambda member: len(assigned[member]))

    taken = set().union(*assigned.values())
    free = [each for each in _all(partition_counts) if each not in taken and subscribers[each.topic_id]]
    for partition in sorted(free, key=lambda each: len(subscribers[each.topic_id])):
        assigned[least(partition.topic_id)].add(partition)

    def move_one() -> bool:
        """Move one partition from a fuller member to the emptiest one that may have it; False when none can move."""
        for member in sorted(assigned, key=lambda each: -len(assigned[each])):
            topics = sorted({each.topic_id for each in assigned[member]})
            if not topics:
                break
            topic_id = min(topics, key=lambda each: len(assigned[least(each)]))
            other = least(topic_id)
            if len(assigned[member]) > len(assigned[other]) + 1:
                partition = min(each for each in assigned[member] if each.topic_id == topic_id)
                assigned[member].remove(partition)
                assigned[other].add(partition)
                return True
        return False

    while move_one():  # each makes the sum of squares smaller
        pass
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


def _shared(
    partitions: list[TopicIdPartition], before: Mapping[str, Set[TopicIdPartition]]
) -> dict[str, set[TopicIdPartition]]:
    """Every partition for the same number of members; a member keeps those that it had, as far as that is level."""
    members = list(before)
    sharing = -(-len(members) // len(partitions))
    total = sharing * len(partitions)
    marks = [-(-total * place // len(members)) for place in range(len(members) + 1)]
    wanted = {member: marks[place + 1] - marks[place] for place, member in enumerate(members)}
    assigned: dict[str, set[TopicIdPartition]] = {member: set() for member in members}
    free = dict.fromkeys(partitions, sharing)
    for member in members:
        for each in sorted(before[member] & free.keys()):
            if free[each] and len(assigned[member]) < wanted[member]:
                assigned[member].add(each)
                free[each] -= 1
    for each in partitions:
        for _ in range(free[each]):
            others = [member for member in members if each not in assigned[member]]
            # the neediest member first; one that has enough gets more when nobody else may have the partition
            assigned[max(others, key=lambda member: wanted[member] - len(assigned[member]))].add(each)
    return assigned
