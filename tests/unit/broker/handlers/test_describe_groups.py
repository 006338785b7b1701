"""DescribeGroups, ListGroups, DeleteGroups: groups for administrators."""

from __future__ import annotations

import pytest

from aiokafkapy.protocol.api import ApiKey

from .group_requests import call, commit, joined, sync, versions
from .harness import Harness


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
