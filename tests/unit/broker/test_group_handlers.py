"""The group APIs, in every version and without sockets; the protocol's logic is tested with ``groups``."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafkapy.broker.handlers import dispatch_table
from aiokafkapy.errors import UnknownServerError
from aiokafkapy.protocol.api import ApiKey

from .support import Harness


@pytest.fixture
async def harness() -> Any:
    harness = Harness()
    harness.topics.create("t", 2)
    yield harness
    harness.close()


def call(harness: Harness, api: ApiKey, version: int, group: str = "g", /, **fields: Any) -> Any:
    """Ask the node that coordinates the group."""
    return harness.call(api, version, node_id=harness.coordinator_id(group), **fields)


def versions(api: ApiKey) -> list[int]:
    handler = dispatch_table()[api]
    return list(range(handler.min_version, handler.max_version + 1))


def join(harness: Harness, version: int = 9, member_id: str = "", group_id: str = "g", **fields: Any) -> Any:
    fields = {
        "group_id": group_id,
        "member_id": member_id,
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"meta"}],
        **fields,
    }
    return call(harness, ApiKey.JOIN_GROUP, version, group_id, **fields)


def joined(harness: Harness, version: int = 9) -> Any:
    """Join as a client does: with the id it is given, if it is."""
    answer = join(harness, version)
    return join(harness, version, answer.member_id) if answer.error_code == 79 else answer


def sync(harness: Harness, member: Any, version: int = 5, assignment: bytes = b"all") -> Any:
    assignments = [{"member_id": member.member_id, "assignment": assignment}]
    fields = {"group_id": "g", "generation_id": member.generation_id, "member_id": member.member_id}
    fields |= {"protocol_type": "consumer", "protocol_name": "range"}
    return call(harness, ApiKey.SYNC_GROUP, version, **fields, assignments=assignments)


# members


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


# coordinators


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
async def test_find_coordinator_in_every_version(harness: Harness, version: int) -> None:
    expected = harness.coordinator_id("g")
    if version >= 4:
        body = harness.call(ApiKey.FIND_COORDINATOR, version, key_type=0, coordinator_keys=["g", "h"])
        assert [each.key for each in body.coordinators] == ["g", "h"]
        (answer, _) = body.coordinators
    else:
        answer = harness.call(ApiKey.FIND_COORDINATOR, version, key="g")
    assert (answer.error_code, answer.node_id, answer.port) == (0, expected, 9091 + expected)


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR)[1:])
async def test_other_coordinators_are_refused_with_a_message(harness: Harness, version: int) -> None:
    if version >= 4:
        (answer,) = harness.call(ApiKey.FIND_COORDINATOR, version, key_type=1, coordinator_keys=["tx"]).coordinators
    else:
        answer = harness.call(ApiKey.FIND_COORDINATOR, version, key_type=1, key="tx")
    assert (answer.error_code, answer.node_id) == (42, -1)
    assert "no transactions" in answer.error_message


async def test_a_group_moves_to_another_node_when_its_coordinator_stops(harness: Harness) -> None:
    before = harness.coordinator_id("g")
    del harness.state.running_nodes[before]
    after = harness.coordinator_id("g")
    assert after != before
    harness.state.running_nodes.clear()
    (answer,) = harness.call(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=["g"]).coordinators
    assert answer.error_code == 15


# offsets


def commit(harness: Harness, version: int, offset: int, partition: int = 0, metadata: str | None = "note") -> int:
    wanted = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": 3,
        "committed_metadata": metadata,
    }
    topics = [{"name": "t", "partitions": [wanted]}]
    body = call(harness, ApiKey.OFFSET_COMMIT, version, group_id="g", topics=topics)
    return int(body.topics[0].partitions[0].error_code)


def committed(harness: Harness, version: int, partitions: list[int] | None) -> dict[int, Any]:
    topics = None if partitions is None else [{"name": "t", "partition_indexes": partitions}]
    if version >= 8:
        body = call(harness, ApiKey.OFFSET_FETCH, version, groups=[{"group_id": "g", "topics": topics}])
        (answer,) = body.groups
    else:
        answer = call(harness, ApiKey.OFFSET_FETCH, version, group_id="g", topics=topics)
    assert getattr(answer, "error_code", 0) == 0
    return {each.partition_index: each for topic in answer.topics for each in topic.partitions}


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
async def test_commit_in_every_version(harness: Harness, version: int) -> None:
    assert commit(harness, version, 5) == 0
    assert commit(harness, version, 5, partition=9) == 3
    assert commit(harness, version, 6, metadata="x" * 4_097) == 12
    assert committed(harness, 9, [0])[0].committed_offset == 5


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
async def test_offset_fetch_in_every_version(harness: Harness, version: int) -> None:
    commit(harness, 9, 5)
    found = committed(harness, version, [0, 1])
    assert (found[0].committed_offset, found[0].metadata, found[0].error_code) == (5, "note", 0)
    assert (found[1].committed_offset, found[1].metadata, found[1].error_code) == (-1, "", 0)
    if version >= 5:
        assert found[0].committed_leader_epoch == 3
    if version >= 2:
        assert list(committed(harness, version, None)) == [0]


async def test_null_metadata_is_the_empty_string(harness: Harness) -> None:
    commit(harness, 9, 5, metadata=None)
    assert committed(harness, 9, [0])[0].metadata == ""


async def test_a_commit_to_a_topic_deleted_since_is_no_commit(harness: Harness) -> None:
    commit(harness, 9, 5)
    harness.topics.delete("t")
    harness.topics.create("t", 2)
    assert committed(harness, 9, [0])[0].committed_offset == -1
    assert committed(harness, 9, None) == {}


async def test_a_member_of_another_generation_does_not_commit(harness: Harness) -> None:
    member = joined(harness)
    sync(harness, member)
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    fields = {"group_id": "g", "member_id": member.member_id, "topics": topics}
    for generation_id, code in ((1, 0), (0, 22)):
        body = call(harness, ApiKey.OFFSET_COMMIT, 9, **fields, generation_id_or_member_epoch=generation_id)
        assert body.topics[0].partitions[0].error_code == code


async def test_offsets_are_deleted_while_nobody_uses_them(harness: Harness) -> None:
    topics = [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 9}]}]

    def delete() -> Any:
        return call(harness, ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)

    assert delete().error_code == 69
    commit(harness, 9, 5)
    member = joined(harness)
    assert [each.error_code for each in delete().topics[0].partitions] == [86, 3]
    members = [{"member_id": member.member_id}]
    call(harness, ApiKey.LEAVE_GROUP, 5, group_id="g", members=members)
    assert [each.error_code for each in delete().topics[0].partitions] == [0, 3]
    assert committed(harness, 9, [0])[0].committed_offset == -1


# administration


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
async def test_describe_in_every_version(harness: Harness, version: int) -> None:
    member = joined(harness)
    sync(harness, member)
    (group,) = call(harness, ApiKey.DESCRIBE_GROUPS, version, groups=["g"], include_authorized_operations=True).groups
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (described,) = group.members
    assert (described.member_id, described.client_id, described.client_host) == (
        member.member_id,
        "client",
        "/127.0.0.1",
    )
    assert (described.member_metadata, described.member_assignment) == (b"meta", b"all")
    if version >= 3:
        assert group.authorized_operations == 0b110101001000
    (absent,) = call(harness, ApiKey.DESCRIBE_GROUPS, version, "no", groups=["no"]).groups
    assert (absent.error_code, absent.group_state) == (69 if version >= 6 else 0, "Dead")


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
async def test_list_in_every_version(harness: Harness, version: int) -> None:
    joined(harness)
    (group,) = call(harness, ApiKey.LIST_GROUPS, version).groups
    assert (group.group_id, group.protocol_type) == ("g", "consumer")
    other = harness.coordinator_id("g") % 3 + 1
    assert harness.call(ApiKey.LIST_GROUPS, version, node_id=other).groups == ()


async def test_listing_is_filtered(harness: Harness) -> None:
    joined(harness)
    for filters, count in (
        ({"states_filter": ["completingrebalance"]}, 1),
        ({"states_filter": ["Stable"]}, 0),
        ({"types_filter": ["Classic"]}, 1),
        ({"types_filter": ["consumer"]}, 0),
    ):
        assert len(call(harness, ApiKey.LIST_GROUPS, 5, **filters).groups) == count


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
async def test_delete_in_every_version(harness: Harness, version: int) -> None:
    def delete() -> int:
        body = call(harness, ApiKey.DELETE_GROUPS, version, groups_names=["g"])
        return int(body.results[0].error_code)

    assert delete() == 69
    commit(harness, 9, 5)
    assert delete() == 0
    joined(harness)
    assert delete() == 68


REQUESTS: dict[ApiKey, dict[str, Any]] = {
    ApiKey.JOIN_GROUP: {"member_id": "m"},
    ApiKey.SYNC_GROUP: {},
    ApiKey.HEARTBEAT: {},
    ApiKey.LEAVE_GROUP: {},
    ApiKey.FIND_COORDINATOR: {"key": "g", "coordinator_keys": ["g"]},
    ApiKey.OFFSET_COMMIT: {"topics": [{"name": "t", "partitions": [{"partition_index": 1}]}]},
    ApiKey.OFFSET_FETCH: {
        "topics": [{"name": "t", "partition_indexes": [1]}],
        "groups": [{"group_id": "g", "topics": None}],
    },
    ApiKey.DESCRIBE_GROUPS: {"groups": ["g"]},
    ApiKey.LIST_GROUPS: {},
    ApiKey.DELETE_GROUPS: {"groups_names": ["g"]},
    ApiKey.OFFSET_DELETE: {},
}


@pytest.mark.parametrize(("api", "version"), [(api, version) for api in REQUESTS for version in versions(api)])
async def test_the_error_response_can_be_written_in_every_version(harness: Harness, api: ApiKey, version: int) -> None:
    body = harness.fail(api, version, UnknownServerError(), **REQUESTS[api])
    assert "-1" in repr(body) or "unknown_server_error" in repr(body)
