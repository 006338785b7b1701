"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup; the protocol's logic is tested with ``group_coordinator``."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from aiokafkapy.protocol.api import ApiKey

from .group_requests import call, join, joined, sync, versions
from .harness import Harness


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
async def test_join_in_every_version(harness: Harness, version: int) -> None:
    first = join(harness, version)
    if version >= 4:
        assert first.error_code == 79
        first = join(harness, version, first.member_id)
    assert (first.error_code, first.generation_id, first.protocol_name, first.leader) == (
        0,
        1,
        "range",
        first.member_id,
    )
    assert [(each.member_id, each.metadata) for each in first.members] == [(first.member_id, b"meta")]
    refused = join(harness, version, "nobody")
    assert (refused.error_code, refused.member_id) == (25, "nobody")


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
async def test_join_at_the_wrong_node_in_every_version(harness: Harness, version: int) -> None:
    fields = {"group_id": "g", "member_id": "m", "protocol_type": "consumer", "session_timeout": 10_000}
    wrong = harness.coordinator_id("g") % 3 + 1
    answer = harness.call(ApiKey.JOIN_GROUP, version, node_id=wrong, **fields)
    assert (answer.error_code, answer.member_id) == (16, "m")


async def test_a_join_waits_and_is_answered_once(harness: Harness) -> None:
    first = join(harness, 3)
    sync(harness, first)
    waiting = join(harness, 3)
    abandoned = join(harness, 3)
    abandoned.cancel()
    assert isinstance(waiting, asyncio.Future)
    again = join(harness, 3, first.member_id)
    assert waiting.result().generation_id == again.generation_id == 2


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
async def test_sync_in_every_version(harness: Harness, version: int) -> None:
    member = joined(harness)
    answer = sync(harness, member, version)
    assert (answer.error_code, answer.assignment) == (0, b"all")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    unknown = sync(harness, SimpleNamespace(member_id="nobody", generation_id=1), version)
    assert (unknown.error_code, unknown.assignment) == (25, b"")


async def test_from_version_5_on_a_sync_names_its_protocol(harness: Harness) -> None:
    fields = {"group_id": "g", "generation_id": 1, "member_id": joined(harness).member_id}
    assert call(harness, ApiKey.SYNC_GROUP, 5, **fields).error_code == 23


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
async def test_heartbeat_in_every_version(harness: Harness, version: int) -> None:
    member = joined(harness)
    fields = {"group_id": "g", "member_id": member.member_id}
    assert call(harness, ApiKey.HEARTBEAT, version, **fields, generation_id=1).error_code == 0
    assert call(harness, ApiKey.HEARTBEAT, version, **fields, generation_id=2).error_code == 22


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
async def test_leave_in_every_version(harness: Harness, version: int) -> None:
    member = joined(harness)
    if version < 3:
        fields = {"group_id": "g", "member_id": member.member_id}
        assert call(harness, ApiKey.LEAVE_GROUP, version, **fields).error_code == 0
        assert call(harness, ApiKey.LEAVE_GROUP, version, **fields).error_code == 25
        return
    members = [{"member_id": member.member_id}, {"member_id": "", "group_instance_id": "i"}]
    answer = call(harness, ApiKey.LEAVE_GROUP, version, group_id="g", members=members)
    assert answer.error_code == 0
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in answer.members] == [
        (member.member_id, None, 0),
        ("", "i", 25),
    ]


async def test_a_static_member_comes_back_through_the_wire(harness: Harness) -> None:
    first = join(harness, group_instance_id="i")
    sync(harness, first)
    again = join(harness, group_instance_id="i")
    assert (again.generation_id, again.skip_assignment, again.members[0].group_instance_id) == (1, True, "i")
