"""The groups by name."""

from __future__ import annotations

from aiokafkapy.broker.coordination.classic_group import ClassicGroup
from aiokafkapy.broker.coordination.group_directory import GroupDirectory
from aiokafkapy.broker.coordination.share_group import ShareGroup


def test_a_group_takes_the_place_of_the_one_of_its_name() -> None:
    groups = GroupDirectory()
    assert groups.get("g") is None
    first, second = ClassicGroup("g"), ShareGroup("g")
    groups.put(first)
    groups.put(second)
    assert groups.get("g") is second
    assert list(groups) == [second]


def test_groups_may_be_removed_while_all_are_looked_at() -> None:
    groups = GroupDirectory()
    for name in "gh":
        groups.put(ClassicGroup(name))
    for group in groups:
        groups.remove(group.group_id)
    assert list(groups) == []
