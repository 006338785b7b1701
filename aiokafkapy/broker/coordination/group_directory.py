"""The directory of groups: a group of any kind by its name.

Owns the names only: ``group_coordinator``, ``group_migration`` and the managers decide which group is put there.
Kafka's counterpart is the map ``groups`` of ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from .classic_group import ClassicGroup
from .consumer_group import ConsumerGroup
from .share_group import ShareGroup

__all__ = ["AnyGroup", "GroupDirectory"]

AnyGroup: TypeAlias = ClassicGroup | ConsumerGroup | ShareGroup


class GroupDirectory:
    """All groups of the cluster, by their ids."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, AnyGroup] = {}

    def get(self, group_id: str) -> AnyGroup | None:
        """The group, or None."""
        return self._groups.get(group_id)

    def __iter__(self) -> Iterator[AnyGroup]:
        """The present groups: others may be put or removed meanwhile."""
        return iter(tuple(self._groups.values()))

    def put(self, group: AnyGroup) -> None:
        """Put a group under its name, in place of the one that is there."""
        self._groups[group.group_id] = group

    def remove(self, group_id: str) -> None:
        """Forget a group that is there."""
        del self._groups[group_id]
